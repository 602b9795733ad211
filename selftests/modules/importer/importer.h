/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a test tells the importer, a driver that does with a dma-buf what drivers do.
 */
#ifndef IMPORTER_H
#define IMPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * struct importer - the argument of all commands
 * @buf: the dma-buf
 * @entries: TABLE: entries of the SG table
 * @unmerged: TABLE: entries that begin where the one before ends
 * @pages: TABLE: pages of all entries
 * @tag: FILL: the word at offset 0; each that follows is one more. LOOK: the same
 * @differs: LOOK: words that are others
 */
struct importer {
	__s32 buf;
	__u32 entries;
	__u32 unmerged;
	__u32 pages;
	__u64 tag;
	__u64 differs;
};

/* Attaches a device, maps the memory for it, and undoes both */
#define IMPORTER_TABLE _IOWR('i', 0, struct importer)
/* The same, but undoes it when the file is closed */
#define IMPORTER_HOLD _IOWR('i', 1, struct importer)
/* Writes and reads by an address of the kernel's */
#define IMPORTER_FILL _IOWR('i', 2, struct importer)
#define IMPORTER_LOOK _IOWR('i', 3, struct importer)
/* Gets such an address by the exporter's own operation, and gives it up */
#define IMPORTER_VMAP _IOWR('i', 4, struct importer)

#endif
