// SPDX-License-Identifier: GPL-2.0-only
/*
 * Timed: throughput of two threads on two CPUs against that of one, and a few
 * figures of the counted mode as ratios of times.
 *
 * What else the machine does disturbs times. So the same is measured of a loop
 * that computes and shares nothing, right before each pair of times: where two
 * CPUs do not do at least CONTROL_LEAST times the work of one, they were not
 * there, and the pair does not count. Prints lines
 *
 *	NAME MEDIAN LOW HIGH PAIRS CONTROL
 *
 * with the quartiles, the number of pairs that count, and the median of all
 * controls. With fewer than PAIRS of them the figures are of all pairs. What is
 * to be believed is report.jq's to say.
 */
#include <linux/dma-heap.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "bench.h"

#define PAIRS 11
#define TRIES 40
#define CONTROL_LEAST 1.9
#define SLICE_NSEC 20000000
/* After that the machine is too busy to wait for. */
#define PATIENCE_NSEC 12000000000ULL
#define BYTES (4 * KIB)
#define HEAP "/dev/dma_heap/system"

/* What a thread works with */
struct place {
	struct bench_pair pair;
	int heap;
	int pipe;
};

/**
 * struct side - one side of a contest
 * @work: what each thread does again and again
 * @threads: how many of them, each with its place and a CPU of its own
 * @loops: how often each does it
 */
struct side {
	void (*work)(struct place *place);
	int threads;
	uint64_t loops;
};

struct thread {
	pthread_t id;
	const struct side *side;
	struct place *place;
	int cpu;
	uint64_t begin;
	uint64_t end;
};

/**
 * struct contest - two sides and where they work
 * @name: of the figure, which is how many times more @b does in a time than @a
 * @a: one side
 * @b: the other
 * @files: clients that the places have
 * @pools: pools that they have
 */
struct contest {
	const char *name;
	struct side a;
	struct side b;
	int files;
	int pools;
};

struct result {
	double ratio;
	double control;
};

static struct place places[2];
static pthread_barrier_t barrier;

