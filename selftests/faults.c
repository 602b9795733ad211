// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fault sweep: each command, and what else enters the module, with the n-th
 * allocation or user copy on its way failing, for n = 1, 2, 3, ... until it succeeds
 * with nothing injected. After each failure the errno is one that the command has,
 * nothing has changed, and the call works.
 *
 * Where only copying a report out can fail, an act that is done stays done: for these
 * the state may be that before or that after.
 *
 * Needs a kernel with FAULT_INJECTION, FAILSLAB, FAIL_PAGE_ALLOC and
 * FAULT_INJECTION_USERCOPY. Its fail-nth counts all three kinds in one, and those of
 * the others can be left out for slabs and pages: so there are three passes, with
 * user copies alone, with slabs beside, with pages beside.
 */
#include "fence_test.h"

#define DEBUGFS "/sys/kernel/debug/"
/* A call that allocates more often than that is not one of these. */
#define MOST 4000

enum pass { USERCOPY, SLAB, PAGE, PASSES };

static bool knob(const char *name, const char *value)
{
	char path[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), DEBUGFS "%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = write(fd, value, strlen(value));
	close(fd);
	return n > 0;
}

/* Which kinds of allocation are to fail, and all of their kind */
static bool choose(enum pass pass)
{
	return knob("failslab/ignore-gfp-wait", pass == SLAB ? "N" : "Y") &&
	       knob("failslab/verbose", "0") &&
	       knob("fail_page_alloc/ignore-gfp-wait", pass == PAGE ? "N" : "Y") &&
	       knob("fail_page_alloc/ignore-gfp-highmem", "N") &&
	       knob("fail_page_alloc/min-order", "0") &&
	       knob("fail_page_alloc/verbose", "0") &&
	       knob("fail_usercopy/verbose", "0");
}

static int fail_nth = -1;

static void inject(unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	if (pwrite(fail_nth, text, len, 0) < 0 && n)
		abort();
}

/*
 * Was it injected? Otherwise reading the rest counts as well, and can fail in its
 * turn.
 */
static bool was_injected(void)
{
	char text[16] = "";

	return pread(fail_nth, text, sizeof(text) - 1, 0) > 0 && atoi(text) == 0;
}

FIXTURE(faults)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	struct devpool_pool_id made;
	struct devpool_pool_id minted;
	__u64 block;
	__u64 theirs;
	__u64 addr;
	__u64 chunk;
	char *p;
	int index;
	int fd;
	int pool;
	int peer;
	int made_fd;
	int opened;
	__u32 stream;
	__u32 fenced;
	/* the last point of the stream that is submitted to */
	__u64 point;
	/* fences that nobody signals: one, and two in one */
	int sync;
	int merged;
	int out_fence;
	int vgem;
	int importer;
	int heap;
	__u32 handle;
	/* For a call that has something to prepare before the fault */
	unsigned int nth;
	bool was_injected;
};

/* One call: 0 or -errno. It leaves what @undo takes back. */
struct entry {
	const char *name;
	int (*call)(struct _test_data_faults *self);
	void (*undo)(struct _test_data_faults *self);
	/* Errors beside ENOMEM and EFAULT that a fault may become */
	int also;
	bool act_may_be_done;
	/* It injects the fault itself. */
	bool prepares;
	/* What has to be seen to fail */
	unsigned int slabs;
	unsigned int pages;
	unsigned int copies;
};

struct state {
	struct test_base base;
	__u64 now[TEST_COUNTERS];
	__u64 peer[TEST_COUNTERS];
	__u64 threshold;
	__u64 limit;
	__u32 use_count;
	int streams;
};

static void read_stats(int fd, __u64 *now)
{
	struct devpool_stats stats;

	if (devpool_stats_raw(fd, &stats))
		abort();
	now[0] = stats.out_allocated.current;
	now[1] = stats.out_requested.current;
	now[2] = stats.out_active.current;
	now[3] = stats.out_blocks.current;
	/* What is cached and spare may have been given back on the way. */
	now[4] = 0;
	now[5] = 0;
}

static void read_state(struct _test_data_faults *self, struct state *state)
{
	struct devpool_pool_stat stat;

	memset(state, 0, sizeof(*state));
	state->base = test_base(self->index);
	/* Of memory, what is live counts. */
	state->base.used = 0;
	read_stats(self->fd, state->now);
	read_stats(self->peer, state->peer);
	if (devpool_pool_stat_raw(self->fd, self->id, &stat))
		abort();
	state->use_count = stat.out_use_count;
	state->streams = atoi(devpool_fdinfo(self->fd, "streams"));
	devpool_pool_attr_raw(self->fd, self->id, 0, DEVPOOL_ATTR_LIMIT, 0, &state->limit);
	devpool_pool_attr_raw(self->fd, self->id, 0, DEVPOOL_ATTR_RELEASE_THRESHOLD, 0,
			      &state->threshold);
}

