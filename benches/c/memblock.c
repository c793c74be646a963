/*
 * Adding ranges to a flat sorted array, the way a kernel does it: a linear walk to the place, one
 * memmove an insertion, and a pass that merges neighbours. Written for the benchmark from a
 * description of the method.
 *
 * The merging pass looks at the part of the array that the addition touched, as kernels do since
 * 6.12; earlier ones went over the whole array every time and were slower still.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct region {
	uint64_t base;
	uint64_t size;
	uint32_t flags;
	int32_t nid;
};

struct region_array {
	size_t count;
	uint64_t total;
	struct region *regions;
};

static void put(struct region_array *a, size_t at, uint64_t base, uint64_t size, int32_t nid,
		uint32_t flags)
{
	struct region *r = &a->regions[at];

	memmove(r + 1, r, (a->count - at) * sizeof(*r));
	r->base = base;
	r->size = size;
	r->nid = nid;
	r->flags = flags;
	a->count++;
	a->total += size;
}

static void merge(struct region_array *a, size_t from, size_t to)
{
	size_t i = from > 0 ? from - 1 : 0;

	if (to > a->count)
		to = a->count;
	while (i + 1 < a->count && i < to) {
		struct region *r = &a->regions[i];
		struct region *next = r + 1;

		if (r->base + r->size != next->base || r->nid != next->nid ||
		    r->flags != next->flags) {
			i++;
			continue;
		}
		r->size += next->size;
		memmove(next, next + 1, (a->count - (i + 2)) * sizeof(*next));
		a->count--;
		to--;
	}
}

/* The caller keeps enough room for every piece. */
void c_memblock_add(struct region_array *a, uint64_t base, uint64_t size, int32_t nid,
		    uint32_t flags)
{
	uint64_t end, from = base;
	size_t at, first = SIZE_MAX, last = 0;

	if (size > UINT64_MAX - base)
		size = UINT64_MAX - base;
	if (size == 0)
		return;
	end = base + size;
	if (a->count == 0) {
		put(a, 0, base, size, nid, flags);
		return;
	}
	for (at = 0; at < a->count; at++) {
		uint64_t rbase = a->regions[at].base;
		uint64_t rend = rbase + a->regions[at].size;

		if (rbase >= end)
			break;
		if (rend <= from)
			continue;
		if (rbase > from) {
			if (first == SIZE_MAX)
				first = at;
			last = at + 1;
			put(a, at, from, rbase - from, nid, flags);
			at++;
		}
		from = rend < end ? rend : end;
	}
	if (from < end) {
		if (first == SIZE_MAX)
			first = at;
		last = at + 1;
		put(a, at, from, end - from, nid, flags);
	}
	if (first != SIZE_MAX)
		merge(a, first, last);
}
