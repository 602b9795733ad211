// SPDX-License-Identifier: GPL-2.0-only
/*
 * A driver that knows nothing of devpool writes into its blocks: vivid, a camera that
 * is not there, captures frames into exported blocks by V4L2_MEMORY_DMABUF.
 */
#include <linux/videodev2.h>

#include "devpool_test.h"

#define NR_BUFS 3
#define WIDTH 640
#define HEIGHT 360
#define BAR (WIDTH / 8)

/* The colours of the test pattern's bars, from the left: red, green, blue */
static const __u8 bars[8][3] = {
	{ 255, 255, 255 }, { 255, 255, 0 }, { 0, 255, 255 }, { 0, 255, 0 },
	{ 255, 0, 255 }, { 255, 0, 0 }, { 0, 0, 255 }, { 0, 0, 0 },
};

FIXTURE(vivid)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	__u64 addr[NR_BUFS];
	char *p[NR_BUFS];
	int buf[NR_BUFS];
	size_t size;
	int video;
	int pool;
	int index;
	int fd;
};

/* The first node that captures, of however many vivid has */
static int open_vivid(void)
{
	struct v4l2_capability caps;
	char path[32];
	int fd;
	int i;

	for (i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), "/dev/video%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!ioctl(fd, VIDIOC_QUERYCAP, &caps) &&
		    !strcmp((char *)caps.driver, "vivid") &&
		    caps.device_caps & V4L2_CAP_VIDEO_CAPTURE)
			return fd;
		close(fd);
	}
	return -ENODEV;
}

/* Sets a menu of that name to the item of that name. */
static int choose(int fd, const char *name, const char *item)
{
	struct v4l2_queryctrl query = { .id = V4L2_CTRL_FLAG_NEXT_CTRL };
	struct v4l2_querymenu menu;

	do {
		if (ioctl(fd, VIDIOC_QUERYCTRL, &query))
			return -ENOENT;
		menu = (struct v4l2_querymenu){ .id = query.id };
		query.id |= V4L2_CTRL_FLAG_NEXT_CTRL;
	} while (query.type != V4L2_CTRL_TYPE_MENU || strcmp((char *)query.name, name));

	for (; menu.index <= (__u32)query.maximum; menu.index++) {
		struct v4l2_control control = { .id = menu.id, .value = menu.index };

		if (!ioctl(fd, VIDIOC_QUERYMENU, &menu) && !strcmp((char *)menu.name, item))
			return ioctl(fd, VIDIOC_S_CTRL, &control) ? -errno : 0;
	}
	return -ENOENT;
}

static int queue(int video, int buf, int index)
{
	struct v4l2_buffer arg = {
		.index = index,
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = V4L2_MEMORY_DMABUF,
		.m.fd = buf,
	};

	return ioctl(video, VIDIOC_QBUF, &arg) ? -errno : 0;
}

/* The index of a buffer that has a frame, or -errno */
static int dequeue(int video)
{
	struct v4l2_buffer arg = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = V4L2_MEMORY_DMABUF,
	};

	if (ioctl(video, VIDIOC_DQBUF, &arg))
		return -errno;
	return arg.flags & V4L2_BUF_FLAG_ERROR ? -EIO : (int)arg.index;
}

static int request(int video, int count)
{
	struct v4l2_requestbuffers arg = {
		.count = count,
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = V4L2_MEMORY_DMABUF,
	};

	return ioctl(video, VIDIOC_REQBUFS, &arg) ? -errno : (int)arg.count;
}

static int stream(int video, unsigned long on_off)
{
	int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;

	return ioctl(video, on_off, &type) ? -errno : 0;
}

/*
 * The first byte of a frame that is not what the bars are, or -1. The camera goes by
 * way of other colour spaces, so it is off by a little.
 */
static long wrong(const char *frame)
{
	long i;

	for (i = 0; i < WIDTH * HEIGHT * 3; i++) {
		int want = bars[i / 3 % WIDTH / BAR][i % 3];
		int is = (__u8)frame[i];

		/* Where one bar ends and the next begins both may shine through. */
		if (i / 3 % BAR < 2 || i / 3 % BAR >= BAR - 2)
			continue;
		if (abs(is - want) > 8)
			return i;
	}
	return -1;
}