static uint64_t nsec(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void compute(struct place *place)
{
	unsigned long n = 1000;

	asm volatile("1: dec %0\n\tjnz 1b" : "+r" (n) : : "cc");
}

static void alloc_free(struct place *place)
{
	bench_pair_alloc(&place->pair);
	bench_pair_free(&place->pair);
}

static void fionread_twice(struct place *place)
{
	int n;

	ioctl(place->pipe, FIONREAD, &n);
	ioctl(place->pipe, FIONREAD, &n);
}

static void heap_alloc_close(struct place *place)
{
	struct dma_heap_allocation_data data = {
		.len = BYTES,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};

	if (ioctl(place->heap, DMA_HEAP_IOCTL_ALLOC, &data))
		bench_die("DMA_HEAP_IOCTL_ALLOC");
	close(data.fd);
}

static const struct contest contests[] = {
	{ "scale.files.pools", { alloc_free, 1 }, { alloc_free, 2 }, 2, 2 },
	{ "scale.files.pool", { alloc_free, 1 }, { alloc_free, 2 }, 2, 1 },
	{ "scale.file.pools", { alloc_free, 1 }, { alloc_free, 2 }, 1, 2 },
	{ "scale.file.pool", { alloc_free, 1 }, { alloc_free, 2 }, 1, 1 },
	{ "scale.files.fionread", { fionread_twice, 1 }, { fionread_twice, 2 }, 2, 2 },
	{ "scale.file.fionread", { fionread_twice, 1 }, { fionread_twice, 2 }, 1, 2 },
	{ "scale.files.heap", { heap_alloc_close, 1 }, { heap_alloc_close, 2 }, 2, 2 },
	{ "time.fionread", { alloc_free, 1 }, { fionread_twice, 1 }, 2, 2 },
	{ "time.heap", { heap_alloc_close, 1 }, { alloc_free, 1 }, 2, 2 },
};

static void *run(void *arg)
{
	struct thread *thread = arg;
	cpu_set_t cpu;
	uint64_t i;

	CPU_ZERO(&cpu);
	CPU_SET(thread->cpu, &cpu);
	errno = pthread_setaffinity_np(pthread_self(), sizeof(cpu), &cpu);
	if (errno)
		bench_die("CPU %d", thread->cpu);
	pthread_barrier_wait(&barrier);
	thread->begin = nsec();
	for (i = 0; i < thread->side->loops; i++)
		thread->side->work(thread->place);
	thread->end = nsec();
	return NULL;
}

/* From when the first one begins to when the last one is done */
static double measure(const struct side *side)
{
	uint64_t begin = UINT64_MAX, end = 0;
	struct thread threads[2];
	int i;

	pthread_barrier_init(&barrier, NULL, side->threads);
	for (i = 0; i < side->threads; i++) {
		threads[i] = (struct thread){ .side = side, .place = &places[i], .cpu = i };
		errno = pthread_create(&threads[i].id, NULL, run, &threads[i]);
		if (errno)
			bench_die("thread");
	}
	for (i = 0; i < side->threads; i++) {
		pthread_join(threads[i].id, NULL);
		if (threads[i].begin < begin)
			begin = threads[i].begin;
		if (threads[i].end > end)
			end = threads[i].end;
	}
	pthread_barrier_destroy(&barrier);
	return end - begin;
}

/* Loops for a time that says something; runs warm on the way. */
static void calibrate(struct side *side)
{
	side->loops = 1;
	while (measure(side) < SLICE_NSEC)
		side->loops *= 2;
}

static double ratio(const struct side *a, const struct side *b)
{
	double t = measure(a);

	return t / measure(b) * (b->threads * b->loops) / (a->threads * a->loops);
}

static int compare(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return a < b ? -1 : a > b;
}

static double quantile(double *values, int n, int quarters)
{
	return values[(n - 1) * quarters / 4];
}

static void put(const char *name, const struct result *results, int n, int valid)
{
	double ratios[TRIES], controls[TRIES];
	bool all = valid < PAIRS;
	int i, k = 0;

	for (i = 0; i < n; i++) {
		controls[i] = results[i].control;
		if (all || results[i].control >= CONTROL_LEAST)
			ratios[k++] = results[i].ratio;
	}
	qsort(ratios, k, sizeof(ratios[0]), compare);
	qsort(controls, n, sizeof(controls[0]), compare);
	printf("%s %.3f %.3f %.3f %d %.3f\n", name, quantile(ratios, k, 2),
	       quantile(ratios, k, 1), quantile(ratios, k, 3), valid, quantile(controls, n, 2));
	fflush(stdout);
}

static void settle(const struct contest *contest)
{
	struct devpool_pool_get get = {
		.size = sizeof(get),
		.flags = DEVPOOL_POOL_GET_FD,
	};
	struct devpool_pool_id pools[2];
	int files[2], pipes[2][2], i;

	for (i = 0; i < 2; i++) {
		files[i] = i < contest->files ? bench_open("sysmem") : files[0];
		if (i < contest->pools) {
			get.fd = bench_pool_create(files[i], &pools[i]);
		} else {
			pools[i] = pools[0];
			if (files[i] != files[0] && ioctl(files[i], DEVPOOL_IOC_POOL_GET, &get))
				bench_die("POOL_GET");
		}
		bench_fill(files[i], pools[i], 2 * BYTES);
		bench_pair_init(&places[i].pair, files[i], pools[i], BYTES);
		if (pipe2(pipes[i], O_CLOEXEC))
			bench_die("pipe");
		places[i].pipe = pipes[i < contest->files ? i : 0][0];
		places[i].heap = open(HEAP, O_RDWR | O_CLOEXEC);
	}
}

static void hold(struct contest contest)
{
	struct side one = { compute, 1 }, two = { compute, 2 };
	struct result results[TRIES];
	int n, valid = 0;
	uint64_t begin;

	settle(&contest);
	calibrate(&one);
	two.loops = one.loops;
	calibrate(&contest.a);
	calibrate(&contest.b);
	begin = nsec();
	for (n = 0; n < TRIES && valid < PAIRS && nsec() - begin < PATIENCE_NSEC; n++) {
		results[n].control = ratio(&one, &two);
		results[n].ratio = ratio(&contest.a, &contest.b);
		valid += results[n].control >= CONTROL_LEAST;
	}
	put(contest.name, results, n, valid);
}

int main(void)
{
	bool heap = !access(HEAP, R_OK);
	size_t i;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		fputs("scale: needs two CPUs\n", stderr);
		return 1;
	}
	for (i = 0; i < ARRAY_SIZE(contests); i++)
		if (heap || !strstr(contests[i].name, "heap"))
			hold(contests[i]);
	return 0;
}
