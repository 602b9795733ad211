/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the examples of sharing have in common: messages over a Unix socket. */
#ifndef PASS_H
#define PASS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Where a block is. The file that goes with it is of the pool, or is the block. */
struct message {
	uint64_t addr;
	uint64_t bytes;
};

static void check(int ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-ret));
	exit(1);
}

/* A descriptor goes beside the bytes of the message, by SCM_RIGHTS. */
union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

static void send_file(int sock, const struct message *message, int fd)
{
	struct iovec data = { .iov_base = (void *)message, .iov_len = sizeof(*message) };
	union control control = {
		.header = {
			.cmsg_len = CMSG_LEN(sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		},
	};
	struct msghdr msg = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	if (sendmsg(sock, &msg, 0) != sizeof(*message)) {
		perror("sendmsg");
		exit(1);
	}
}

/* Returns the descriptor, which is this process's own. */
static int receive_file(int sock, struct message *message)
{
	struct iovec data = { .iov_base = message, .iov_len = sizeof(*message) };
	union control control;
	struct msghdr msg = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int fd;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != sizeof(*message) ||
	    msg.msg_controllen != sizeof(control)) {
		fprintf(stderr, "no message, or no file in it\n");
		exit(1);
	}
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

#endif
