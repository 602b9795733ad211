// SPDX-License-Identifier: GPL-2.0-only
/*
 * A function for GNU make, $(exit-with STATUS): make answers 2 to whatever
 * fails, but make vm ends with the status of its command, and make check tells
 * a failed test from a failed set-up. See the end of the Makefile.
 */

#include <gnumake.h>
#include <stdlib.h>

int exit_gmk_setup(void);

/* The name that make asks for. */
int plugin_is_GPL_compatible;

static char *exit_with(const char *name, unsigned int argc, char **argv)
{
	(void)name;
	(void)argc;
	exit(atoi(argv[0]));
}

int exit_gmk_setup(void)
{
	gmk_add_function("exit-with", exit_with, 1, 1, GMK_FUNC_DEFAULT);
	return 1;
}
