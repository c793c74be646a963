/*
 * One finished page, refreshed in memory and copied word by word through
 * general registers.
 *
 * The template may alias the pages for all that the compiler knows, so it is
 * loaded anew for every page, as where it is handed to a helper.
 */
#include "page.h"

static inline void copy_words(unsigned long *to, const unsigned long *from)
{
	to[0] = from[0];
	to[1] = from[1];
	to[2] = from[2];
	to[3] = from[3];
	to[4] = from[4];
	to[5] = from[5];
	to[6] = from[6];
#if PAGE_WORDS > 7
	to[7] = from[7];
#endif
#if PAGE_WORDS > 8
	to[8] = from[8];
#endif
#if PAGE_WORDS > 9
	to[9] = from[9];
#endif
#if PAGE_WORDS > 10
	to[10] = from[10];
#endif
#if PAGE_WORDS > 11
	to[11] = from[11];
#endif
}

void SIZED(kernel_template)(struct page *page, size_t count, const struct run *run,
			    struct page *template)
{
	unsigned long link = run->link;
	unsigned long step = run->step;

	clear_words(template);
	set_fields(template, run, link);
	for (struct page *end = page + count; page != end; page++) {
		template->lru.next = link;
		template->lru.prev = link;
		copy_words((unsigned long *)page, (const unsigned long *)template);
		link += step;
	}
}
