// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * devpool-record.so: the object devpool-record preloads. It stands before the
 * C library's malloc family, calls the real functions and stores one row per
 * block taken and given back.
 *
 * Order. A free is stored before the real free, an allocation after the real
 * allocation, each under one lock: so an address's 'f' is in the log before the
 * 'a' of the next block there, whichever threads they come from. realloc does
 * both at once and therefore holds the lock over the real call.
 *
 * Fork. All state that must not be shared with a child lives in one mapping marked
 * MADV_WIPEONFORK, the lock included: however a child was made (fork, _Fork, a
 * bare clone), it wakes with zeros, which mean "not begun, not locked", and
 * begins a log of its own with its first recorded block. Blocks it inherited are
 * unknown there and their frees are not recorded. vfork and posix_spawn share
 * the memory and thus go on in the parent's log, which is right: same heap.
 *
 * A program must not notice us: no descriptor is kept open (it might close it,
 * or count them), errno is kept, no cancellation point is added, and if a log
 * cannot grow the recording stops and the program goes on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "devpool-record.h"

#define EXPORT		__attribute__((visibility("default")))
#define BOOT_ALIGN	16
#define WINDOW_BYTES	(RECORD_WINDOW * sizeof(struct record_row))

struct block {
	void *ptr;
	uint64_t id;
	uint64_t size;
	uint32_t stream;
};

/*
 * One per process, wiped in a forked child; everything is protected by @lock,
 * except that @off may be read without it. @pid is 0 until the log was begun.
 * @blocks is a hash table with linear probing, at most half full.
 */
struct state {
	pthread_mutex_t lock;
	pid_t pid;
	int off;
	struct record_header *header;
	struct record_row *window;
	uint32_t used;
	off_t end;
	struct block *blocks;
	size_t nblocks;
	size_t nslots;
	uint64_t next_id;
	uint32_t next_stream;
	char path[PATH_MAX + 32];
};

/*
 * @busy: this thread is inside the recorder, so what comes in now (a signal
 * handler's malloc, dlsym's calloc, an allocator built upon another) goes
 * straight through: neither deadlock nor recursion. @pid says whose @stream it
 * is: a forked child numbers its threads anew. Initial-exec, because the general
 * model may call malloc to make the variable.
 */
static __thread struct {
	int busy;
	pid_t pid;
	uint32_t stream;
} self __attribute__((tls_model("initial-exec")));

static struct state *st;
static size_t min_size;
static char dir[PATH_MAX];

static struct {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t n, size_t size);
	void *(*realloc)(void *old, size_t size);
	void (*free)(void *ptr);
	int (*posix_memalign)(void **out, size_t align, size_t size);
	void *(*aligned_alloc)(size_t align, size_t size);
	void *(*memalign)(size_t align, size_t size);
	void *(*valloc)(size_t size);
	void *(*pvalloc)(size_t size);
} real;

/*
 * dlsym may allocate before it has told us where the real functions are. These
 * few requests are served from here and never given back.
 */
static char boot[32768] __attribute__((aligned(BOOT_ALIGN)));
static size_t boot_used;

static bool boot_owns(const void *ptr)
{
	return (const char *)ptr >= boot && (const char *)ptr < boot + sizeof(boot);
}

static void *boot_alloc(size_t size)
{
	size_t need, at;

	if (size > sizeof(boot) / 2)
		return NULL;
	need = ((size + BOOT_ALIGN - 1) & ~(size_t)(BOOT_ALIGN - 1)) + BOOT_ALIGN;
	at = __atomic_fetch_add(&boot_used, need, __ATOMIC_RELAXED);
	if (at + need > sizeof(boot))
		return NULL;
	memcpy(boot + at, &size, sizeof(size));
	return boot + at + BOOT_ALIGN;
}

/* False while dlsym runs: the caller is dlsym itself. */
static bool resolve(void)
{
	if (__atomic_load_n(&real.free, __ATOMIC_ACQUIRE))
		return true;
	if (self.busy)
		return false;
	self.busy = 1;
	*(void **)&real.malloc = dlsym(RTLD_NEXT, "malloc");
	*(void **)&real.calloc = dlsym(RTLD_NEXT, "calloc");
	*(void **)&real.realloc = dlsym(RTLD_NEXT, "realloc");
	*(void **)&real.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
	*(void **)&real.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
	*(void **)&real.memalign = dlsym(RTLD_NEXT, "memalign");
	*(void **)&real.valloc = dlsym(RTLD_NEXT, "valloc");
	*(void **)&real.pvalloc = dlsym(RTLD_NEXT, "pvalloc");
	/* Last, because it says that all the others are there. */
	__atomic_store_n((void **)&real.free, dlsym(RTLD_NEXT, "free"), __ATOMIC_RELEASE);
	self.busy = 0;
	return true;
}

static void *map(int fd, off_t at, size_t bytes)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p;

	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, at);
	if (p == MAP_FAILED)
		return NULL;
	/* A child must neither write into our log nor pay for a copy of the table. */
	madvise(p, bytes, MADV_DONTFORK);
	return p;
}