FIXTURE_SETUP(vivid)
{
	struct v4l2_format format = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.fmt.pix = {
			.width = WIDTH,
			.height = HEIGHT,
			.pixelformat = V4L2_PIX_FMT_RGB24,
		},
	};
	int input = 0;
	int i;

	test_setup(self, TEST_SYSMEM);
	self->video = open_vivid();
	if (self->video < 0)
		SKIP(return, "this kernel has no vivid");
	ASSERT_EQ(0, ioctl(self->video, VIDIOC_S_INPUT, &input));
	ASSERT_EQ(0, ioctl(self->video, VIDIOC_S_FMT, &format));
	ASSERT_EQ(WIDTH, format.fmt.pix.width);
	ASSERT_EQ(HEIGHT, format.fmt.pix.height);
	ASSERT_EQ(V4L2_PIX_FMT_RGB24, format.fmt.pix.pixelformat);
	ASSERT_EQ(0, choose(self->video, "Test Pattern", "100% Colorbar"));
	ASSERT_EQ(0, choose(self->video, "OSD Text Mode", "None"));

	self->size = round_to(format.fmt.pix.sizeimage, TEST_PAGE);
	self->pool = test_pool_create(self->fd, &self->id);
	for (i = 0; i < NR_BUFS; i++) {
		struct devpool_alloc alloc = {
			.bytes = self->size,
			.flags = DEVPOOL_ALLOC_EXPORTABLE,
			.pool = self->id,
		};

		ASSERT_EQ(0, devpool_alloc_opts_raw(self->fd, &alloc));
		self->addr[i] = alloc.out_addr;
		self->p[i] = test_map(self->fd, self->addr[i], self->size);
		test_fill(self->p[i], self->size, i);
		ASSERT_EQ(0, devpool_export_raw(self->fd, self->addr[i], O_RDWR | O_CLOEXEC,
						&self->buf[i]));
	}
	ASSERT_EQ(NR_BUFS, request(self->video, NR_BUFS));
}

FIXTURE_TEARDOWN(vivid)
{
	if (self->video < 0)
		return;
	close(self->video);
	close(self->pool);
	close(self->fd);
	EXPECT_BASE(self->base, self->index);
}

/* All that a test has of a block */
#define DROP(i)									\
do {										\
	munmap(self->p[i], self->size);						\
	close(self->buf[i]);							\
	test_free(self->fd, self->addr[i]);					\
} while (0)

TEST_F(vivid, frames_are_captured_into_blocks)
{
	int i, index;

	for (i = 0; i < NR_BUFS; i++)
		ASSERT_EQ(0, queue(self->video, self->buf[i], i));
	ASSERT_EQ(0, stream(self->video, VIDIOC_STREAMON));
	for (i = 0; i < 3 * NR_BUFS; i++) {
		index = dequeue(self->video);
		ASSERT_LE(0, index);
		EXPECT_EQ(-1, wrong(self->p[index]));
		/* So that the next frame is seen to be one */
		memset(self->p[index], i, WIDTH * HEIGHT * 3);
		ASSERT_EQ(0, queue(self->video, self->buf[index], index));
	}
	ASSERT_EQ(0, stream(self->video, VIDIOC_STREAMOFF));
	ASSERT_EQ(0, request(self->video, 0));
	for (i = 0; i < NR_BUFS; i++)
		DROP(i);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
}

/* What the camera has is its own until it gives it up, whoever is gone. */
TEST_F(vivid, F7_the_camera_keeps_what_it_writes_to)
{
	char *p;
	int i;

	for (i = 0; i < NR_BUFS; i++)
		ASSERT_EQ(0, queue(self->video, self->buf[i], i));
	p = test_map(self->buf[0], 0, self->size);
	for (i = 0; i < NR_BUFS; i++)
		DROP(i);
	EXPECT_EQ(NR_BUFS * self->size, test_pending(self->fd, self->id));
	EXPECT_EQ(-1, test_differs(p, self->size, 0));
	ASSERT_EQ(0, stream(self->video, VIDIOC_STREAMON));
	ASSERT_EQ(0, dequeue(self->video));
	EXPECT_EQ(-1, wrong(p));
	munmap(p, self->size);
	ASSERT_EQ(0, stream(self->video, VIDIOC_STREAMOFF));
	EXPECT_EQ(NR_BUFS * self->size, test_pending(self->fd, self->id));
	ASSERT_EQ(0, request(self->video, 0));
	EXPECT_EQ(0, test_pending(self->fd, self->id));
}

/* A camera is no danger to what is beside its buffer. */
TEST_F(vivid, a_block_that_is_too_small_is_refused)
{
	struct devpool_alloc alloc = {
		.bytes = self->size - TEST_PAGE,
		.flags = DEVPOOL_ALLOC_EXPORTABLE,
		.pool = self->id,
	};
	int buf, i;

	ASSERT_EQ(0, devpool_alloc_opts_raw(self->fd, &alloc));
	ASSERT_EQ(0, devpool_export_raw(self->fd, alloc.out_addr, O_RDWR | O_CLOEXEC, &buf));
	EXPECT_EQ(-EINVAL, queue(self->video, buf, 0));
	close(buf);
	test_free(self->fd, alloc.out_addr);
	for (i = 0; i < NR_BUFS; i++)
		DROP(i);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
}

TEST_HARNESS_MAIN
