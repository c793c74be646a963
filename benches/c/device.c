/*
 * Struct pages of devices: pages that are all alike, each cleared and then
 * stored field by field, as Linux does for every page of a device. First by
 * word stores (since 5.2), then by a call that clears (before).
 */
#include "page.h"

/* What the Rust side calls DeviceRun. */
struct device_run {
	unsigned long flags;
	/* the device's description, or what a tail names its head by */
	unsigned long pagemap;
	unsigned long mapping;
	unsigned int mapcount;
	unsigned int refcount;
};

void *clear_by_words(void *start, int byte, size_t length);
void *clear_by_stosq(void *start, int byte, size_t length);
void *clear_by_stosb(void *start, int byte, size_t length);

#define DEVICE(name, clear)                                                    \
	void SIZED(name)(struct page *page, size_t count,                          \
			 const struct device_run *run)                                     \
	{                                                                          \
		const struct device_run common = *run;                                 \
                                                                               \
		for (struct page *end = page + count; page != end; page++) {           \
			clear;                                                             \
			page->flags = common.flags;                                        \
			page->refcount = common.refcount;                                  \
			page->mapcount = common.mapcount;                                  \
			page->lru.next = common.pagemap;                                   \
			page->lru.prev = 0;                                                \
			page->mapping = common.mapping;                                    \
		}                                                                      \
	}

DEVICE(kernel_device_zero, clear_words(page))
DEVICE(kernel_device_memset_words, clear_by_words(page, 0, sizeof(*page)))
#ifdef __x86_64__
DEVICE(kernel_device_memset_stosq, clear_by_stosq(page, 0, sizeof(*page)))
DEVICE(kernel_device_memset_stosb, clear_by_stosb(page, 0, sizeof(*page)))
#endif
