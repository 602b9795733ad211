/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of the library share.
 */
#ifndef LIBRARY_TEST_H
#define LIBRARY_TEST_H

#include <devpool.h>

#include "devpool_test.h"

FIXTURE(library)
{
	struct devpool *dev;
	struct devpool_info info;
	struct test_base base;
	char node[32];
};

FIXTURE_SETUP(library)
{
	int index = test_find(TEST_SYSMEM);

	self->dev = NULL;
	if (index < 0)
		SKIP(return, "there is no sysmem device");
	self->base = test_base(index);
	snprintf(self->node, sizeof(self->node), "/dev/devpool%d", index);
	ASSERT_EQ(0, devpool_open(self->node, &self->dev));
	ASSERT_EQ(0, devpool_info(self->dev, &self->info));
}

FIXTURE_TEARDOWN(library)
{
	devpool_close(self->dev);
}

/* A client of a device without memory; skips the test where there is none. */
#define open_null()								\
({										\
	int _index = test_find(TEST_NULL);					\
	struct devpool *_dev = NULL;						\
	char _node[32];								\
										\
	if (_index < 0)								\
		SKIP(return, "there is no null device");			\
	snprintf(_node, sizeof(_node), "/dev/devpool%d", _index);		\
	ASSERT_EQ(0, devpool_open(_node, &_dev));				\
	_dev;									\
})

#define new_pool(dev)								\
({										\
	struct devpool_pool *_pool = NULL;					\
										\
	ASSERT_EQ(0, devpool_pool_create(dev, NULL, &_pool));			\
	ASSERT_NE(NULL, _pool);							\
	_pool;									\
})

static inline int alloc_in(struct devpool_pool *pool, size_t bytes, void **ptr)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts), .pool = devpool_pool_id(pool) };

	return devpool_alloc(devpool_pool_device(pool), bytes, &opts, ptr);
}

#define new_block(pool, bytes)							\
({										\
	void *_ptr = NULL;							\
										\
	ASSERT_EQ(0, alloc_in(pool, bytes, &_ptr));				\
	ASSERT_NE(NULL, _ptr);							\
	(char *)_ptr;								\
})

#define new_default_block(dev, bytes)						\
({										\
	void *_ptr = NULL;							\
										\
	ASSERT_EQ(0, devpool_alloc(dev, bytes, NULL, &_ptr));			\
	ASSERT_NE(NULL, _ptr);							\
	(char *)_ptr;								\
})

#define addr_of(dev, ptr)							\
({										\
	uint64_t _addr = 0;							\
										\
	ASSERT_EQ(0, devpool_addr(dev, ptr, &_addr));				\
	_addr;									\
})

/* How many mappings of device nodes this process has */
static inline int mappings(void)
{
	char line[512];
	int n = 0;
	FILE *f;

	f = fopen("/proc/self/maps", "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		n += !!strstr(line, "/dev/devpool");
	fclose(f);
	return n;
}

/* The status of a child that runs the function */
static inline int in_child(void (*run)(void *arg), void *arg)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		run(arg);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

#define CHILD(cond)								\
do {										\
	if (!(cond)) {								\
		fprintf(stderr, "# in the child: %s, line %d\n", #cond, __LINE__); \
		_exit(1);							\
	}									\
} while (0)

#endif
