// SPDX-License-Identifier: GPL-2.0-only
/*
 * What must hold when several processors are at it. Each race goes on for
 * DEVPOOL_RACE_SECONDS, the lesser ones for a part of that.
 */
#include <pthread.h>
#include <sched.h>

#include "devpool_test.h"

#define RACE_SECONDS 20
/* More than anybody sets: each test has its own deadline. */
#define RACE_TIMEOUT 1800

static __u64 deadline_in(unsigned int part)
{
	return test_now() + test_env("DEVPOOL_RACE_SECONDS", RACE_SECONDS) *
			    1000000000ULL / part;
}

/*
 * Faults against flush and re-allocation of the same addresses.
 *
 * Two clients, each with a pool, share a device that is too small for both. An
 * owner allocates, writes, checks, frees and trims; a toucher reads and writes
 * wherever the pool had an address once, holes included. Nobody may find a word
 * that the other client wrote, and what the owner wrote in a live block stays.
 *
 * In each page the owner has the first and the last word, the toucher has the
 * second. The upper 16 bits of a word tell whose it is.
 */

#define BLOCKS 8
#define WINDOWS 4
/* Where in a window the blocks of a pool are */
#define WINDOW_USED (2 * BLOCKS * MIB)

struct race_block {
	__u64 addr;
	__u64 bytes;
	__u64 serial;
	char *p;
};

/* An arena's range, mapped twice: by huge entries, where there are, and without */
struct race_window {
	__u64 start;
	char *p[2];
};

struct race_results {
	unsigned long allocs, again, ooms, trims, pools, reads, writes, holes;
	/* 0, or what was found where something else had to be */
	__u64 wrong_addr, wrong_found, wrong_wanted;
	int error;
};

struct race_client {
	struct race_results *results;
	pthread_mutex_t lock;
	/* of this pool and of those before, whose mappings stay for a while */
	struct race_window window[WINDOWS];
	int windows;
	int next_window;
	struct race_block block[BLOCKS];
	struct devpool_pool_id id;
	__u64 deadline;
	__u64 random;
	__u64 serial;
	/* bytes of a block; some are smaller than a chunk, some are larger */
	__u64 most;
	/* of the last block that was freed */
	__u64 last_addr;
	__u64 tag;
	int pool;
	int fd;
};