/* What the worker has in its hands is in no number until it has done with it. */
static void trim_stock(struct _test_data_faults *self)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/class/devpool/devpool%d/trim", self->index);
	do {
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, "0", 1) != 1)
			abort();
		close(fd);
		usleep(20000);
	} while (devpool_sysfs(self->index, "clean") || devpool_sysfs(self->index, "dirty"));
}

FIXTURE_SETUP(faults)
{
	struct test_fences fences = { .timeline = true };
	enum pass pass;
	__u32 fence;
	int other;
	FILE *f;

	test_setup(self, TEST_SYSMEM);
	self->chunk = self->info.out_chunk;
	self->peer = test_open(self->index);
	self->pool = test_pool_create(self->fd, &self->id);
	self->block = test_alloc(self->fd, self->id, 512);
	test_pool_attach(self->peer, self->pool, &self->made);
	self->theirs = test_alloc(self->peer, self->id, 4 * MIB);
	self->p = test_map(self->fd, self->block, 512);

	f = fopen("/proc/thread-self/fail-nth", "re");
	if (!f)
		SKIP(return, "this kernel injects no faults");
	fclose(f);
	fail_nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fail_nth);
	for (pass = 0; pass < PASSES; pass++)
		ASSERT_TRUE(choose(pass))
			TH_LOG("debugfs has not all that is needed: %s", strerror(errno));
	self->stream = test_stream(self->fd, 0);
	self->fenced = test_stream(self->fd, DEVPOOL_STREAM_FENCED);
	fences.file = open(TEST_SW_SYNC, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fences.file)
		TH_LOG("no sw_sync");
	self->sync = test_fence(&fences, &fence);
	/* Two of one timeline would be merged into the later one. */
	fences.file = open(TEST_SW_SYNC, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fences.file);
	other = test_fence(&fences, &fence);
	self->merged = test_sync_merge(self->sync, other);
	ASSERT_LE(0, self->merged);
}

FIXTURE_TEARDOWN(faults)
{
}

/* The calls */

static int call_open(struct _test_data_faults *self)
{
	char path[32];

	snprintf(path, sizeof(path), "/dev/devpool%d", self->index);
	self->opened = open(path, O_RDWR | O_CLOEXEC);
	return self->opened < 0 ? -errno : 0;
}

static void undo_open(struct _test_data_faults *self)
{
	close(self->opened);
}

static int call_info(struct _test_data_faults *self)
{
	struct devpool_info info;

	return devpool_info_raw(self->fd, &info);
}

static void undo_nothing(struct _test_data_faults *self)
{
}

static int alloc_flags(struct _test_data_faults *self, struct devpool_pool_id id, __u64 bytes,
		       __u32 flags)
{
	struct devpool_alloc cmd = { .bytes = bytes, .pool = id, .flags = flags };
	int ret = devpool_alloc_opts_raw(self->fd, &cmd);

	self->addr = cmd.out_addr;
	return ret;
}

static int call_alloc_hit(struct _test_data_faults *self)
{
	return alloc_flags(self, self->id, 512, 0);
}

static int call_batch(struct _test_data_faults *self)
{
	struct devpool_batch_op op = {
		.command = DEVPOOL_CMD_ALLOC,
		.bytes = 512,
		.pool = self->id,
	};
	int ret = devpool_batch_raw(self->fd, &op, 1);

	self->addr = op.out_addr;
	return ret < 0 ? ret : op.out_err;
}

static int call_alloc_chunks(struct _test_data_faults *self)
{
	return alloc_flags(self, self->id, 3 * self->chunk, 0);
}

static int call_alloc_zero(struct _test_data_faults *self)
{
	return alloc_flags(self, self->id, 3 * self->chunk, DEVPOOL_ALLOC_ZERO);
}

static void undo_alloc(struct _test_data_faults *self)
{
	struct devpool_empty_cache empty;

	if (devpool_free_raw(self->fd, self->addr) ||
	    devpool_empty_cache_raw(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0, &empty))
		abort();
	trim_stock(self);
}

/* A range of its own: what is too large for those that are there */
static int call_alloc_range(struct _test_data_faults *self)
{
	int ret;

	self->made = default_pool;
	ret = devpool_pool_create_raw(self->fd, &self->made, &self->made_fd);
	if (!ret) {
		ret = alloc_flags(self, self->made, 2 * self->chunk, 0);
		if (ret)
			close(self->made_fd);
	}
	return ret;
}

