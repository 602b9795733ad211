// SPDX-License-Identifier: GPL-2.0-only
/*
 * The examples of Documentation/userspace-api print what its pages say.
 */
#define main mempool_example
#define check mempool_check
#include "../lib/examples/mempool.c"
#undef check
#undef main
#undef MIB

#define main share_example
#include "../Documentation/examples/share.c"
#undef main
#undef BYTES
#undef MIB

#define main dmabuf_example
#include "../Documentation/examples/dmabuf.c"
#undef main
#undef BYTES

#include "library_test.h"

/* Runs a program on a device: its status, and what it has printed. */
static int run(int (*program)(void), const char *node, char *text, size_t size)
{
	size_t len = 0;
	int out[2];
	int status;
	ssize_t n;
	pid_t pid;

	fflush(stdout);
	if (pipe2(out, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		dup2(out[1], STDOUT_FILENO);
		setenv("DEVPOOL_DEVICE", node, 1);
		status = program();
		fflush(stdout);
		_exit(status);
	}
	close(out[1]);
	while (len < size - 1 && (n = read(out[0], text + len, size - 1 - len)) > 0)
		len += n;
	text[len] = 0;
	close(out[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

TEST_F(library, mempool_ported)
{
	struct test_base base = test_base(self->info.out_index);
	char text[4096];

	if (self->info.out_chunk != 2 * MIB)
		SKIP(return, "the page is about chunks of 2 MiB");
	EXPECT_EQ(0, run(mempool_example, self->node, text, sizeof(text)));
	EXPECT_STREQ("use count 1, 6 MiB allocated, 30 MiB resident\n"
		     "empty_cache: 0 MiB came back\n"
		     "trim: 24 MiB came back\n"
		     "block of 6 MiB, live\n"
		     "pool closed: 6 MiB are live\n"
		     "its last byte is 1\n"
		     "tensor freed: 0 MiB resident\n", text);
	EXPECT_BASE(base, self->info.out_index);
}

TEST_F(library, pool_shared)
{
	struct test_base base = test_base(self->info.out_index);
	char text[4096];

	if (self->info.out_chunk != 2 * MIB)
		SKIP(return, "the page is about chunks of 2 MiB");
	EXPECT_EQ(0, run(share_example, self->node, text, sizeof(text)));
	EXPECT_STREQ("producer: closed the pool, 6 MiB are live\n"
		     "consumer: the sum is right\n"
		     "consumer: closed the pool, 6 MiB went back\n", text);
	EXPECT_BASE(base, self->info.out_index);
}

TEST_F(library, block_exported)
{
	struct test_base base = test_base(self->info.out_index);
	char text[4096];

	EXPECT_EQ(0, run(dmabuf_example, self->node, text, sizeof(text)));
	EXPECT_STREQ("the device is closed\n"
		     "written by one process, read by another\n", text);
	EXPECT_BASE(base, self->info.out_index);
}

TEST_HARNESS_MAIN