static void race_wrong(struct race_client *c, const volatile void *at, __u64 found, __u64 wanted)
{
	__u64 none = 0;

	if (__atomic_compare_exchange_n(&c->results->wrong_addr, &none, (uintptr_t)at, false,
					__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		c->results->wrong_found = found;
		c->results->wrong_wanted = wanted;
	}
}

static bool race_goes_on(const struct race_client *c)
{
	return test_now() < c->deadline && !c->results->wrong_addr && !c->results->error;
}

static void race_fail(struct race_client *c, int error)
{
	c->results->error = error;
}

static bool race_own(const struct race_client *c, __u64 word)
{
	return !word || word >> 48 == c->tag;
}

static __u64 race_word(const struct race_client *c, const struct race_block *b, __u64 offset)
{
	return c->tag << 48 | (b->serial & 0xffffff) << 24 | offset >> 3;
}

/* Where a block is mapped, by one or the other mapping of its window */
static char *race_at(struct race_client *c, __u64 addr)
{
	__u64 start = addr & ~(DEVPOOL_WINDOW - 1);
	struct race_window *w;
	int i;

	for (i = 0; i < c->windows; i++)
		if (c->window[i].start == start)
			goto found;
	/* The toucher is kept out while a window is exchanged. */
	pthread_mutex_lock(&c->lock);
	i = c->next_window;
	c->next_window = (i + 1) % WINDOWS;
	w = &c->window[i];
	if (i < c->windows) {
		munmap(w->p[0], DEVPOOL_WINDOW);
		munmap(w->p[1], DEVPOOL_WINDOW);
	} else {
		c->windows++;
	}
	w->start = start;
	w->p[0] = devpool_map_at_raw(c->fd, start, DEVPOOL_WINDOW, false);
	w->p[1] = devpool_map_at_raw(c->fd, start, DEVPOOL_WINDOW, true);
	pthread_mutex_unlock(&c->lock);
	if (!w->p[0] || !w->p[1]) {
		race_fail(c, __LINE__);
		return NULL;
	}
found:
	w = &c->window[i];
	return w->p[test_random(&c->random) % 2] + (addr - start);
}

static void race_take(struct race_client *c, struct race_block *b)
{
	volatile __u64 *page;
	__u64 i;

	for (i = 0; i < b->bytes; i += TEST_PAGE) {
		page = (__u64 *)(b->p + i);
		if (!race_own(c, page[0]))
			race_wrong(c, &page[0], page[0], 0);
		if (!race_own(c, page[1]))
			race_wrong(c, &page[1], page[1], 0);
		if (!race_own(c, page[511]))
			race_wrong(c, &page[511], page[511], 0);
		page[0] = race_word(c, b, i);
		page[511] = race_word(c, b, i + 4088);
	}
}

static void race_check(struct race_client *c, const struct race_block *b)
{
	const volatile __u64 *page;
	__u64 i;

	for (i = 0; i < b->bytes; i += TEST_PAGE) {
		page = (__u64 *)(b->p + i);
		if (page[0] != race_word(c, b, i))
			race_wrong(c, &page[0], page[0], race_word(c, b, i));
		if (!race_own(c, page[1]))
			race_wrong(c, &page[1], page[1], 0);
		if (page[511] != race_word(c, b, i + 4088))
			race_wrong(c, &page[511], page[511], race_word(c, b, i + 4088));
	}
}

static void race_free(struct race_client *c, struct race_block *b)
{
	race_check(c, b);
	c->last_addr = b->addr;
	if (devpool_free_raw(c->fd, b->addr))
		race_fail(c, __LINE__);
	b->p = NULL;
}

static void race_alloc(struct race_client *c, struct race_block *b)
{
	int ret;

	b->bytes = (1 + test_random(&c->random) % (c->most / TEST_PAGE)) * TEST_PAGE;
	ret = devpool_alloc_align_raw(c->fd, c->id, b->bytes, TEST_PAGE, &b->addr, NULL);
	if (ret == -ENOSPC) {
		c->results->ooms++;
		return;
	}
	if (ret) {
		race_fail(c, __LINE__);
		return;
	}
	b->serial = ++c->serial;
	b->p = race_at(c, b->addr);
	if (!b->p)
		return;
	c->results->allocs++;
	if (b->addr == c->last_addr)
		c->results->again++;
	race_take(c, b);
	/* From here on by the other mapping, perhaps */
	b->p = race_at(c, b->addr);
}

static void *race_owner(void *p)
{
	struct devpool_empty_cache empty;
	struct race_client *c = p;
	int i;

	while (race_goes_on(c)) {
		struct race_block *b = &c->block[test_random(&c->random) % BLOCKS];
		int what = test_random(&c->random) % 100;

		if (what < 60) {
			if (b->p)
				race_free(c, b);
			else
				race_alloc(c, b);
		} else if (what < 80) {
			if (b->p)
				race_check(c, b);
		} else if (what < 99) {
			if (b->p)
				race_free(c, b);
			if (devpool_empty_cache_raw(c->fd, c->id, DEVPOOL_EMPTY_TRIM, 0, &empty))
				race_fail(c, __LINE__);
			c->results->trims++;
			race_alloc(c, b);
		} else {
			/* The pool goes, its mappings stay. */
			close(c->pool);
			for (i = 0; i < BLOCKS; i++)
				if (c->block[i].p)
					race_free(c, &c->block[i]);
			c->id = default_pool;
			if (devpool_pool_create_raw(c->fd, &c->id, &c->pool))
				race_fail(c, __LINE__);
			c->results->pools++;
		}
		if (!b->p)
			race_alloc(c, b);
	}
	return NULL;
}

static void *race_toucher(void *p)
{
	__u64 random = test_now() | 1;
	struct race_client *c = p;
	volatile __u64 *page;
	__u64 word;
	int i, n;

	while (race_goes_on(c)) {
		pthread_mutex_lock(&c->lock);
		if (!c->windows) {
			pthread_mutex_unlock(&c->lock);
			sched_yield();
			continue;
		}
		/* Some pages under one lock, and then the owner's turn comes. */
		for (n = 0; n < 64; n++) {
			i = test_random(&random) % c->windows;
			page = (__u64 *)(c->window[i].p[test_random(&random) % 2] +
					 test_random(&random) % (WINDOW_USED / TEST_PAGE) *
					 TEST_PAGE);
			i = test_random(&random) % 3;
			i = i == 2 ? 511 : i;
			if (test_read(&page[i], &word)) {
				c->results->holes++;
				continue;
			}
			c->results->reads++;
			if (!race_own(c, word)) {
				race_wrong(c, &page[i], word, 0);
				break;
			}
			if (i == 1 && !test_write(&page[1], c->tag << 48 | 1))
				c->results->writes++;
		}
		pthread_mutex_unlock(&c->lock);
		usleep(100);
	}
	return NULL;
}

static int race_client_init(struct race_client *c, int index, __u64 cap, __u64 tag, __u64 seed)
{
	pthread_mutex_init(&c->lock, NULL);
	c->fd = devpool_open_node(index);
	c->random = seed + tag;
	c->tag = tag;
	c->most = cap / 16 < 4 * MIB ? cap / 16 : 4 * MIB;
	return c->fd < 0 || devpool_pool_create_raw(c->fd, &c->id, &c->pool);
}

FIXTURE(race)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int fd;
};

