/* A call that clears the page, then the field stores: how Linux did it before 5.2. */
#include "page.h"

void *clear_by_words(void *start, int byte, size_t length);
void *clear_by_stosq(void *start, int byte, size_t length);
void *clear_by_stosb(void *start, int byte, size_t length);

#define MEMSET(name, clear)                                                    \
	void SIZED(name)(struct page *page, size_t count, const struct run *run,   \
			 struct page *unused)                                              \
	{                                                                          \
		(void)unused;                                                          \
		const struct run common = *run;                                        \
		unsigned long link = common.link;                                      \
                                                                               \
		for (struct page *end = page + count; page != end; page++) {           \
			clear(page, 0, sizeof(*page));                                     \
			set_fields(page, &common, link);                                   \
			link += common.step;                                               \
		}                                                                      \
	}

MEMSET(kernel_memset_words, clear_by_words)
#ifdef __x86_64__
MEMSET(kernel_memset_stosq, clear_by_stosq)
MEMSET(kernel_memset_stosb, clear_by_stosb)
#endif
