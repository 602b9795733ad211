// SPDX-License-Identifier: LGPL-2.1-or-later
#include <devpool.h>
#include <stdio.h>

int main(void)
{
	DEVPOOL_AUTO struct devpool *dev = NULL;
	struct devpool_result result;
	struct devpool_pool *pool;
	void *block;

	if (devpool_open(NULL, &dev) || devpool_pool_create(dev, NULL, &pool))
		return 1;
	struct devpool_alloc_opts opts = { .sz = sizeof(opts), .pool = devpool_pool_id(pool) };
	if (devpool_alloc(dev, 20 << 20, &opts, &block))
		return 1;
	sprintf(block, "%d MiB of the device's memory", 20);
	return devpool_free(dev, block) || devpool_pool_close(pool, 0, &result) ||
	       printf("%llu bytes went back\n", (unsigned long long)result.freed) < 0;
}
