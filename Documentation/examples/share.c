// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A producer fills a block, a consumer reads it, and nothing is copied. All that passes
 * between them is the pool file and the block's address. Each has its own client of the
 * device, so that each can end, or be killed, without the other.
 */
#include <devpool.h>
#include <sys/wait.h>

#include "pass.h"

#define MIB (1ULL << 20)
#define BYTES (6 * MIB)
#define WORDS (BYTES / sizeof(uint64_t))

static int produce(int sock)
{
	struct message message = { .bytes = BYTES };
	struct devpool_alloc_opts opts = { .sz = sizeof(opts) };
	struct devpool_result result;
	struct devpool_pool *pool;
	struct devpool *dev;
	uint64_t *word, i;
	void *block;
	char retained;

	check(devpool_open(NULL, &dev), "open");
	check(devpool_pool_create(dev, NULL, &pool), "pool");
	opts.pool = devpool_pool_id(pool);
	check(devpool_alloc(dev, BYTES, &opts, &block), "alloc");
	for (word = block, i = 0; i < WORDS; i++)
		word[i] = i;

	check(devpool_addr(dev, block, &message.addr), "addr");
	send_file(sock, &message, devpool_pool_fd(pool));
	/* The consumer has a reference of its own from here on: ours is not needed. */
	if (read(sock, &retained, 1) != 1)
		return 1;
	check(devpool_free(dev, block), "free");
	check(devpool_pool_close(pool, 0, &result), "close");
	printf("producer: closed the pool, %llu MiB are live\n",
	       (unsigned long long)(result.live / MIB));
	devpool_close(dev);
	return 0;
}

static int consume(int sock)
{
	struct devpool_result result;
	struct devpool_pool *pool;
	uint64_t i, sum = 0, *word;
	struct message message;
	struct devpool *dev;
	void *block;
	char end;
	int fd;

	/* The pool file says what device it is of: none has to be opened. */
	fd = receive_file(sock, &message);
	check(devpool_pool_attach(NULL, fd, &pool), "attach");
	close(fd);
	dev = devpool_pool_device(pool);
	check(devpool_retain(dev, message.addr), "retain");
	check(devpool_ptr(dev, message.addr, &block), "ptr");
	if (write(sock, "", 1) != 1)
		return 1;

	/* Until the producer is gone; its block is as good as before. */
	if (read(sock, &end, 1) != 0)
		return 1;
	for (word = block, i = 0; i < message.bytes / sizeof(*word); i++)
		sum += word[i];
	printf("consumer: the sum is %s\n", sum == WORDS * (WORDS - 1) / 2 ? "right" : "wrong");
	check(devpool_free(dev, block), "free");
	check(devpool_pool_close(pool, 0, &result), "close");
	printf("consumer: closed the pool, %llu MiB went back\n",
	       (unsigned long long)(result.freed / MIB));
	return 0;
}

int main(void)
{
	int sock[2], produced, status;
	pid_t consumer;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock))
		return 1;
	setlinebuf(stdout);
	consumer = fork();
	if (consumer == 0) {
		close(sock[0]);
		exit(consume(sock[1]));
	}
	close(sock[1]);
	produced = produce(sock[0]);
	close(sock[0]);
	if (consumer < 0 || waitpid(consumer, &status, 0) < 0)
		return 1;
	return produced || status;
}