static void undo_alloc_range(struct _test_data_faults *self)
{
	if (devpool_free_raw(self->fd, self->addr))
		abort();
	close(self->made_fd);
	trim_stock(self);
}

/* What the pool has itself is moved. */
static int call_alloc_recycling(struct _test_data_faults *self)
{
	__u64 a, b;
	int ret;

	if (devpool_alloc_raw(self->fd, self->id, 2 * self->chunk, &a) ||
	    devpool_alloc_raw(self->fd, self->id, self->chunk, &b) ||
	    devpool_free_raw(self->fd, a))
		abort();
	inject(self->nth);
	ret = alloc_flags(self, self->id, 3 * self->chunk, 0);
	self->was_injected = was_injected();
	inject(0);
	if (devpool_free_raw(self->fd, b))
		abort();
	return ret;
}

static int call_free(struct _test_data_faults *self)
{
	return devpool_free_raw(self->fd, self->block);
}

static void undo_free(struct _test_data_faults *self)
{
	if (devpool_alloc_raw(self->fd, self->id, 512, &self->block))
		abort();
}

static int call_retain(struct _test_data_faults *self)
{
	return devpool_retain_raw(self->fd, self->theirs);
}

static void undo_retain(struct _test_data_faults *self)
{
	if (devpool_free_raw(self->fd, self->theirs))
		abort();
}

static int call_pool_id(struct _test_data_faults *self)
{
	struct devpool_pool_id id;

	return devpool_pool_id_raw(self->fd, DEVPOOL_POOL_ID_CAPTURE, &id);
}

static int call_pool_create(struct _test_data_faults *self)
{
	self->made = default_pool;
	return devpool_pool_create_raw(self->fd, &self->made, &self->made_fd);
}

static void undo_pool_create(struct _test_data_faults *self)
{
	close(self->made_fd);
}

static int call_pool_get_new(struct _test_data_faults *self)
{
	int ret = devpool_pool_get_raw(self->fd, self->minted);

	return ret < 0 ? ret : 0;
}

static void undo_pool_get_new(struct _test_data_faults *self)
{
	if (devpool_pool_put_raw(self->fd, self->minted) < 0)
		abort();
}

static int call_pool_get_fd(struct _test_data_faults *self)
{
	struct devpool_pool_id id;
	int ret = devpool_pool_attach_raw(self->opened, self->pool, &id);

	return ret < 0 ? ret : 0;
}

static void undo_pool_get_fd(struct _test_data_faults *self)
{
	if (devpool_pool_put_raw(self->opened, self->id) < 0)
		abort();
}

static int call_pool_put(struct _test_data_faults *self)
{
	int ret = devpool_pool_put_raw(self->peer, self->id);

	return ret < 0 ? ret : 0;
}

static void undo_pool_put(struct _test_data_faults *self)
{
	struct devpool_pool_id id;

	if (devpool_pool_attach_raw(self->peer, self->pool, &id) < 0)
		abort();
}

static int call_pool_attr(struct _test_data_faults *self)
{
	__u64 value;

	return devpool_pool_attr_raw(self->fd, self->id, DEVPOOL_POOL_ATTR_SET,
				     DEVPOOL_ATTR_LIMIT, GIB, &value);
}

static void undo_pool_attr(struct _test_data_faults *self)
{
	__u64 value;

	devpool_pool_attr_raw(self->fd, self->id, DEVPOOL_POOL_ATTR_SET, DEVPOOL_ATTR_LIMIT, 0,
			      &value);
}

static int call_pool_stat(struct _test_data_faults *self)
{
	struct devpool_pool_stat stat;

	return devpool_pool_stat_raw(self->fd, self->id, &stat);
}

static int call_empty_cache(struct _test_data_faults *self)
{
	struct devpool_empty_cache empty;

	return devpool_empty_cache_raw(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0, &empty);
}

static int call_release(struct _test_data_faults *self)
{
	struct devpool_empty_cache empty;
	int ret;

	ret = devpool_empty_cache_raw(self->made_fd, default_pool, DEVPOOL_EMPTY_RELEASE, 0,
				      &empty);
	return ret;
}

static void undo_release(struct _test_data_faults *self)
{
	close(self->made_fd);
	self->made = default_pool;
	if (devpool_pool_create_raw(self->fd, &self->made, &self->made_fd))
		abort();
}

