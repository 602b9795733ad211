// SPDX-License-Identifier: GPL-2.0-only
/*
 * What streams cost: who uses them, who frees what they use, whom a point lets go,
 * and everybody else, for whom they are to cost nothing.
 */
#include <sys/resource.h>

#include "bench.h"

#define ROUNDS (4 * BENCH_BATCHES)
#define RECORDS 64
#define POINTS 10000
#define STREAMS 1000
#define PENDING 100000
#define POOLS 1000

static uint32_t bench_stream(int fd)
{
	struct devpool_stream_create create = { .size = sizeof(create) };

	if (ioctl(fd, DEVPOOL_IOC_STREAM_CREATE, &create))
		bench_die("STREAM_CREATE");
	return create.out_stream;
}

static uint64_t bench_submit(int fd, uint32_t stream)
{
	struct devpool_stream_submit submit = { .size = sizeof(submit), .stream = stream };

	if (ioctl(fd, DEVPOOL_IOC_STREAM_SUBMIT, &submit))
		bench_die("STREAM_SUBMIT");
	return submit.out_point;
}

static void bench_signal(int fd, uint32_t stream, uint64_t point)
{
	struct devpool_stream_signal signal = {
		.size = sizeof(signal),
		.stream = stream,
		.point = point,
	};

	if (ioctl(fd, DEVPOOL_IOC_STREAM_SIGNAL, &signal))
		bench_die("STREAM_SIGNAL of %" PRIu64, point);
}

static void bench_record(int fd, uint64_t addr, uint32_t stream)
{
	struct devpool_record record = {
		.size = sizeof(record),
		.addr = addr,
		.stream = stream,
	};

	if (ioctl(fd, DEVPOOL_IOC_RECORD, &record))
		bench_die("RECORD");
}

/* A block is pending until the last point that the stream has. */
static void bench_pend(int fd, struct devpool_pool_id pool, uint64_t bytes, uint32_t stream)
{
	uint64_t addr = bench_alloc(fd, pool, bytes);

	bench_record(fd, addr, stream);
	bench_free(fd, addr);
}

/* So many bytes of the pool are pending: else this measures something else. */
static void expect_pending(int fd, struct devpool_pool_id pool, uint64_t bytes)
{
	struct devpool_pool_stat stat = { .size = sizeof(stat), .pool = pool };

	if (ioctl(fd, DEVPOOL_IOC_POOL_STAT, &stat))
		bench_die("POOL_STAT");
	stat.out_active.current -= stat.out_allocated.current;
	if (stat.out_active.current != bytes)
		bench_die("%" PRIu64 " bytes pending, not %" PRIu64,
			  (uint64_t)stat.out_active.current, bytes);
}

/* Memory of a stream, again and again: without and with work outstanding on it */
static void reuse_memory(uint64_t bytes)
{
	int fd = bench_open("null");
	struct devpool_pool_id pool;
	struct bench_pair pair;
	uint32_t stream;
	int file;

	file = bench_pool_create(fd, &pool);
	bench_fill(fd, pool, bytes);
	bench_pair_init(&pair, fd, pool, bytes);
	bench_put(BENCH_PAIR(&pair), "stream.reuse.%" PRIu64 ".host", bytes);
	stream = bench_stream(fd);
	pair.alloc.stream = stream;
	bench_put(BENCH_PAIR(&pair), "stream.reuse.%" PRIu64 ".pair", bytes);
	bench_submit(fd, stream);
	bench_put(BENCH_PAIR(&pair), "stream.reuse.%" PRIu64 ".open", bytes);
	close(file);
	close(fd);
}

/* FREE of a block that so many streams use */
static uint64_t free_of(int fd, struct devpool_pool_id pool, const uint32_t *stream, int n)
{
	uint64_t least = UINT64_MAX, point[RECORDS], begin, addr;
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		addr = bench_alloc(fd, pool, 4 * KIB);
		for (i = 0; i < n; i++) {
			point[i] = bench_submit(fd, stream[i]);
			bench_record(fd, addr, stream[i]);
		}
		begin = bench_now();
		bench_free(fd, addr);
		bench_least(&least, begin, bench_now());
		expect_pending(fd, pool, n ? 4 * KIB : 0);
		for (i = 0; i < n; i++)
			bench_signal(fd, stream[i], point[i]);
	}
	return least;
}

static void records(void)
{
	static const int counts[] = { 1, 8, 64 };
	int fd = bench_open("null");
	struct devpool_pool_id pool;
	uint32_t stream[RECORDS];
	uint64_t cost, before = 0;
	int file, n = 0;
	size_t i;

	file = bench_pool_create(fd, &pool);
	for (i = 0; i < RECORDS; i++)
		stream[i] = bench_stream(fd);
	bench_put(free_of(fd, pool, stream, 0), "stream.free.0");
	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		cost = free_of(fd, pool, stream, counts[i]);
		bench_put(cost, "stream.free.%d", counts[i]);
		if (cost < before)
			bench_die("FREE of a block that %d streams use", counts[i]);
		if (n)
			bench_put((double)(cost - before) / (counts[i] - n),
				  "stream.free.%d.each", counts[i]);
		before = cost;
		n = counts[i];
	}
	close(file);
	close(fd);
}

/* SIGNAL of the first of so many points of a stream, behind each of which is a block */
static void reap_first(int n)
{
	uint64_t least = UINT64_MAX, begin;
	int fd = bench_open("null");
	struct devpool_pool_id pool;
	uint32_t stream;
	int file, i;

	file = bench_pool_create(fd, &pool);
	stream = bench_stream(fd);
	for (i = 0; i < n; i++) {
		bench_submit(fd, stream);
		bench_pend(fd, pool, 4 * KIB, stream);
	}
	for (i = 1; i <= ROUNDS; i++) {
		begin = bench_now();
		bench_signal(fd, stream, i);
		bench_least(&least, begin, bench_now());
		expect_pending(fd, pool, (n - 1) * 4 * KIB);
		bench_submit(fd, stream);
		bench_pend(fd, pool, 4 * KIB, stream);
	}
	bench_put(least, "stream.reap.points.%d", n);
	close(file);
	close(fd);
}