/*
 * Blocks are reserved, not just the size set: storing into a hole of a full disk
 * would be a SIGBUS in the program, and passing its file size limit a SIGXFSZ.
 */
static int reserve(int fd, off_t at, size_t bytes)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    (rlim_t)at + bytes > limit.rlim_cur)
		return EFBIG;
	if (!fallocate(fd, 0, at, bytes))
		return 0;
	if (errno != EOPNOTSUPP)
		return errno;
	return ftruncate(fd, at + bytes) ? errno : 0;
}

static int open_window(int fd)
{
	struct record_row *window;
	int err;

	err = reserve(fd, st->end, WINDOW_BYTES);
	if (err)
		return err;
	window = map(fd, st->end, WINDOW_BYTES);
	if (!window)
		return errno;
	if (st->window)
		munmap(st->window, WINDOW_BYTES);
	st->window = window;
	st->end += WINDOW_BYTES;
	st->used = 0;
	return 0;
}

static void stop(int err)
{
	if (st->header)
		st->header->error = err;
	__atomic_store_n(&st->off, 1, __ATOMIC_RELAXED);
}

/* open and close are cancellation points, malloc and free must not be. */
static void next_window(void)
{
	int cancel, err, fd;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	fd = open(st->path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		stop(errno);
	} else {
		err = open_window(fd);
		if (err)
			stop(err);
		close(fd);
	}
	pthread_setcancelstate(cancel, NULL);
}

static void store(uint32_t op, uint64_t id, uint64_t size, uint32_t stream)
{
	struct record_row *row;

	if (!st->off && st->used == RECORD_WINDOW)
		next_window();
	if (st->off)
		return;
	row = &st->window[st->used++];
	row->id = id;
	row->size = size;
	row->stream = stream;
	__atomic_store_n(&row->op, op, __ATOMIC_RELEASE);
}

static bool settings(void)
{
	const char *s;

	/* Before the C library has its environment nobody knows; ask again later. */
	if (!dir[0] && environ) {
		s = getenv(RECORD_ENV_MIN);
		min_size = s ? strtoull(s, NULL, 10) : 1;
		s = getenv(RECORD_ENV_DIR);
		if (s && strlen(s) < sizeof(dir))
			strcpy(dir, s);
	}
	return dir[0];
}

/*
 * One image, one log. The number after the pid tells apart the images that one
 * process runs by exec.
 */
