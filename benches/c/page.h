/*
 * A struct page of PAGE_WORDS words and what a run of them has in common.
 *
 * Our own words after a description of Linux's layout: the fields that page
 * initialisation stores lie where Linux has them, everything beyond them is
 * zero. Compiled once per size, as a kernel has one size, with the kind of
 * options that a kernel is compiled with (see build.rs).
 */
#ifndef BENCHES_PAGE_H
#define BENCHES_PAGE_H

#include <stddef.h>

#define JOIN2(a, b) a##_##b
#define JOIN(a, b) JOIN2(a, b)
/* zero -> zero_8 where a page has 8 words */
#define SIZED(name) JOIN(name, PAGE_WORDS)

struct links {
	unsigned long next;
	unsigned long prev;
};

struct page {
	unsigned long flags;
	struct links lru;
	unsigned long mapping;
	unsigned long index;
	unsigned long order;
	unsigned int mapcount;
	unsigned int refcount;
#if PAGE_WORDS > 7
	unsigned long rest[PAGE_WORDS - 7];
#endif
};

_Static_assert(sizeof(struct page) == PAGE_WORDS * 8, "a page has PAGE_WORDS words");

/* What the Rust side calls LinkedRun. */
struct run {
	unsigned long flags;
	/* lru of the first page, and what it grows by from page to page */
	unsigned long link;
	unsigned long step;
	unsigned int mapcount;
	unsigned int refcount;
};

static inline void set_fields(struct page *page, const struct run *run,
			      unsigned long link)
{
	page->flags = run->flags;
	page->refcount = run->refcount;
	page->mapcount = run->mapcount;
	page->lru.next = link;
	page->lru.prev = link;
}

/* As many word stores as the page has words; the compiler drops those that
 * set_fields() overwrites. */
static inline void clear_words(struct page *page)
{
	unsigned long *word = (unsigned long *)page;

#if PAGE_WORDS > 11
	word[11] = 0;
#endif
#if PAGE_WORDS > 10
	word[10] = 0;
#endif
#if PAGE_WORDS > 9
	word[9] = 0;
#endif
#if PAGE_WORDS > 8
	word[8] = 0;
#endif
#if PAGE_WORDS > 7
	word[7] = 0;
#endif
	word[6] = 0;
	word[5] = 0;
	word[4] = 0;
	word[3] = 0;
	word[2] = 0;
	word[1] = 0;
	word[0] = 0;
}

#endif