static int call_route_begin(struct _test_data_faults *self)
{
	return devpool_route_begin_raw(self->fd, self->id, DEVPOOL_SCOPE_THREAD);
}

static void undo_route_begin(struct _test_data_faults *self)
{
	if (devpool_route_end_raw(self->fd, self->id, DEVPOOL_SCOPE_THREAD))
		abort();
}

static int call_route_end(struct _test_data_faults *self)
{
	return devpool_route_end_raw(self->fd, self->id, DEVPOOL_SCOPE_ALL);
}

static void undo_route_end(struct _test_data_faults *self)
{
	if (devpool_route_begin_raw(self->fd, self->id, DEVPOOL_SCOPE_ALL))
		abort();
}

static int call_stats(struct _test_data_faults *self)
{
	struct devpool_stats stats;

	return devpool_stats_flags_raw(self->fd, DEVPOOL_STATS_DEVICE, &stats);
}

static int call_snapshot(struct _test_data_faults *self)
{
	static struct devpool_snapshot_entry entry[256];
	struct devpool_snapshot cmd;

	return devpool_snapshot_raw(self->fd, default_pool, DEVPOOL_SNAPSHOT_DEVICE, 0, entry, 256,
				    &cmd);
}

static int call_limit(struct _test_data_faults *self)
{
	return devpool_limit_raw(self->fd, 0);
}

static int call_mmap(struct _test_data_faults *self)
{
	self->p = devpool_map_raw(self->peer, self->theirs, 4 * MIB);
	return self->p ? 0 : -errno;
}

static void undo_mmap(struct _test_data_faults *self)
{
	test_unmap(self->p, 4 * MIB);
}

static int call_export(struct _test_data_faults *self)
{
	return devpool_export_raw(self->peer, self->theirs, O_RDWR | O_CLOEXEC,
				  &self->opened);
}

static void undo_export(struct _test_data_faults *self)
{
	close(self->opened);
}

static int call_export_mmap(struct _test_data_faults *self)
{
	self->p = devpool_map_raw(self->opened, 0, 4 * MIB);
	return self->p ? 0 : -errno;
}

/* A driver attaches its device and maps the memory. */
static int call_import(struct _test_data_faults *self)
{
	return test_import_raw(self->vgem, self->opened, &self->handle);
}

static void undo_import(struct _test_data_faults *self)
{
	if (test_import_end_raw(self->vgem, self->handle))
		abort();
}

/* The same by another driver, and an address of the kernel's */
static int call_attach(struct _test_data_faults *self)
{
	struct importer arg = { .buf = self->opened };

	return ioctl(self->importer, IMPORTER_TABLE, &arg) ? -errno : 0;
}

static int call_vmap(struct _test_data_faults *self)
{
	struct importer arg = { .buf = self->opened };

	return ioctl(self->importer, IMPORTER_VMAP, &arg) ? -errno : 0;
}

/* A buffer of the device's heap, with chunks that it has to take */
static int call_heap(struct _test_data_faults *self)
{
	self->opened = test_heap_alloc_raw(self->heap, 3 * self->chunk);
	return self->opened < 0 ? self->opened : 0;
}

static void undo_heap(struct _test_data_faults *self)
{
	close(self->opened);
	trim_stock(self);
}

/* Bytes of live and of pending blocks, of all clients and of the heap */
static __u64 device_active(struct _test_data_faults *self)
{
	struct devpool_stats stats;

	if (devpool_stats_flags_raw(self->fd, DEVPOOL_STATS_DEVICE, &stats))
		abort();
	return stats.out_active.current;
}

/* The kernel tries again where a page table could not be had. */
static int call_fault(struct _test_data_faults *self)
{
	return test_touch(self->p + 2 * MIB) ? -EFAULT : 0;
}

static void undo_fault(struct _test_data_faults *self)
{
	test_unmap(self->p, 4 * MIB);
	self->p = devpool_map_at_raw(self->peer, self->theirs, 4 * MIB, false);
	if (!self->p)
		abort();
}

static int call_close(struct _test_data_faults *self)
{
	return close(self->opened) ? -errno : 0;
}

static void undo_close(struct _test_data_faults *self)
{
	struct devpool_pool_id id;
	__u64 addr;

	self->opened = devpool_open_node(self->index);
	if (self->opened < 0 || devpool_pool_attach_raw(self->opened, self->pool, &id) < 0 ||
	    devpool_alloc_raw(self->opened, self->id, 512, &addr) ||
	    devpool_retain_raw(self->opened, self->block))
		abort();
}