FIXTURE_VARIANT(race)
{
	/* the clients are processes, or threads of one */
	bool processes;
};

FIXTURE_VARIANT_ADD(race, threads) { .processes = false };
FIXTURE_VARIANT_ADD(race, processes) { .processes = true };

FIXTURE_SETUP(race)
{
	test_setup(self, TEST_SMALL);
	close(self->fd);
	test_catch();
}

FIXTURE_TEARDOWN(race)
{
}

TEST_F_TIMEOUT(race, faults_against_flush_and_reuse, RACE_TIMEOUT)
{
	__u64 seed = test_seed();
	struct race_client *client[2];
	struct race_results *results;
	pthread_t thread[2][2];
	pid_t pid[2];
	int i;

	/* Results are all that the processes share. */
	results = mmap(NULL, TEST_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, results);
	for (i = 0; i < 2; i++) {
		client[i] = calloc(1, sizeof(*client[i]));
		client[i]->results = &results[i];
		client[i]->deadline = deadline_in(2);
	}
	for (i = 0; i < 2; i++) {
		if (variant->processes) {
			pid[i] = test_fork();
			ASSERT_LE(0, pid[i]);
			if (pid[i])
				continue;
		}
		if (race_client_init(client[i], self->index, self->info.out_bytes,
				     0xaaaa + i, seed))
			race_fail(client[i], __LINE__);
		if (variant->processes) {
			if (pthread_create(&thread[i][0], NULL, race_toucher, client[i]))
				_exit(1);
			race_owner(client[i]);
			pthread_join(thread[i][0], NULL);
			_exit(0);
		}
		ASSERT_EQ(0, pthread_create(&thread[i][0], NULL, race_toucher, client[i]));
		ASSERT_EQ(0, pthread_create(&thread[i][1], NULL, race_owner, client[i]));
	}
	for (i = 0; i < 2; i++) {
		if (variant->processes) {
			EXPECT_EQ(0, test_wait(pid[i]));
		} else {
			pthread_join(thread[i][0], NULL);
			pthread_join(thread[i][1], NULL);
		}
	}
	for (i = 0; i < 2; i++) {
		struct race_results *r = &results[i];

		TH_LOG("allocs %lu, at the same address %lu, full %lu, trims %lu, pools %lu",
		       r->allocs, r->again, r->ooms, r->trims, r->pools);
		TH_LOG("reads %lu, writes %lu, holes %lu", r->reads, r->writes, r->holes);
		EXPECT_EQ(0, r->error)
			TH_LOG("line %d", r->error);
		EXPECT_EQ(0, r->wrong_addr)
			TH_LOG("client %x: %llx at %llx instead of %llx", 0xaaaa + i,
			       r->wrong_found, r->wrong_addr, r->wrong_wanted);
		/* Not a race of nothing */
		EXPECT_NE(0, r->again);
		EXPECT_NE(0, r->reads);
		EXPECT_NE(0, r->writes);
		EXPECT_NE(0, r->holes);
		EXPECT_NE(0, r->trims);
	}
}

/*
 * Fork against flush.
 *
 * One thread forks again and again. Another fills a mapped block, frees it and
 * flushes. A second client, another process, takes the chunks and writes a
 * secret. Each child looks where its parent's mapping was: there is nothing,
 * least of all the secret.
 */

#define FORK_BYTES (16 * MIB)
#define FORK_TAG 0xbbbbULL
#define FORK_SECRET 0x5ec4e7ULL

struct fork_race {
	__u64 deadline;
	__u64 flushes;
	/* always mapped, and full most of the time */
	char *window;
	__u64 start;
	int fd;
	int error;
};

