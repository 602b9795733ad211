// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What devpoolctl looks at: devices in sysfs, the fdinfo of those processes that
 * the caller may read, and, by the device file, the blocks of all clients.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "devpoolctl.h"

#define CLASS "/sys/class/devpool"

/* More than any fdinfo of devpool's needs */
#define FDINFO_BYTES 8192

/* Entries per SNAPSHOT */
#define BLOCKS 16384

/* All digits, and no more than fits */
bool parse_number(const char *text, uint64_t *number)
{
	uint64_t n = 0;

	if (!*text)
		return false;
	for (; *text; text++)
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, *text - '0', &n))
			return false;
	*number = n;
	return true;
}

static void copy(char *to, size_t room, const char *from)
{
	size_t len = strnlen(from, room - 1);

	memcpy(to, from, len);
	to[len] = '\0';
}

/* An id as it is printed: two numbers with a colon between them */
bool parse_pool(const char *text, struct devpool_pool_id *id)
{
	char first[32];
	const char *colon = strchr(text, ':');
	uint64_t n[2];

	if (!colon || colon - text >= (ptrdiff_t)sizeof(first))
		return false;
	copy(first, colon - text + 1, text);
	if (!parse_number(first, &n[0]) || !parse_number(colon + 1, &n[1]))
		return false;
	id->first = n[0];
	id->second = n[1];
	return true;
}

static void *grow(void *old, unsigned int used, size_t each)
{
	/* Doubles whenever a power of two is full. */
	if (used & (used - 1))
		return old;
	return must(reallocarray(old, used ? 2 * (size_t)used : 1, each));
}

