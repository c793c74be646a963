/* As template.c, with non-temporal word stores and one fence a run. x86-64 only. */
#include "page.h"

static inline void store_past_caches(unsigned long *to, unsigned long value)
{
	__asm__ volatile("movnti %1, %0" : "=m"(*to) : "r"(value));
}

static inline void stream_words(unsigned long *to, const unsigned long *from)
{
	store_past_caches(to + 0, from[0]);
	store_past_caches(to + 1, from[1]);
	store_past_caches(to + 2, from[2]);
	store_past_caches(to + 3, from[3]);
	store_past_caches(to + 4, from[4]);
	store_past_caches(to + 5, from[5]);
	store_past_caches(to + 6, from[6]);
#if PAGE_WORDS > 7
	store_past_caches(to + 7, from[7]);
#endif
#if PAGE_WORDS > 8
	store_past_caches(to + 8, from[8]);
#endif
#if PAGE_WORDS > 9
	store_past_caches(to + 9, from[9]);
#endif
#if PAGE_WORDS > 10
	store_past_caches(to + 10, from[10]);
#endif
#if PAGE_WORDS > 11
	store_past_caches(to + 11, from[11]);
#endif
}

void SIZED(kernel_movnti)(struct page *page, size_t count, const struct run *run,
			  struct page *template)
{
	unsigned long link = run->link;
	unsigned long step = run->step;

	clear_words(template);
	set_fields(template, run, link);
	for (struct page *end = page + count; page != end; page++) {
		template->lru.next = link;
		template->lru.prev = link;
		stream_words((unsigned long *)page, (const unsigned long *)template);
		link += step;
	}
	__asm__ volatile("sfence" ::: "memory");
}
