/*
 * Frames to struct pages and back, and flags words taken apart: the arithmetic itself, the same by
 * the header's own functions, and by calls of the library.
 */
#include <deferred_init.h>

/* What the arithmetic needs, as a simulator would keep it. */
struct plain {
	uint64_t mem_map, bytes, first, end;
	uint32_t shift[5];
	uint64_t mask[5], flags;
};

uint64_t plain_pfn_to_page(const struct plain *p, const uint64_t *pfns, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum ^= pfns[i] >= p->first && pfns[i] < p->end ? p->mem_map + pfns[i] * p->bytes : 0;
	return sum;
}

uint64_t view_pfn_to_page(const di_view *view, const uint64_t *pfns, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum ^= (uintptr_t)di_view_pfn_to_page(view, pfns[i]);
	return sum;
}

uint64_t call_pfn_to_page(const di_machine *machine, const uint64_t *pfns, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum ^= (uintptr_t)di_pfn_to_page(machine, pfns[i]);
	return sum;
}

uint64_t plain_page_to_pfn(const struct plain *p, const uint64_t *pages, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t offset = pages[i] - p->mem_map;
		uint64_t pfn = p->bytes == 64 ? offset / 64 : offset / p->bytes;

		sum ^= pfn >= p->first && pfn < p->end ? pfn : UINT64_MAX;
	}
	return sum;
}

uint64_t view_page_to_pfn(const di_view *view, const uint64_t *pages, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum ^= di_view_page_to_pfn(view, (const uint64_t *)(uintptr_t)pages[i]);
	return sum;
}

uint64_t call_page_to_pfn(const di_machine *machine, const uint64_t *pages, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum ^= di_page_to_pfn(machine, (const uint64_t *)(uintptr_t)pages[i]);
	return sum;
}

/* Node and zone, which is what code asks a flags word. */
uint64_t plain_links(const struct plain *p, const uint64_t *words, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += (words[i] >> p->shift[0] & p->mask[0]) ^ (words[i] >> p->shift[1] & p->mask[1]);
	return sum;
}

uint64_t view_links(const di_view *view, const uint64_t *words, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += di_view_node(view, words[i]) ^ di_view_zone(view, words[i]);
	return sum;
}

/* All fields, into a structure that somebody else may read. */
uint64_t plain_decode(const struct plain *p, const uint64_t *words, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		di_flags flags = {
			.size = sizeof(flags),
			.node = words[i] >> p->shift[0] & p->mask[0],
			.zone = words[i] >> p->shift[1] & p->mask[1],
			.section = words[i] >> p->shift[2] & p->mask[2],
			.last_cpupid = words[i] >> p->shift[3] & p->mask[3],
			.kasan_tag = words[i] >> p->shift[4] & p->mask[4],
			.flags = words[i] & p->flags,
		};

		__asm__ volatile("" : : "r"(&flags) : "memory");
		sum += flags.node ^ flags.zone;
	}
	return sum;
}

uint64_t view_decode(const di_view *view, const uint64_t *words, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		di_flags flags = di_view_flags(view, words[i]);

		__asm__ volatile("" : : "r"(&flags) : "memory");
		sum += flags.node ^ flags.zone;
	}
	return sum;
}

uint64_t call_decode(const di_profile *profile, const uint64_t *words, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		di_flags flags = { .size = sizeof(flags) };

		di_flags_decode(profile, words[i], &flags);
		sum += flags.node ^ flags.zone;
	}
	return sum;
}
