// SPDX-License-Identifier: GPL-2.0-only
/*
 * A module that warns when it is told to: what the VM's runner must notice.
 */

#include <linux/bug.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

static bool at_load;
module_param(at_load, bool, 0444);
MODULE_PARM_DESC(at_load, "warn when loaded");

static bool at_unload;
module_param(at_unload, bool, 0644);
MODULE_PARM_DESC(at_unload, "warn when unloaded");

static int __init warn_init(void)
{
	WARN_ON(at_load);
	return 0;
}

static void __exit warn_exit(void)
{
	WARN_ON(at_unload);
}

module_init(warn_init);
module_exit(warn_exit);

MODULE_DESCRIPTION("warns when told to, for the test of the test runner");
/* Without a version there is no srcversion. */
MODULE_VERSION("1");
MODULE_LICENSE("GPL");