static void *fork_flusher(void *p)
{
	struct devpool_empty_cache empty;
	struct fork_race *r = p;
	__u64 addr, i;

	while (test_now() < r->deadline) {
		if (devpool_alloc_raw(r->fd, default_pool, FORK_BYTES, &addr)) {
			/* The other client has it all. */
			sched_yield();
			continue;
		}
		if (addr != r->start) {
			r->error = __LINE__;
			break;
		}
		for (i = 0; i < FORK_BYTES; i += TEST_PAGE) {
			volatile __u64 *word = (__u64 *)(r->window + i);

			if (*word && *word >> 48 != FORK_TAG)
				r->error = __LINE__;
			*word = FORK_TAG << 48 | i;
		}
		if (devpool_free_raw(r->fd, addr) ||
		    devpool_empty_cache_raw(r->fd, default_pool, 0, 0, &empty))
			r->error = __LINE__;
		r->flushes++;
	}
	return NULL;
}

static void fork_secret(int index, __u64 deadline)
{
	int fd = devpool_open_node(index);
	struct devpool_empty_cache empty;
	struct devpool_info info;
	__u64 addr, bytes, i;
	char *p;

	if (fd < 0 || devpool_info_raw(fd, &info))
		_exit(1);
	while (test_now() < deadline) {
		for (bytes = info.out_bytes; bytes >= info.out_chunk; bytes -= info.out_chunk)
			if (!devpool_alloc_raw(fd, default_pool, bytes, &addr))
				break;
		if (bytes < info.out_chunk) {
			sched_yield();
			continue;
		}
		p = devpool_map_at_raw(fd, addr, bytes, true);
		if (!p)
			_exit(2);
		for (i = 0; i < bytes; i += TEST_PAGE) {
			volatile __u64 *word = (__u64 *)(p + i);

			if (*word && *word >> 40 != FORK_SECRET)
				_exit(3);
			*word = FORK_SECRET << 40 | i;
		}
		munmap(p, bytes);
		if (devpool_free_raw(fd, addr) ||
		    devpool_empty_cache_raw(fd, default_pool, 0, 0, &empty))
			_exit(4);
	}
	_exit(0);
}

/* The status tells what the child saw. */
static void fork_child(const struct fork_race *r, __u64 random)
{
	bool mapped = false;
	__u64 word;
	int i, sig;

	for (i = 0; i < 200; i++) {
		sig = test_read(r->window + test_random(&random) % (FORK_BYTES / TEST_PAGE) *
				TEST_PAGE, &word);
		if (sig == SIGSEGV)
			continue;
		mapped = true;
		if (!sig && word && word >> 48 != FORK_TAG)
			_exit(2);
	}
	_exit(mapped);
}

FIXTURE(forks)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int fd;
};

FIXTURE_SETUP(forks)
{
	test_setup(self, TEST_SMALL);
	if (self->info.out_bytes < 2 * FORK_BYTES)
		SKIP(return, "the device is too small");
	test_catch();
}

FIXTURE_TEARDOWN(forks)
{
}

TEST_F_TIMEOUT(forks, fork_against_flush, RACE_TIMEOUT)
{
	struct fork_race r = { .fd = self->fd, .deadline = deadline_in(1) };
	struct devpool_empty_cache empty;
	unsigned long children = 0;
	pid_t pid, secret;
	pthread_t thread;
	int status;

	r.start = test_alloc(self->fd, default_pool, FORK_BYTES);
	r.window = devpool_map_at_raw(self->fd, r.start, FORK_BYTES, true);
	ASSERT_NE(NULL, r.window);
	test_free(self->fd, r.start);
	ASSERT_EQ(0, devpool_empty_cache_raw(self->fd, default_pool, 0, 0, &empty));
	secret = test_fork();
	ASSERT_LE(0, secret);
	if (!secret) {
		close(self->fd);
		fork_secret(self->index, r.deadline);
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, fork_flusher, &r));
	while (test_now() < r.deadline && !_metadata->exit_code) {
		if (children % 2) {
			EXPECT_EQ(-1, madvise(r.window, FORK_BYTES, MADV_DOFORK));
			EXPECT_EQ(EINVAL, errno);
		}
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			fork_child(&r, test_now() | 1);
		status = test_wait(pid);
		EXPECT_NE(2, status)
			TH_LOG("a child saw what was not its parent's");
		EXPECT_EQ(0, status);
		children++;
	}
	r.deadline = 0;
	pthread_join(thread, NULL);
	EXPECT_EQ(0, test_wait(secret));
	EXPECT_EQ(0, r.error)
		TH_LOG("line %d", r.error);
	TH_LOG("children %lu, flushes %llu", children, r.flushes);
	EXPECT_LT(test_times(10), children);
	EXPECT_LT(test_times(10), r.flushes);
}