static void begin(void)
{
	int cancel, cmdline, err, fd, n = 0;
	ssize_t len;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	st->pid = getpid();
	st->end = RECORD_HEADER;
	do {
		snprintf(st->path, sizeof(st->path), "%s/%d.%d", dir, (int)st->pid, n++);
		fd = open(st->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	} while (fd < 0 && errno == EEXIST);
	if (fd < 0) {
		stop(errno);
		goto out;
	}
	err = reserve(fd, 0, RECORD_HEADER);
	if (!err) {
		st->header = map(fd, 0, RECORD_HEADER);
		err = st->header ? open_window(fd) : errno;
	}
	close(fd);
	if (st->header) {
		cmdline = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
		if (cmdline >= 0) {
			len = read(cmdline, st->header->argv, sizeof(st->header->argv));
			st->header->argv_len = len > 0 ? len : 0;
			close(cmdline);
		}
		__atomic_store_n(&st->header->magic, RECORD_MAGIC, __ATOMIC_RELEASE);
	}
	if (err)
		stop(err);
out:
	pthread_setcancelstate(cancel, NULL);
}

/* True with the lock held and a log to write to; then leave() ends it. */
static bool enter(bool start)
{
	struct state *page, *none = NULL;

	if (self.busy || !settings())
		return false;
	self.busy = 1;
	page = __atomic_load_n(&st, __ATOMIC_ACQUIRE);
	if (!page) {
		page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			goto no;
		/* Without this a child would write into our log: rather no log at all. */
		if (madvise(page, sizeof(*page), MADV_WIPEONFORK))
			page->off = 1;
		if (!__atomic_compare_exchange_n(&st, &none, page, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			munmap(page, sizeof(*page));
	}
	if (__atomic_load_n(&st->off, __ATOMIC_RELAXED))
		goto no;
	pthread_mutex_lock(&st->lock);
	if (!st->pid && start)
		begin();
	if (st->pid && !st->off)
		return true;
	pthread_mutex_unlock(&st->lock);
no:
	self.busy = 0;
	return false;
}

static void leave(void)
{
	pthread_mutex_unlock(&st->lock);
	self.busy = 0;
}

/* Heap addresses differ in the bits above the alignment: multiply, take the top. */
static size_t slot_of(const void *ptr)
{
	uint64_t hash = (uint64_t)(uintptr_t)ptr * 0x9e3779b97f4a7c15ull;

	return (hash >> 32) & (st->nslots - 1);
}

static struct block *find(const void *ptr)
{
	size_t i;

	if (!ptr || !st->nslots)
		return NULL;
	for (i = slot_of(ptr); st->blocks[i].ptr; i = (i + 1) & (st->nslots - 1))
		if (st->blocks[i].ptr == ptr)
			return &st->blocks[i];
	return NULL;
}

static void put(const struct block *b)
{
	size_t i;

	for (i = slot_of(b->ptr); st->blocks[i].ptr; i = (i + 1) & (st->nslots - 1))
		;
	st->blocks[i] = *b;
}

static bool grow(void)
{
	size_t i, n = st->nslots;
	struct block *old = st->blocks;
	struct block *new;

	if (st->nblocks < n / 2)
		return true;
	new = map(-1, 0, (n ? n * 2 : 4096) * sizeof(*new));
	if (!new)
		return false;
	st->blocks = new;
	st->nslots = n ? n * 2 : 4096;
	for (i = 0; i < n; i++)
		if (old[i].ptr)
			put(&old[i]);
	if (old)
		munmap(old, n * sizeof(*old));
	return true;
}

/* Closes the gap behind a removed block, so a search may stop at a gap. */
static void drop(struct block *b)
{
	size_t mask = st->nslots - 1;
	size_t gap, i;

	store('f', b->id, b->size, b->stream);
	gap = b - st->blocks;
	for (i = (gap + 1) & mask; st->blocks[i].ptr; i = (i + 1) & mask) {
		if (((i - slot_of(st->blocks[i].ptr)) & mask) < ((i - gap) & mask))
			continue;
		st->blocks[gap] = st->blocks[i];
		gap = i;
	}
	st->blocks[gap].ptr = NULL;
	st->nblocks--;
}

static void add(void *ptr, size_t size)
{
	struct block b = { .ptr = ptr, .size = size };
	struct block *stale;

	if (!ptr || !size || size < min_size)
		return;
	stale = find(ptr);
	if (stale) {
		st->header->unseen++;
		drop(stale);
	}
	if (!grow()) {
		stop(ENOMEM);
		return;
	}
	if (self.pid != st->pid) {
		self.pid = st->pid;
		self.stream = st->next_stream++;
	}
	b.id = st->next_id++;
	b.stream = self.stream;
	put(&b);
	st->nblocks++;
	store('a', b.id, size, b.stream);
}

static void *note(void *ptr, size_t size)
{
	int err = errno;

	if (ptr && size >= min_size && enter(true)) {
		add(ptr, size);
		leave();
	}
	errno = err;
	return ptr;
}

/* So that the launcher sees that this image was reached, if it allocates or not. */
__attribute__((constructor)) static void loaded(void)
{
	if (resolve() && enter(true))
		leave();
}

EXPORT void *malloc(size_t size)
{
	if (!resolve())
		return boot_alloc(size);
	return note(real.malloc(size), size);
}

EXPORT void *calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	if (!resolve())
		return boot_alloc(bytes);
	return note(real.calloc(n, size), bytes);
}

EXPORT void free(void *ptr)
{
	struct block *b;
	int err = errno;

	if (!ptr || boot_owns(ptr) || !resolve())
		return;
	if (enter(false)) {
		b = find(ptr);
		if (b)
			drop(b);
		leave();
	}
	errno = err;
	real.free(ptr);
}

EXPORT void *realloc(void *old, size_t size)
{
	struct block *b;
	size_t had;
	void *new;
	int err;

	if (!old)
		return malloc(size);
	if (boot_owns(old)) {
		memcpy(&had, (char *)old - BOOT_ALIGN, sizeof(had));
		new = malloc(size);
		if (new)
			memcpy(new, old, had < size ? had : size);
		return new;
	}
	if (!resolve())
		return NULL;
	err = errno;
	if (!enter(size >= min_size)) {
		errno = err;
		return real.realloc(old, size);
	}
	errno = err;
	new = real.realloc(old, size);
	err = errno;
	/* Of size 0 means freed, with or without a result; else NULL means untouched. */
	if (new || !size) {
		b = find(old);
		if (!b || new != old || b->size != size) {
			if (b)
				drop(b);
			add(new, size);
		}
	}
	leave();
	errno = err;
	return new;
}

EXPORT void *reallocarray(void *old, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, bytes);
}

EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
	int ret;

	if (!resolve())
		return ENOMEM;
	ret = real.posix_memalign(out, align, size);
	if (!ret)
		note(*out, size);
	return ret;
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	return resolve() ? note(real.aligned_alloc(align, size), size) : NULL;
}

/* The last three are not in every C library. */
EXPORT void *memalign(size_t align, size_t size)
{
	return resolve() && real.memalign ? note(real.memalign(align, size), size) : NULL;
}

EXPORT void *valloc(size_t size)
{
	return resolve() && real.valloc ? note(real.valloc(size), size) : NULL;
}

EXPORT void *pvalloc(size_t size)
{
	return resolve() && real.pvalloc ? note(real.pvalloc(size), size) : NULL;
}