static int call_fdinfo(struct _test_data_faults *self)
{
	char text[4096], path[64];
	int fd, ret = 0;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", self->pool);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (read(fd, text, sizeof(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

static int call_stream_create(struct _test_data_faults *self)
{
	return devpool_stream_create_raw(self->fd, 0, &self->stream);
}

static int call_stream_create_fenced(struct _test_data_faults *self)
{
	return devpool_stream_create_raw(self->fd, DEVPOOL_STREAM_FENCED, &self->stream);
}

static void undo_stream_create(struct _test_data_faults *self)
{
	if (devpool_stream_destroy_raw(self->fd, self->stream))
		abort();
}

static int call_stream_destroy(struct _test_data_faults *self)
{
	return devpool_stream_destroy_raw(self->fd, self->stream);
}

static void undo_stream_destroy(struct _test_data_faults *self)
{
	if (devpool_stream_create_raw(self->fd, 0, &self->stream))
		abort();
}

/* A submission that fails adds no point: the next one has the next number. */
static int submit(struct _test_data_faults *self, __u32 stream, int in_fence, __u32 flags)
{
	struct devpool_stream_submit cmd = {
		.stream = stream,
		.in_fence = in_fence,
		.flags = flags,
	};
	int ret = devpool_stream_submit_raw(self->fd, &cmd);

	if (ret)
		return ret;
	self->out_fence = cmd.out_fence;
	return cmd.out_point == ++self->point ? 0 : -EPROTO;
}

static int call_submit(struct _test_data_faults *self)
{
	return submit(self, self->stream, 0, 0);
}

static void undo_submit(struct _test_data_faults *self)
{
	if (devpool_stream_signal_raw(self->fd, self->stream, self->point))
		abort();
}

static int call_submit_fence(struct _test_data_faults *self)
{
	return submit(self, self->fenced, self->sync, DEVPOOL_SUBMIT_FENCE_IN);
}

static int call_submit_merged(struct _test_data_faults *self)
{
	return submit(self, self->fenced, self->merged, DEVPOOL_SUBMIT_FENCE_IN);
}

static int call_submit_fence_out(struct _test_data_faults *self)
{
	return submit(self, self->fenced, self->sync,
		      DEVPOOL_SUBMIT_FENCE_IN | DEVPOOL_SUBMIT_FENCE_OUT);
}

static void undo_submit_fence_out(struct _test_data_faults *self)
{
	if (close(self->out_fence))
		abort();
}

static int call_signal(struct _test_data_faults *self)
{
	return devpool_stream_signal_raw(self->fd, self->stream, self->point);
}

static void undo_signal(struct _test_data_faults *self)
{
	if (call_submit(self))
		abort();
}

/* Each time a stream that the pool has not seen */
static void renew_stream(struct _test_data_faults *self)
{
	undo_stream_create(self);
	undo_stream_destroy(self);
}

static int call_record(struct _test_data_faults *self)
{
	return devpool_record_raw(self->fd, self->block, self->stream);
}

static void undo_record(struct _test_data_faults *self)
{
	if (call_free(self))
		abort();
	undo_free(self);
	renew_stream(self);
}

static int call_alloc_on(struct _test_data_faults *self)
{
	struct devpool_alloc cmd = {
		.bytes = 512,
		.pool = self->id,
		.stream = self->stream,
	};
	int ret = devpool_alloc_opts_raw(self->fd, &cmd);

	self->addr = cmd.out_addr;
	return ret;
}

static void undo_alloc_on(struct _test_data_faults *self)
{
	if (devpool_free_raw(self->fd, self->addr))
		abort();
	renew_stream(self);
}

/* A block that the stream uses when it is freed */
static void undo_free_pending(struct _test_data_faults *self)
{
	renew_stream(self);
	self->point = 0;
	undo_free(self);
	if (call_record(self) || call_submit(self))
		abort();
}

static int call_empty_wait(struct _test_data_faults *self)
{
	struct devpool_empty_cache empty;
	int ret;

	ret = devpool_empty_until_raw(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0,
				      test_now() + 2000000, &empty);
	return ret ? ret : empty.out_pending ? 0 : -EPROTO;
}

static int call_route_stream_begin(struct _test_data_faults *self)
{
	return devpool_route_stream_raw(self->fd, DEVPOOL_IOC_ROUTE_BEGIN, self->id, self->stream);
}

static int call_route_stream_end(struct _test_data_faults *self)
{
	return devpool_route_stream_raw(self->fd, DEVPOOL_IOC_ROUTE_END, self->id, self->stream);
}

static void undo_route_stream_begin(struct _test_data_faults *self)
{
	if (call_route_stream_end(self))
		abort();
}

static void undo_route_stream_end(struct _test_data_faults *self)
{
	if (call_route_stream_begin(self))
		abort();
}

/* What a sweep has seen fail */
static unsigned int sweep(struct __test_metadata *_metadata, struct _test_data_faults *self,
			  const struct entry *entry, enum pass pass)
{
	struct state before, after, now;
	unsigned int n, failed = 0;
	bool injected, same;
	int ret;

	ASSERT_TRUE(choose(pass));
	/* Once for what is made only the first time, and for the state after it */
	self->nth = 0;
	read_state(self, &before);
	ASSERT_EQ(0, entry->call(self))
		TH_LOG("%s does not work", entry->name);
	read_state(self, &after);
	entry->undo(self);

	for (n = 1; n < MOST; n++) {
		read_state(self, &before);
		if (entry->prepares) {
			self->nth = n;
			ret = entry->call(self);
			injected = self->was_injected;
		} else {
			inject(n);
			ret = entry->call(self);
			injected = was_injected();
			inject(0);
		}
		if (!injected) {
			ASSERT_EQ(0, ret);
			entry->undo(self);
			break;
		}
		failed++;
		if (!ret) {
			entry->undo(self);
			continue;
		}
		EXPECT_TRUE(ret == -ENOMEM || ret == -EFAULT ||
			    (entry->also && ret == -entry->also))
			TH_LOG("%s, fault %u: %s", entry->name, n, strerror(-ret));
		read_state(self, &now);
		same = !memcmp(&before, &now, sizeof(now));
		if (!same && entry->act_may_be_done && ret == -EFAULT) {
			EXPECT_EQ(0, memcmp(&after, &now, sizeof(now)))
				TH_LOG("%s, fault %u: half done", entry->name, n);
			entry->undo(self);
		} else {
			EXPECT_TRUE(same)
				TH_LOG("%s, fault %u: something has changed", entry->name, n);
		}
	}
	EXPECT_LT(n, MOST);
	return failed;
}

static void sweep_all(struct __test_metadata *_metadata, struct _test_data_faults *self,
		      const struct entry *entry)
{
	unsigned int failed[PASSES];
	enum pass pass;

	for (pass = 0; pass < PASSES; pass++)
		failed[pass] = sweep(_metadata, self, entry, pass);
	TH_LOG("%s: %u user copies, %u slabs, %u pages failed", entry->name, failed[USERCOPY],
	       failed[SLAB] - failed[USERCOPY], failed[PAGE] - failed[USERCOPY]);
	EXPECT_LE(entry->copies, failed[USERCOPY]);
	EXPECT_LE(entry->slabs, failed[SLAB] - failed[USERCOPY]);
	EXPECT_LE(entry->pages, failed[PAGE] - failed[USERCOPY]);
}

#define SWEEP(...) sweep_all(_metadata, self, &(const struct entry){ __VA_ARGS__ })

TEST_F_TIMEOUT(faults, open, 60)
{
	SWEEP("open", call_open, undo_open, .slabs = 3);
}

TEST_F_TIMEOUT(faults, info, 60)
{
	SWEEP("INFO", call_info, undo_nothing, .copies = 2);
}

TEST_F_TIMEOUT(faults, alloc_hit, 60)
{
	SWEEP("ALLOC, a hit", call_alloc_hit, undo_alloc, .copies = 1);
}

/* The last of the copies tells of what was done. */
TEST_F_TIMEOUT(faults, batch, 60)
{
	SWEEP("BATCH", call_batch, undo_alloc, .copies = 6, .act_may_be_done = true);
}

TEST_F_TIMEOUT(faults, export, 60)
{
	SWEEP("EXPORT", call_export, undo_export, .slabs = 4, .copies = 2, .also = EMFILE);
}

TEST_F_TIMEOUT(faults, export_mmap, 60)
{
	ASSERT_EQ(0, call_export(self));
	SWEEP("mmap of a dma-buf", call_export_mmap, undo_mmap, .slabs = 1);
	close(self->opened);
}

TEST_F_TIMEOUT(faults, import, 60)
{
	self->vgem = test_open_vgem();
	ASSERT_LE(0, self->vgem);
	ASSERT_EQ(0, call_export(self));
	SWEEP("import by vgem", call_import, undo_import, .slabs = 3, .copies = 2);
	close(self->opened);
	close(self->vgem);
}

TEST_F_TIMEOUT(faults, import_by_the_kernel, 120)
{
	self->importer = test_open_importer();
	ASSERT_LE(0, self->importer);
	ASSERT_EQ(0, call_export(self));
	SWEEP("attach and map", call_attach, undo_nothing, .slabs = 3, .copies = 2);
	SWEEP("vmap", call_vmap, undo_nothing, .slabs = 2, .copies = 2);
	close(self->opened);
	close(self->importer);
}

TEST_F_TIMEOUT(faults, heap, 120)
{
	__u64 before = device_active(self);

	self->heap = test_open_heap(self->index);
	ASSERT_LE(0, self->heap);
	trim_stock(self);
	SWEEP("a heap's ALLOC", call_heap, undo_heap, .slabs = 5, .pages = 3, .copies = 2,
	      .also = EMFILE);
	EXPECT_EQ(before, device_active(self));
	close(self->heap);
}

TEST_F_TIMEOUT(faults, alloc_chunks, 120)
{
	SWEEP("ALLOC, new chunks", call_alloc_chunks, undo_alloc, .slabs = 2, .pages = 3,
	      .copies = 1);
}

TEST_F_TIMEOUT(faults, alloc_range, 120)
{
	SWEEP("ALLOC, new addresses", call_alloc_range, undo_alloc_range, .slabs = 8, .pages = 2,
	      .copies = 3, .also = EMFILE);
}

TEST_F_TIMEOUT(faults, alloc_recycling, 120)
{
	SWEEP("ALLOC, recycling", call_alloc_recycling, undo_alloc, .slabs = 1, .copies = 1,
	      .prepares = true);
}

TEST_F_TIMEOUT(faults, alloc_zero, 120)
{
	SWEEP("ALLOC, zero", call_alloc_zero, undo_alloc, .slabs = 2, .pages = 3, .copies = 1);
}

TEST_F_TIMEOUT(faults, alloc_routed, 60)
{
	test_route_begin(self->fd, self->id, DEVPOOL_SCOPE_ALL);
	self->id = default_pool;
	SWEEP("ALLOC, routed", call_alloc_hit, undo_alloc, .copies = 1);
}

TEST_F_TIMEOUT(faults, free, 60)
{
	SWEEP("FREE", call_free, undo_free, .copies = 1);
}

TEST_F_TIMEOUT(faults, retain, 60)
{
	SWEEP("RETAIN", call_retain, undo_retain, .slabs = 1, .copies = 1);
}

TEST_F_TIMEOUT(faults, pool_id, 60)
{
	SWEEP("POOL_ID", call_pool_id, undo_nothing, .copies = 2);
}

TEST_F_TIMEOUT(faults, pool_create, 60)
{
	SWEEP("POOL_CREATE", call_pool_create, undo_pool_create, .slabs = 4, .copies = 2,
	      .also = EMFILE);
}

TEST_F_TIMEOUT(faults, pool_get_by_id, 60)
{
	self->minted = test_pool_id(self->fd, 0);
	SWEEP("POOL_GET by id", call_pool_get_new, undo_pool_get_new, .slabs = 2, .copies = 2);
}

TEST_F_TIMEOUT(faults, pool_get_by_file, 60)
{
	self->opened = test_open(self->index);
	SWEEP("POOL_GET by file", call_pool_get_fd, undo_pool_get_fd, .slabs = 1, .copies = 2);
}

TEST_F_TIMEOUT(faults, pool_put, 60)
{
	SWEEP("POOL_PUT", call_pool_put, undo_pool_put, .copies = 2, .act_may_be_done = true);
}

TEST_F_TIMEOUT(faults, pool_attr, 60)
{
	SWEEP("POOL_ATTR", call_pool_attr, undo_pool_attr, .copies = 2);
}

TEST_F_TIMEOUT(faults, pool_stat, 60)
{
	SWEEP("POOL_STAT", call_pool_stat, undo_nothing, .copies = 2);
}

TEST_F_TIMEOUT(faults, empty_cache, 60)
{
	SWEEP("EMPTY_CACHE", call_empty_cache, undo_nothing, .copies = 2,
	      .act_may_be_done = true);
}

TEST_F_TIMEOUT(faults, release, 60)
{
	self->made_fd = test_pool_create(self->fd, &self->made);
	SWEEP("EMPTY_CACHE, release", call_release, undo_release, .copies = 2,
	      .act_may_be_done = true);
}

TEST_F_TIMEOUT(faults, route_begin, 60)
{
	SWEEP("ROUTE_BEGIN", call_route_begin, undo_route_begin, .slabs = 1, .copies = 1);
}

TEST_F_TIMEOUT(faults, route_end, 60)
{
	test_route_begin(self->fd, self->id, DEVPOOL_SCOPE_ALL);
	SWEEP("ROUTE_END", call_route_end, undo_route_end, .copies = 1);
}

TEST_F_TIMEOUT(faults, route_of_a_stream, 60)
{
	SWEEP("ROUTE_BEGIN of a stream", call_route_stream_begin, undo_route_stream_begin,
	      .slabs = 1, .copies = 1);
	undo_route_stream_end(self);
	SWEEP("ROUTE_END of a stream", call_route_stream_end, undo_route_stream_end, .copies = 1);
}

TEST_F_TIMEOUT(faults, stream_create, 60)
{
	SWEEP("STREAM_CREATE", call_stream_create, undo_stream_create, .slabs = 1, .copies = 2);
}

TEST_F_TIMEOUT(faults, stream_create_fenced, 60)
{
	SWEEP("STREAM_CREATE, fenced", call_stream_create_fenced, undo_stream_create, .slabs = 1,
	      .copies = 2);
}

TEST_F_TIMEOUT(faults, stream_destroy, 60)
{
	SWEEP("STREAM_DESTROY", call_stream_destroy, undo_stream_destroy, .copies = 1);
}

TEST_F_TIMEOUT(faults, submit, 60)
{
	SWEEP("STREAM_SUBMIT", call_submit, undo_submit, .copies = 2);
}

TEST_F_TIMEOUT(faults, submit_fence, 60)
{
	SWEEP("STREAM_SUBMIT, a fence in", call_submit_fence, undo_nothing, .slabs = 2,
	      .copies = 2);
}

TEST_F_TIMEOUT(faults, submit_merged_fences, 60)
{
	SWEEP("STREAM_SUBMIT, two fences in", call_submit_merged, undo_nothing, .slabs = 3,
	      .copies = 2);
}

TEST_F_TIMEOUT(faults, submit_fence_out, 60)
{
	SWEEP("STREAM_SUBMIT, a fence in and out", call_submit_fence_out, undo_submit_fence_out,
	      .slabs = 4, .copies = 2, .also = EMFILE);
}

TEST_F_TIMEOUT(faults, signal, 60)
{
	undo_signal(self);
	SWEEP("STREAM_SIGNAL", call_signal, undo_signal, .copies = 1);
}

TEST_F_TIMEOUT(faults, record, 60)
{
	SWEEP("RECORD", call_record, undo_record, .slabs = 2, .copies = 1);
}

TEST_F_TIMEOUT(faults, alloc_on_a_stream, 60)
{
	SWEEP("ALLOC on a stream", call_alloc_on, undo_alloc_on, .slabs = 1, .copies = 2);
}

TEST_F_TIMEOUT(faults, free_into_pending, 60)
{
	test_record(self->fd, self->block, self->stream);
	ASSERT_EQ(0, call_submit(self));
	SWEEP("FREE into pending", call_free, undo_free_pending, .copies = 1);
}

TEST_F_TIMEOUT(faults, empty_cache_that_waits, 60)
{
	__u64 x = test_alloc(self->fd, self->id, 512);

	test_record(self->fd, x, self->stream);
	ASSERT_EQ(0, call_submit(self));
	test_free(self->fd, x);
	SWEEP("EMPTY_CACHE that waits", call_empty_wait, undo_nothing, .copies = 2,
	      .act_may_be_done = true);
}

TEST_F_TIMEOUT(faults, stats, 60)
{
	SWEEP("STATS", call_stats, undo_nothing, .copies = 2);
}

TEST_F_TIMEOUT(faults, snapshot, 60)
{
	SWEEP("SNAPSHOT", call_snapshot, undo_nothing, .pages = 1, .copies = 3);
}

TEST_F_TIMEOUT(faults, limit, 60)
{
	SWEEP("LIMIT", call_limit, undo_nothing, .copies = 1);
}

TEST_F_TIMEOUT(faults, mmap, 60)
{
	SWEEP("mmap", call_mmap, undo_mmap, .slabs = 2);
}

TEST_F_TIMEOUT(faults, fault, 120)
{
	test_catch();
	self->p = devpool_map_at_raw(self->peer, self->theirs, 4 * MIB, false);
	ASSERT_NE(NULL, self->p);
	SWEEP("a fault", call_fault, undo_fault, .pages = 1);
}

TEST_F_TIMEOUT(faults, close, 60)
{
	undo_close(self);
	SWEEP("close", call_close, undo_close);
}

TEST_F_TIMEOUT(faults, fdinfo, 60)
{
	SWEEP("fdinfo", call_fdinfo, undo_nothing, .slabs = 1, .copies = 1);
}

TEST_HARNESS_MAIN