/*
 * Two clients take half of the device each, all at once, again and again. What
 * the other one is giving back is no reason to fail.
 */
struct half {
	unsigned long rounds;
	__u64 deadline;
	__u64 bytes;
	bool pools;
	int index;
	int error;
};

static void *half_taker(void *p)
{
	struct devpool_pool_id id = {};
	struct devpool_empty_cache empty;
	struct half *h = p;
	int pool = -1;
	__u64 addr;
	int fd;

	fd = devpool_open_node(h->index);
	while (test_now() < h->deadline && !h->error) {
		if (h->pools) {
			id = default_pool;
			h->error = devpool_pool_create_raw(fd, &id, &pool);
			if (h->error)
				break;
		}
		h->error = devpool_alloc_raw(fd, id, h->bytes, &addr);
		if (h->error)
			break;
		h->error = devpool_free_raw(fd, addr);
		if (h->error)
			break;
		if (h->pools)
			close(pool);
		else
			h->error = devpool_empty_cache_raw(fd, id, 0, 0, &empty);
		h->rounds++;
	}
	close(fd);
	return NULL;
}

FIXTURE(half)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int fd;
};

FIXTURE_VARIANT(half)
{
	/* chunks go back by close, or by EMPTY_CACHE */
	bool pools;
};

FIXTURE_VARIANT_ADD(half, flushed) { .pools = false };
FIXTURE_VARIANT_ADD(half, closed) { .pools = true };

FIXTURE_SETUP(half)
{
	test_setup(self, TEST_SMALL);
	close(self->fd);
}

FIXTURE_TEARDOWN(half)
{
}

TEST_F_TIMEOUT(half, of_the_device_is_always_there, RACE_TIMEOUT)
{
	__u64 chunks = self->info.out_bytes / self->info.out_chunk;
	struct half h[2] = {};
	pthread_t thread[2];
	int i;

	for (i = 0; i < 2; i++) {
		h[i].bytes = chunks / 2 * self->info.out_chunk;
		h[i].deadline = deadline_in(8);
		h[i].index = self->index;
		h[i].pools = variant->pools;
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, half_taker, &h[i]));
	}
	for (i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		EXPECT_EQ(0, h[i].error);
		EXPECT_NE(0, h[i].rounds);
	}
	EXPECT_BASE(self->base, self->index);
}

/*
 * A pool is closed, released and made again while others allocate in it, look
 * at it and trim it.
 */
struct shared_pool {
	struct devpool_pool_id id;
	unsigned long served, refused;
	__u64 deadline;
	int error;
	int pool;
	int fd;
};

static void shared_pool_judge(struct shared_pool *s, int ret, int line)
{
	switch (ret) {
	case 0:
		s->served++;
		break;
	case -ENOENT:
		s->refused++;
		break;
	default:
		s->error = line;
	}
}

static struct devpool_pool_id shared_pool_id(struct shared_pool *s)
{
	return (struct devpool_pool_id){ 0, __atomic_load_n(&s->id.second, __ATOMIC_RELAXED) };
}

static void *shared_pool_allocate(void *p)
{
	struct shared_pool *s = p;
	__u64 addr[16] = {};
	int i, ret;

	while (test_now() < s->deadline) {
		for (i = 0; i < 16; i++) {
			ret = devpool_alloc_raw(s->fd, shared_pool_id(s),
						i % 2 ? 3 * MIB : 8 * KIB, &addr[i]);
			shared_pool_judge(s, ret, __LINE__);
			if (ret)
				addr[i] = 0;
		}
		for (i = 0; i < 16; i++)
			if (addr[i] && devpool_free_raw(s->fd, addr[i]))
				s->error = __LINE__;
	}
	return NULL;
}

static void *shared_pool_look(void *p)
{
	struct devpool_empty_cache empty;
	struct devpool_pool_stat stat;
	struct shared_pool *s = p;

	while (test_now() < s->deadline) {
		shared_pool_judge(s, devpool_pool_stat_raw(s->fd, shared_pool_id(s), &stat),
				  __LINE__);
		shared_pool_judge(s, devpool_empty_cache_raw(s->fd, shared_pool_id(s),
							     DEVPOOL_EMPTY_TRIM, 0, &empty),
				  __LINE__);
		/* By then the descriptor may be closed, or be another pool's. */
		devpool_pool_stat_raw(__atomic_load_n(&s->pool, __ATOMIC_RELAXED),
				      default_pool, &stat);
		devpool_empty_cache_raw(__atomic_load_n(&s->pool, __ATOMIC_RELAXED),
					default_pool, DEVPOOL_EMPTY_TRIM, 0, &empty);
		if (devpool_empty_cache_raw(s->fd, default_pool, 0, 0, &empty))
			s->error = __LINE__;
	}
	return NULL;
}

