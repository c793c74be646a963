#ifndef DEFERRED_INIT_VIEW_H
#define DEFERRED_INIT_VIEW_H

/**
 * The fast path: what `di_pfn_to_page` and `di_page_to_pfn` do for frames of boot-time memory, and
 * what `di_flags_decode` does, as a part of the caller. Fill a `di_view` by `di_view_get` once and
 * keep it as long as the machine. Where a frame or a page is not found by it (memory that was added,
 * devices, struct pages on the heap), ask the functions of the library.
 */

/** The struct page of a frame, or null outside `first_pfn` to `end_pfn`. Threads: any. */
static inline const uint64_t *di_view_pfn_to_page(const di_view *view, uint64_t pfn)
{
  if (pfn < view->first_pfn || pfn >= view->end_pfn)
    return NULL;
  return (const uint64_t *)(uintptr_t)(view->mem_map + pfn * view->struct_page_bytes);
}

/** The frame of a struct page, or `DI_NO_PFN` outside. Threads: any. */
static inline uint64_t di_view_page_to_pfn(const di_view *view, const uint64_t *page)
{
  uint64_t offset = (uint64_t)(uintptr_t)page - view->mem_map;
  uint64_t pfn = view->struct_page_bytes == 64 ? offset / 64 : offset / view->struct_page_bytes;
  return pfn >= view->first_pfn && pfn < view->end_pfn ? pfn : DI_NO_PFN;
}

/** The node that a flags word names. Threads: any. */
static inline uint64_t di_view_node(const di_view *view, uint64_t flags)
{
  return flags >> view->node_shift & view->node_mask;
}

/** The zone that a flags word names. Threads: any. */
static inline uint64_t di_view_zone(const di_view *view, uint64_t flags)
{
  return flags >> view->zone_shift & view->zone_mask;
}

/** The section that a flags word names, or 0 where the kernel keeps none there. Threads: any. */
static inline uint64_t di_view_section(const di_view *view, uint64_t flags)
{
  return flags >> view->section_shift & view->section_mask;
}

/** All of a flags word taken apart, as by `di_flags_decode`. Threads: any. */
static inline di_flags di_view_flags(const di_view *view, uint64_t flags)
{
  di_flags found;
  found.size = sizeof(found);
  found.section = di_view_section(view, flags);
  found.node = di_view_node(view, flags);
  found.zone = di_view_zone(view, flags);
  found.last_cpupid = flags >> view->last_cpupid_shift & view->last_cpupid_mask;
  found.kasan_tag = flags >> view->kasan_tag_shift & view->kasan_tag_mask;
  found.flags = flags & view->flags_mask;
  return found;
}

#endif /* DEFERRED_INIT_VIEW_H */
