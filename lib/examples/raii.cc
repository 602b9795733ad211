// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cstdio>
#include <devpool.h>
#include <memory>
#include <system_error>

struct Close {
	struct devpool *owner;
	void operator()(struct devpool *dev) const { devpool_close(dev); }
	void operator()(struct devpool_pool *pool) const { devpool_auto_pool_close(&pool); }
	void operator()(void *block) const { if (devpool_free(owner, block)) std::terminate(); }
};
template <class T> using Owned = std::unique_ptr<T, Close>;

static void check(int ret)
{
	if (ret)
		throw std::system_error(-ret, std::generic_category());
}

int main() try {
	struct devpool_alloc_opts opts = {};
	struct devpool_pool *pool;
	struct devpool *dev;
	void *block;

	check(devpool_open(nullptr, &dev));
	Owned<struct devpool> device_end(dev);
	check(devpool_pool_create(dev, nullptr, &pool));
	Owned<struct devpool_pool> pool_end(pool);
	opts.sz = sizeof(opts);
	opts.pool = devpool_pool_id(pool);
	check(devpool_alloc(dev, 20 << 20, &opts, &block));
	Owned<void> block_end(block, Close{dev});
	std::sprintf(static_cast<char *>(block), "%d MiB of the device's memory", 20);
	return 0;
} catch (const std::exception &e) {
	return std::fprintf(stderr, "%s\n", e.what()), 1;
}