FIXTURE(shared)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int fd;
};

FIXTURE_SETUP(shared)
{
	test_setup(self, TEST_NULL);
	close(self->fd);
}

FIXTURE_TEARDOWN(shared)
{
}

TEST_F_TIMEOUT(shared, pool_is_closed_while_others_use_it, RACE_TIMEOUT)
{
	struct shared_pool s = { .deadline = deadline_in(4) };
	struct devpool_empty_cache empty;
	unsigned long rounds = 0;
	pthread_t thread[3];
	struct devpool_pool_id id;
	int pool;
	int i;

	s.fd = test_open(self->index);
	s.pool = test_pool_create(s.fd, &s.id);
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, i ? shared_pool_allocate :
					    shared_pool_look, &s));
	while (test_now() < s.deadline && !s.error) {
		usleep(test_random(&(__u64){ test_now() | 1 }) % 3000);
		if (rounds % 2) {
			EXPECT_EQ(0, devpool_empty_cache_raw(s.pool, default_pool,
							     DEVPOOL_EMPTY_RELEASE, 0, &empty));
		}
		close(s.pool);
		pool = test_pool_create(s.fd, &id);
		__atomic_store_n(&s.pool, pool, __ATOMIC_RELAXED);
		__atomic_store_n(&s.id.second, id.second, __ATOMIC_RELAXED);
		rounds++;
	}
	for (i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	EXPECT_EQ(0, s.error)
		TH_LOG("line %d", s.error);
	TH_LOG("rounds %lu, served %lu, refused %lu", rounds, s.served, s.refused);
	EXPECT_NE(0, s.served);
	EXPECT_NE(0, s.refused);
	close(s.pool);
	EXPECT_EQ(0, test_stats(s.fd).out_blocks.current);
	EXPECT_EQ(0, test_stats(s.fd).out_resident.current);
	close(s.fd);
	EXPECT_BASE(self->base, self->index);
}

/* P26: of two at once one releases, and the other finds it done. */
struct twice {
	pthread_barrier_t barrier;
	__u64 deadline;
	int pool;
	int ret[2];
	bool over;
};

static void *release_at_once(void *p)
{
	struct devpool_empty_cache empty;
	struct twice *t = p;

	for (;;) {
		pthread_barrier_wait(&t->barrier);
		if (t->over)
			return NULL;
		t->ret[1] = devpool_empty_cache_raw(t->pool, default_pool,
						    DEVPOOL_EMPTY_RELEASE, 0, &empty);
		pthread_barrier_wait(&t->barrier);
	}
}

TEST_F_TIMEOUT(shared, P26_released_twice_at_once, RACE_TIMEOUT)
{
	struct twice t = { .deadline = deadline_in(10) };
	struct devpool_empty_cache empty;
	struct devpool_pool_stat stat;
	struct devpool_pool_id id;
	pthread_t thread;
	__u64 addr;
	int fd;

	fd = test_open(self->index);
	pthread_barrier_init(&t.barrier, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, release_at_once, &t));
	while (test_now() < t.deadline && !_metadata->exit_code) {
		t.pool = test_pool_create(fd, &id);
		addr = test_alloc(fd, id, 512);
		pthread_barrier_wait(&t.barrier);
		t.ret[0] = devpool_empty_cache_raw(t.pool, default_pool,
						   DEVPOOL_EMPTY_RELEASE, 0, &empty);
		pthread_barrier_wait(&t.barrier);
		EXPECT_EQ(-ENOENT, t.ret[0] + t.ret[1]);
		stat = test_pool_stat(fd, id);
		EXPECT_EQ(0, stat.out_use_count);
		EXPECT_EQ(DEVPOOL_STATE_FREEABLE, stat.out_state);
		close(t.pool);
		test_free(fd, addr);
		test_err_pool_stat(ENOENT, fd, id);
	}
	t.over = true;
	pthread_barrier_wait(&t.barrier);
	pthread_join(thread, NULL);
	close(fd);
	EXPECT_BASE(self->base, self->index);
}

TEST_HARNESS_MAIN
