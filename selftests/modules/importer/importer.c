// SPDX-License-Identifier: GPL-2.0-only
/*
 * A driver that imports dma-bufs and has no hardware: what a test cannot see from user
 * space. Anybody's dma-bufs will do.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/iosys-map.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "importer.h"

/* From 6.2 on there are functions for who does not hold the reservation object. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define dma_buf_map_attachment_unlocked dma_buf_map_attachment
#define dma_buf_unmap_attachment_unlocked dma_buf_unmap_attachment
#define dma_buf_vmap_unlocked dma_buf_vmap
#define dma_buf_vunmap_unlocked dma_buf_vunmap
#endif

/* What a file holds */
struct held {
	struct dma_buf_attachment *attach;
	struct sg_table *table;
};

static struct miscdevice importer_device;

static void release(struct held *held)
{
	struct dma_buf *buf;

	if (!held->attach)
		return;
	buf = held->attach->dmabuf;
	dma_buf_unmap_attachment_unlocked(held->attach, held->table, DMA_BIDIRECTIONAL);
	dma_buf_detach(buf, held->attach);
	dma_buf_put(buf);
	held->attach = NULL;
}

static int hold(struct held *held, struct importer *arg)
{
	struct dma_buf *buf = dma_buf_get(arg->buf);
	struct scatterlist *sg;
	dma_addr_t end = 0;
	int err, i;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	held->attach = dma_buf_attach(buf, importer_device.this_device);
	if (IS_ERR(held->attach)) {
		err = PTR_ERR(held->attach);
		goto put_buf;
	}
	held->table = dma_buf_map_attachment_unlocked(held->attach, DMA_BIDIRECTIONAL);
	if (IS_ERR(held->table)) {
		err = PTR_ERR(held->table);
		dma_buf_detach(buf, held->attach);
		goto put_buf;
	}
	arg->entries = held->table->nents;
	arg->unmerged = 0;
	arg->pages = 0;
	for_each_sgtable_dma_sg(held->table, sg, i) {
		arg->unmerged += i && sg_dma_address(sg) == end;
		arg->pages += sg_dma_len(sg) >> PAGE_SHIFT;
		end = sg_dma_address(sg) + sg_dma_len(sg);
	}
	return 0;

put_buf:
	held->attach = NULL;
	dma_buf_put(buf);
	return err;
}

static int access(struct importer *arg, bool write)
{
	struct dma_buf *buf = dma_buf_get(arg->buf);
	struct iosys_map map;
	size_t i;
	int err;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	err = dma_buf_vmap_unlocked(buf, &map);
	if (err)
		goto put_buf;
	arg->differs = 0;
	for (i = 0; i < buf->size / sizeof(u64); i++) {
		u64 *word = (u64 *)map.vaddr + i;

		if (write)
			WRITE_ONCE(*word, arg->tag + i);
		else
			arg->differs += READ_ONCE(*word) != arg->tag + i;
		if (i % PAGE_SIZE == 0)
			cond_resched();
	}
	dma_buf_vunmap_unlocked(buf, &map);
put_buf:
	dma_buf_put(buf);
	return err;
}

/* dma_buf_vmap() does the same, and warns wherever that fails. */
static int vmap_once(struct importer *arg)
{
	struct dma_buf *buf = dma_buf_get(arg->buf);
	struct iosys_map map;
	int err;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	dma_resv_lock(buf->resv, NULL);
	err = buf->ops->vmap(buf, &map);
	if (!err)
		buf->ops->vunmap(buf, &map);
	dma_resv_unlock(buf->resv);
	dma_buf_put(buf);
	return err;
}

static long importer_ioctl(struct file *file, unsigned int cmd, unsigned long user)
{
	struct held table = {}, *held = file->private_data;
	struct importer arg;
	int err;

	if (copy_from_user(&arg, (void __user *)user, sizeof(arg)))
		return -EFAULT;
	switch (cmd) {
	case IMPORTER_TABLE:
		err = hold(&table, &arg);
		release(&table);
		break;
	case IMPORTER_HOLD:
		err = held->attach ? -EBUSY : hold(held, &arg);
		break;
	case IMPORTER_FILL:
	case IMPORTER_LOOK:
		err = access(&arg, cmd == IMPORTER_FILL);
		break;
	case IMPORTER_VMAP:
		err = vmap_once(&arg);
		break;
	default:
		err = -ENOTTY;
	}
	if (!err && copy_to_user((void __user *)user, &arg, sizeof(arg)))
		err = -EFAULT;
	return err;
}

static int importer_open(struct inode *inode, struct file *file)
{
	struct held *held = kzalloc(sizeof(*held), GFP_KERNEL);

	file->private_data = held;
	return held ? 0 : -ENOMEM;
}

static int importer_release(struct inode *inode, struct file *file)
{
	release(file->private_data);
	kfree(file->private_data);
	return 0;
}

static const struct file_operations importer_fops = {
	.owner = THIS_MODULE,
	.open = importer_open,
	.release = importer_release,
	.unlocked_ioctl = importer_ioctl,
};

static struct miscdevice importer_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "devpool_importer",
	.fops = &importer_fops,
};

static int __init importer_init(void)
{
	int err;

	err = misc_register(&importer_device);
	if (err)
		return err;
	err = dma_coerce_mask_and_coherent(importer_device.this_device, DMA_BIT_MASK(64));
	if (err)
		misc_deregister(&importer_device);
	return err;
}

static void __exit importer_exit(void)
{
	misc_deregister(&importer_device);
}

module_init(importer_init);
module_exit(importer_exit);

MODULE_AUTHOR("devpool developers");
MODULE_DESCRIPTION("Imports dma-bufs, for tests");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(DMA_BUF);