/* The whole of a small file, without the newline at its end */
static int read_at(int dir, const char *name, char *buf, size_t room)
{
	ssize_t got, len = 0;
	int err = 0, fd;

	fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while ((size_t)len < room - 1) {
		got = read(fd, buf + len, room - 1 - len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			err = -errno;
		if (got <= 0)
			break;
		len += got;
	}
	close(fd);
	if (len && buf[len - 1] == '\n')
		len--;
	buf[len] = '\0';
	return err;
}

static bool parse_name(const char *name, unsigned int *index)
{
	static const char prefix[] = "devpool";
	uint64_t n;

	if (strncmp(name, prefix, strlen(prefix)) || !parse_number(name + strlen(prefix), &n) ||
	    n > UINT32_MAX)
		return false;
	*index = n;
	return true;
}

static int read_number(int dir, const char *name, uint64_t *number)
{
	char buf[32];
	int err;

	err = read_at(dir, name, buf, sizeof(buf));
	if (err)
		return err;
	return parse_number(buf, number) ? 0 : -EPROTO;
}

static int read_device(const char *name, struct device *device)
{
	const struct {
		const char *name;
		uint64_t *number;
	} files[] = {
		{ "bytes", &device->bytes },
		{ "chunk", &device->chunk },
		{ "used", &device->used },
		{ "clean", &device->clean },
		{ "dirty", &device->dirty },
		{ "clients", &device->clients },
		{ "pools", &device->pools },
	};
	char path[sizeof(CLASS) + 32];
	unsigned int i;
	int dir, err;

	memset(device, 0, sizeof(*device));
	if (!parse_name(name, &device->index))
		return -ENODEV;
	snprintf(device->name, sizeof(device->name), "devpool%u", device->index);
	snprintf(device->node, sizeof(device->node), "/dev/%s", device->name);
	snprintf(path, sizeof(path), CLASS "/%s", device->name);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT ? -ENODEV : -errno;
	err = read_at(dir, "backend", device->backend, sizeof(device->backend));
	for (i = 0; !err && i < ARRAY_SIZE(files); i++)
		err = read_number(dir, files[i].name, files[i].number);
	close(dir);
	return err;
}

static int compare_devices(const void *a, const void *b)
{
	const struct device *x = a, *y = b;

	return x->index < y->index ? -1 : x->index > y->index;
}

/*
 * All devices. One that goes while it is looked at is none. Complains; 0 or -1.
 */
int look_devices(struct devices *devices)
{
	struct dirent *entry;
	int err, ret = 0;
	DIR *dir;

	dir = opendir(CLASS);
	if (!dir) {
		if (errno == ENOENT)
			complain("the module devpool is not loaded");
		else
			complain("%s: %s", CLASS, strerror(errno));
		return -1;
	}
	while ((entry = readdir(dir))) {
		if (*entry->d_name == '.')
			continue;
		devices->at = grow(devices->at, devices->nr, sizeof(*devices->at));
		err = read_device(entry->d_name, &devices->at[devices->nr]);
		if (!err) {
			devices->nr++;
		} else if (err != -ENODEV && err != -ENOENT) {
			complain("%s/%s: %s", CLASS, entry->d_name, strerror(-err));
			ret = -1;
		}
	}
	closedir(dir);
	if (devices->nr)
		qsort(devices->at, devices->nr, sizeof(*devices->at), compare_devices);
	return ret;
}

/* The name of the device whose node @path is */
static int name_of_node(const char *path, char *name, size_t room)
{
	char link[64], subsystem[80], target[256];
	struct stat sb;
	ssize_t len;

	if (stat(path, &sb))
		return -errno;
	if (!S_ISCHR(sb.st_mode))
		return -ENOTTY;
	snprintf(link, sizeof(link), "/sys/dev/char/%u:%u", major(sb.st_rdev), minor(sb.st_rdev));
	snprintf(subsystem, sizeof(subsystem), "%s/subsystem", link);
	len = readlink(subsystem, target, sizeof(target) - 1);
	if (len < 0)
		return -ENOTTY;
	target[len] = '\0';
	if (strcmp(basename(target), "devpool"))
		return -ENOTTY;
	len = readlink(link, target, sizeof(target) - 1);
	if (len < 0)
		return -errno;
	target[len] = '\0';
	copy(name, room, basename(target));
	return 0;
}

/* The device of that name, or of that node if it has a slash. Complains; 0 or -1. */
int look_device(const char *which, struct device *device)
{
	bool is_path = strchr(which, '/');
	char name[64];
	int err = 0;

	if (strlen(which) >= sizeof(device->node))
		err = -ENAMETOOLONG;
	else if (is_path)
		err = name_of_node(which, name, sizeof(name));
	else
		copy(name, sizeof(name), which);
	if (!err)
		err = read_device(name, device);
	if (!err && is_path)
		copy(device->node, sizeof(device->node), which);
	switch (err) {
	case 0:
		return 0;
	case -ENOTTY:
		complain("%s: not the node of a devpool device", which);
		break;
	case -ENODEV:
		complain("%s: no such device", which);
		break;
	default:
		complain("%s: %s", which, strerror(-err));
	}
	return -1;
}

/* Reads again what changes of a device. Complains; 0 or -1. */
int look_again(struct device *device)
{
	struct device now;
	int err;

	err = read_device(device->name, &now);
	if (err) {
		complain("%s: %s", device->name, strerror(-err));
		return -1;
	}
	copy(now.node, sizeof(now.node), device->node);
	*device = now;
	return 0;
}

/* Leaves that many bytes in a device's stock. Complains; 0 or -1. */
int look_trim(const struct device *device, uint64_t bytes)
{
	char path[sizeof(CLASS) + 48], text[32];
	int err = 0, fd;

	snprintf(path, sizeof(path), CLASS "/%s/trim", device->name);
	snprintf(text, sizeof(text), "%" PRIu64 "\n", bytes);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		err = errno;
	if (fd >= 0)
		close(fd);
	if (err)
		complain("%s: %s", path, strerror(err));
	return err ? -1 : 0;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_objects(const void *a, const void *b)
{
	const struct object *x = a, *y = b;

	return compare_numbers(x->device, y->device) ?:
	       compare_numbers(x->client, y->client) ?:
	       compare_numbers(x->id.first, y->id.first) ?:
	       compare_numbers(x->id.second, y->id.second);
}

static int compare_places(const void *a, const void *b)
{
	return compare_objects(*(struct object * const *)a, *(struct object * const *)b);
}

/* The object of the same device, client and id; a new one if there is none yet */
struct object *get_object(struct objects *objects, const struct object *like)
{
	struct object **node, *object;

	node = must(tsearch(like, &objects->tree, compare_objects));
	if (*node != like)
		return *node;
	object = must(calloc(1, sizeof(*object)));
	object->device = like->device;
	object->client = like->client;
	object->id = like->id;
	*node = object;
	objects->at = grow(objects->at, objects->nr, sizeof(*objects->at));
	objects->at[objects->nr++] = object;
	return object;
}

/* Adds to what is known of an object */
void add_number(struct object *object, enum number number, uint64_t value)
{
	object->known |= 1U << number;
	object->number[number] += value;
}

/* In the order of devices, clients and ids */
void sort_objects(struct objects *objects)
{
	if (objects->nr)
		qsort(objects->at, objects->nr, sizeof(*objects->at), compare_places);
}

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* What the kernel escaped, a backslash among it, stands there in octal. */
static void unescape(char *text)
{
	char *in = text, *out = text;

	while (*in) {
		if (*in == '\\' && is_octal(in[1]) && is_octal(in[2]) && is_octal(in[3])) {
			*out++ = (in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0');
			in += 4;
		} else {
			*out++ = *in++;
		}
	}
	*out = '\0';
}

/**
 * struct found - what one fdinfo says
 * @object: the client or the pool
 * @has_device: its device is there
 * @has_client: so is the number of the client
 * @is_pool: it is a pool file
 */
struct found {
	struct object object;
	bool has_device;
	bool has_client;
	bool is_pool;
};

static void parse_field(struct found *found, const char *key, char *text)
{
	static const char * const numbers[NR_NUMBERS] = {
		[N_ALLOCATED] = "allocated",
		[N_REQUESTED] = "requested",
		[N_ACTIVE] = "active",
		[N_RESIDENT] = "resident",
		[N_SPARE] = "spare",
		[N_BLOCKS] = "blocks",
		[N_PEAK_RESIDENT] = "peak-resident",
		[N_HITS] = "hits",
		[N_RECYCLES] = "recycles",
		[N_GROWS] = "grows",
		[N_RECLAIMS] = "reclaims",
		[N_WAITS] = "waits",
		[N_OOMS] = "ooms",
		[N_FLUSHES] = "flushes",
		[N_LIMIT] = "limit",
		[N_RELEASE_THRESHOLD] = "release-threshold",
		[N_USE_COUNT] = "use-count",
		[N_POOLS] = "pools",
		[N_BLOCKS_HELD] = "blocks-held",
		[N_STREAMS] = "streams",
		[N_PENDING] = "pending",
	};
	struct object *object = &found->object;
	uint64_t number;
	unsigned int i;

	if (!strcmp(key, "device")) {
		found->has_device = parse_name(text, &object->device);
	} else if (!strcmp(key, "client-id")) {
		found->has_client = parse_number(text, &object->client);
	} else if (!strcmp(key, "pool")) {
		found->is_pool = parse_pool(text, &object->id);
	} else if (!strcmp(key, "state")) {
		copy(object->state, sizeof(object->state), text);
	} else if (!strcmp(key, "pid")) {
		if (parse_number(text, &number) && number <= INT32_MAX)
			object->pid = number;
	} else if (!strcmp(key, "comm")) {
		unescape(text);
		copy(object->comm, sizeof(object->comm), text);
		object->has_owner = true;
	} else if (parse_number(text, &number)) {
		for (i = 0; i < NR_NUMBERS; i++)
			if (!strcmp(key, numbers[i]))
				add_number(object, i, number);
	}
}

/* Lines "devpool-KEY:<tab>TEXT", among others. */
static void parse_fdinfo(struct found *found, char *text)
{
	static const char prefix[] = "devpool-";
	char *line, *value;

	while ((line = strsep(&text, "\n"))) {
		value = strstr(line, ":\t");
		if (strncmp(line, prefix, strlen(prefix)) || !value)
			continue;
		*value = '\0';
		parse_field(found, line + strlen(prefix), value + 2);
	}
}

/*
 * Descriptors and processes that share a file tell the same of it, of another
 * instant: the latest counts.
 */
static void keep(struct world *world, const struct found *found, const struct holder *holder)
{
	struct objects *objects = found->is_pool ? &world->pools : &world->clients;
	struct object *object;
	struct holders holders;

	if (!found->has_device || !found->has_client)
		return;
	/* A file that has no pool any more, though one may have its name again */
	if (!strcmp(found->object.state, "released"))
		return;
	object = get_object(objects, &found->object);
	holders = object->holders;
	*object = found->object;
	/* A process is looked at once, so its descriptors follow each other. */
	if (!holders.nr || holders.at[holders.nr - 1].pid != holder->pid) {
		holders.at = grow(holders.at, holders.nr, sizeof(*holders.at));
		holders.at[holders.nr++] = *holder;
	}
	object->holders = holders;
}

/* The number of descriptors; what cannot be read has none. */
static unsigned int look_table(struct world *world, int dir, struct holder *holder)
{
	static char text[FDINFO_BYTES];
	unsigned int nr = 0;
	struct dirent *entry;
	struct found found;
	char path[64];
	DIR *fdinfo;
	int fd;

	fd = openat(dir, "fdinfo", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fdinfo = fd < 0 ? NULL : fdopendir(fd);
	if (!fdinfo)
		return 0;
	while ((entry = readdir(fdinfo))) {
		if (*entry->d_name == '.')
			continue;
		nr++;
		if (read_at(fd, entry->d_name, text, sizeof(text)) || !strstr(text, "devpool-"))
			continue;
		if (!*holder->comm) {
			snprintf(path, sizeof(path), "/proc/%d/comm", (int)holder->pid);
			read_at(AT_FDCWD, path, holder->comm, sizeof(holder->comm));
		}
		memset(&found, 0, sizeof(found));
		parse_fdinfo(&found, text);
		keep(world, &found, holder);
	}
	closedir(fdinfo);
	return nr;
}

/* Threads that outlive the first one have the descriptors, it has none then. */
static void look_threads(struct world *world, int dir, struct holder *holder)
{
	struct dirent *entry;
	int fd, thread;
	DIR *task;

	fd = openat(dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	task = fd < 0 ? NULL : fdopendir(fd);
	if (!task)
		return;
	while ((entry = readdir(task))) {
		if (*entry->d_name == '.')
			continue;
		thread = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (thread < 0)
			continue;
		look_table(world, thread, holder);
		close(thread);
	}
	closedir(task);
}

/*
 * Adds the clients and the pools whose files some process has open, as far as
 * the caller may see that. Processes end meanwhile, which is no error.
 * Complains; 0 or -1.
 */
int look_processes(struct world *world)
{
	struct holder holder;
	struct dirent *entry;
	uint64_t pid;
	int fd;
	DIR *proc;

	proc = opendir("/proc");
	if (!proc) {
		complain("/proc: %s", strerror(errno));
		return -1;
	}
	while ((entry = readdir(proc))) {
		if (!parse_number(entry->d_name, &pid) || (pid_t)pid == getpid())
			continue;
		fd = openat(dirfd(proc), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		memset(&holder, 0, sizeof(holder));
		holder.pid = pid;
		if (!look_table(world, fd, &holder))
			look_threads(world, fd, &holder);
		close(fd);
	}
	closedir(proc);
	return 0;
}

void free_objects(struct objects *objects)
{
	unsigned int i;

	while (objects->tree)
		tdelete(*(struct object **)objects->tree, &objects->tree, compare_objects);
	for (i = 0; i < objects->nr; i++) {
		free(objects->at[i]->holders.at);
		free(objects->at[i]);
	}
	free(objects->at);
}

/*
 * Calls @each for each block of all clients of a device, as long as it returns
 * 0. 0, or a negative errno.
 */
int look_blocks(struct devpool *dev, devpool_snapshot_fn *each, void *arg)
{
	struct devpool_snapshot cmd = {
		.size = sizeof(cmd),
		.flags = DEVPOOL_SNAPSHOT_DEVICE,
		.count = BLOCKS,
	};
	struct devpool_snapshot_entry *entries;
	int err = 0;
	uint32_t i;

	entries = must(calloc(BLOCKS, sizeof(*entries)));
	cmd.array = (uintptr_t)entries;
	do {
		if (ioctl(devpool_fd(dev), DEVPOOL_IOC_SNAPSHOT, &cmd))
			err = -errno;
		/* Addresses go up, so this comes to its end. */
		else if (cmd.out_count > BLOCKS || (cmd.out_cursor && cmd.out_cursor <= cmd.cursor))
			err = -EPROTO;
		for (i = 0; !err && i < cmd.out_count; i++) {
			entries[i].comm[sizeof(entries[i].comm) - 1] = '\0';
			err = each(&entries[i], arg);
		}
		cmd.cursor = cmd.out_cursor;
	} while (!err && cmd.cursor);
	free(entries);
	return err;
}