/* SIGNAL of a stream that one block waits for, beside so many of other streams */
static void reap_beside(int n)
{
	uint64_t least = UINT64_MAX, point, begin;
	uint32_t other[STREAMS], stream;
	int fd = bench_open("null");
	struct devpool_pool_id pool;
	int file, i;

	file = bench_pool_create(fd, &pool);
	for (i = 0; i < STREAMS; i++) {
		other[i] = bench_stream(fd);
		bench_submit(fd, other[i]);
	}
	for (i = 0; i < n; i++)
		bench_pend(fd, pool, 4 * KIB, other[i % STREAMS]);
	stream = bench_stream(fd);
	for (i = 0; i < ROUNDS; i++) {
		point = bench_submit(fd, stream);
		bench_pend(fd, pool, 4 * KIB, stream);
		expect_pending(fd, pool, (n + 1) * 4 * KIB);
		begin = bench_now();
		bench_signal(fd, stream, point);
		bench_least(&least, begin, bench_now());
		expect_pending(fd, pool, n * 4 * KIB);
	}
	bench_put(least, "stream.reap.beside.%d", n);
	close(file);
	close(fd);
}

/* Pools that have nothing to do with what is pending: here, and of another client */
static void other_pools(void)
{
	int fd = bench_open("null"), peer = bench_open("null");
	struct bench_pair pair, peer_pair;
	struct devpool_pool_id pool, busy;
	uint32_t stream[STREAMS];
	int file, peer_file, i;

	peer_file = bench_pool_create(peer, &pool);
	bench_fill(peer, pool, 4 * KIB);
	bench_pair_init(&peer_pair, peer, pool, 4 * KIB);
	file = bench_pool_create(fd, &pool);
	bench_fill(fd, pool, 4 * KIB);
	bench_pair_init(&pair, fd, pool, 4 * KIB);
	bench_put(BENCH_PAIR(&pair), "stream.unrelated.none.pair");
	bench_put(BENCH_PAIR(&peer_pair), "stream.unrelated.none.peer");

	bench_pool_create(fd, &busy);
	for (i = 0; i < STREAMS; i++) {
		stream[i] = bench_stream(fd);
		bench_submit(fd, stream[i]);
	}
	for (i = 0; i < PENDING; i++)
		bench_pend(fd, busy, 4 * KIB, stream[i % STREAMS]);
	expect_pending(fd, busy, PENDING * 4 * KIB);
	bench_put(BENCH_PAIR(&pair), "stream.unrelated.pending.pair");
	bench_put(BENCH_PAIR(&peer_pair), "stream.unrelated.pending.peer");
	close(peer_file);
	close(peer);
	close(file);
	close(fd);
}

/* EMPTY_CACHE of a live pool that two streams have used */
static uint64_t flush_pool(int fd, struct devpool_pool_id pool, uint32_t own, uint32_t other)
{
	struct devpool_empty_cache empty = {
		.size = sizeof(empty),
		.flags = DEVPOOL_EMPTY_TRIM,
		.pool = pool,
		.timeout = INT64_MAX,
	};
	struct devpool_alloc alloc = {
		.size = sizeof(alloc),
		.bytes = 2 * MIB,
		.pool = pool,
		.stream = own,
	};
	uint64_t least = UINT64_MAX, point[2], begin;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		point[0] = bench_submit(fd, own);
		point[1] = bench_submit(fd, other);
		if (ioctl(fd, DEVPOOL_IOC_ALLOC, &alloc))
			bench_die("ALLOC on a stream");
		bench_pend(fd, pool, 2 * MIB, other);
		bench_free(fd, alloc.out_addr);
		bench_signal(fd, own, point[0]);
		bench_signal(fd, other, point[1]);
		begin = bench_now();
		if (ioctl(fd, DEVPOOL_IOC_EMPTY_CACHE, &empty))
			bench_die("EMPTY_CACHE");
		bench_least(&least, begin, bench_now());
		if (empty.out_freed != 4 * MIB)
			bench_die("EMPTY_CACHE of %" PRIu64 " bytes", (uint64_t)empty.out_freed);
	}
	return least;
}

static void flushes(void)
{
	int fd = bench_open("null");
	struct devpool_pool_id pool, id;
	uint32_t own, other, stream;
	int i;

	bench_pool_create(fd, &pool);
	own = bench_stream(fd);
	other = bench_stream(fd);
	bench_put(flush_pool(fd, pool, own, other), "stream.flush.0");
	for (i = 0; i < POOLS; i++) {
		bench_pool_create(fd, &id);
		stream = bench_stream(fd);
		bench_submit(fd, stream);
		bench_pend(fd, id, 2 * MIB, stream);
		expect_pending(fd, id, 2 * MIB);
	}
	bench_put(flush_pool(fd, pool, own, other), "stream.flush.%d", POOLS);
}

int main(void)
{
	struct rlimit files = { .rlim_cur = 2 * POOLS, .rlim_max = 2 * POOLS };

	if (setrlimit(RLIMIT_NOFILE, &files))
		bench_die("RLIMIT_NOFILE");
	reuse_memory(512);
	reuse_memory(2 * MIB);
	records();
	reap_first(1);
	reap_first(1000);
	reap_first(POINTS);
	reap_beside(0);
	reap_beside(1000);
	reap_beside(POINTS);
	other_pools();
	flushes();
	return 0;
}
