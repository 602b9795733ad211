// SPDX-License-Identifier: GPL-2.0-only
/*
 * BATCH: so many ALLOC in a call, then so many FREE.
 */
#include "bench.h"

#define BATCH_MAX 256

static const uint32_t counts[] = { 1, 4, 16, 64, 256 };

static void run(int fd, struct devpool_batch_op *ops, uint32_t count)
{
	struct devpool_batch batch = {
		.size = sizeof(batch),
		.ops = (uintptr_t)ops,
		.count = count,
		.op_size = sizeof(*ops),
	};
	uint32_t i;

	if (ioctl(fd, DEVPOOL_IOC_BATCH, &batch) || batch.out_done != count)
		bench_die("BATCH of %" PRIu32, count);
	for (i = 0; i < count; i++)
		if (ops[i].out_err)
			bench_die("BATCH: operation %" PRIu32 " is answered %" PRId32, i,
				  ops[i].out_err);
}

int main(void)
{
	static struct devpool_batch_op allocs[BATCH_MAX], frees[BATCH_MAX];
	int fd = bench_open("sysmem");
	struct devpool_pool_id pool;
	uint64_t alloc, free, t[3];
	uint32_t i, count;
	size_t n;
	int k;

	bench_pool_create(fd, &pool);
	bench_overhead();
	for (n = 0; n < ARRAY_SIZE(counts); n++) {
		count = counts[n];
		alloc = UINT64_MAX;
		free = UINT64_MAX;
		for (k = 0; k < BENCH_BATCHES; k++) {
			for (i = 0; i < count; i++)
				allocs[i] = (struct devpool_batch_op){
					.command = DEVPOOL_CMD_ALLOC,
					.bytes = 512,
					.pool = pool,
				};
			t[0] = bench_now();
			run(fd, allocs, count);
			t[1] = bench_now();
			bench_least(&alloc, t[0], t[1]);
			for (i = 0; i < count; i++)
				frees[i] = (struct devpool_batch_op){
					.command = DEVPOOL_CMD_FREE,
					.addr = allocs[i].out_addr,
				};
			t[1] = bench_now();
			run(fd, frees, count);
			t[2] = bench_now();
			bench_least(&free, t[1], t[2]);
		}
		bench_put((double)(alloc + free) / (2 * count), "batch.%" PRIu32 ".op", count);
		bench_put((double)alloc / count, "batch.%" PRIu32 ".alloc", count);
		bench_put((double)free / count, "batch.%" PRIu32 ".free", count);
	}
	return 0;
}
