#ifndef DEFERRED_INIT_VIEW_H
#define DEFERRED_INIT_VIEW_H

/**
 * What `di_pfn_to_page` and `di_page_to_pfn` do, as a part of the caller, for frames of boot-time
 * memory: fill a `di_view` by `di_view_get` once and keep it as long as the machine.
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

#endif /* DEFERRED_INIT_VIEW_H */
