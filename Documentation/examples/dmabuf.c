// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A block as a dma-buf: for a process that has nothing of devpool's, as it is for a
 * driver. Who gets it needs neither the library nor a right to the device.
 */
#include <devpool.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "pass.h"

#define BYTES 8192

/* What devpool has to do with it */
static int give(int sock)
{
	struct devpool_alloc_opts opts = {
		.sz = sizeof(opts),
		.flags = DEVPOOL_ALLOC_EXPORTABLE,
	};
	struct message message = { .bytes = BYTES };
	struct devpool *dev;
	void *block;
	int buf;

	check(devpool_open(NULL, &dev), "open");
	check(devpool_alloc(dev, BYTES, &opts, &block), "alloc");
	snprintf(block, BYTES, "written by one process");
	buf = devpool_export(dev, block, O_RDWR | O_CLOEXEC);
	check(buf, "export");
	send_file(sock, &message, buf);
	close(buf);
	/* All that is left of it is the descriptor in the message. */
	check(devpool_free(dev, block), "free");
	devpool_close(dev);
	printf("the device is closed\n");
	return 0;
}

/* Around what the CPU does with it, so that it sees what a device has written */
static int sync_buf(int buf, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_READ | flags };

	return ioctl(buf, DMA_BUF_IOCTL_SYNC, &sync) ? -errno : 0;
}

static int take(int sock)
{
	struct message message;
	char *text, end;
	int buf;

	buf = receive_file(sock, &message);
	/* Until the other one is gone */
	if (read(sock, &end, 1) != 0)
		return 1;
	text = mmap(NULL, message.bytes, PROT_READ, MAP_SHARED, buf, 0);
	check(text == MAP_FAILED ? -errno : 0, "mmap");
	check(sync_buf(buf, DMA_BUF_SYNC_START), "sync");
	printf("%s, read by another\n", text);
	check(sync_buf(buf, DMA_BUF_SYNC_END), "sync");
	munmap(text, message.bytes);
	close(buf);
	return 0;
}

int main(void)
{
	int sock[2], given, status;
	pid_t taker;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock))
		return 1;
	setlinebuf(stdout);
	taker = fork();
	if (taker == 0) {
		close(sock[0]);
		exit(take(sock[1]));
	}
	close(sock[1]);
	given = give(sock[0]);
	close(sock[0]);
	if (taker < 0 || waitpid(taker, &status, 0) < 0)
		return 1;
	return given || status;
}
