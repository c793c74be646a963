/* deferred-init: memory maps of whole machines, for C and C++.
 *
 * Generated from crates/capi by `cargo xtask codegen`; do not edit. See the documentation of that
 * crate for conventions: status codes, `di_last_error`, structures that begin with `size`, threads.
 */

#ifndef DEFERRED_INIT_H
#define DEFERRED_INIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The frame that there is not.
 */
#define DI_NO_PFN UINT64_MAX

/**
 * Any zone but that of devices, for `di_alloc_pages`.
 */
#define DI_ANY_ZONE UINT32_MAX

/**
 * How a function ended. `DI_OK` is 0; of anything else `di_last_error` has the reason in words.
 */
typedef enum di_status {
  /**
   * It did what it says.
   */
  DI_OK = 0,
  /**
   * A pointer is null that must not be.
   */
  DI_NULL = 1,
  /**
   * A value means nothing.
   */
  DI_ARGUMENT = 2,
  /**
   * A file cannot be read or is none that we know.
   */
  DI_FILE = 3,
  /**
   * Memory overlaps, is not whole pages, or there is none.
   */
  DI_LAYOUT = 4,
  /**
   * The host has not the memory.
   */
  DI_HOST_MEMORY = 5,
  /**
   * The host refused something else: threads, its own description.
   */
  DI_HOST = 6,
  /**
   * The page has no struct page, or none that was initialised.
   */
  DI_NO_PAGE = 7,
  /**
   * The machine has no such block of free pages.
   */
  DI_NO_MEMORY = 8,
  /**
   * What is to go is in use.
   */
  DI_BUSY = 9,
  /**
   * Something is there already.
   */
  DI_CONFLICT = 10,
  /**
   * There is no such thing.
   */
  DI_NOT_FOUND = 11,
  /**
   * The callback asked to stop.
   */
  DI_CANCELLED = 12,
  /**
   * The buffer is too small.
   */
  DI_SPACE = 13,
  /**
   * A defect of this library. The machine that was asked is not used again: free it.
   */
  DI_DEFECT = 14,
} di_status;

/**
 * What `di_dump` prints.
 */
typedef enum di_dump_kind {
  /**
   * The lines that the kernel prints of its zones when it boots.
   */
  DI_DUMP_BOOT = 0,
  /**
   * As `/proc/buddyinfo`.
   */
  DI_DUMP_BUDDYINFO = 1,
  /**
   * As `/proc/pagetypeinfo`.
   */
  DI_DUMP_PAGETYPEINFO = 2,
  /**
   * As `/proc/zoneinfo`, what memory alone decides.
   */
  DI_DUMP_ZONEINFO = 3,
} di_dump_kind;

/**
 * The memory of a machine before it boots.
 */
typedef struct di_layout di_layout;

/**
 * A booted machine.
 */
typedef struct di_machine di_machine;

/**
 * A kernel as data: release, architecture, sizes.
 */
typedef struct di_profile di_profile;

/**
 * A flags word taken apart; what a kernel does not keep there is 0.
 */
typedef struct di_flags {
  /**
   * Bytes of this structure; set it before the call.
   */
  size_t size;
  /**
   * The section's number.
   */
  uint64_t section;
  /**
   * The node.
   */
  uint64_t node;
  /**
   * The zone's number.
   */
  uint64_t zone;
  /**
   * CPU and process that touched the page last.
   */
  uint64_t last_cpupid;
  /**
   * The memory tag.
   */
  uint64_t kasan_tag;
  /**
   * The page flags, each at its bit.
   */
  uint64_t flags;
} di_flags;

/**
 * How a machine boots. Zero everything but `size` for the defaults.
 */
typedef struct di_boot_options {
  /**
   * Bytes of this structure.
   */
  size_t size;
  /**
   * When memory is initialised. `"eager"` (default): all of it is when `di_boot` returns.
   * `"deferred"`: what the kernel defers is left to allocations that run short, to `di_grow`, and
   * to `di_finish`. `"on-demand"`: likewise, but where many threads find a zone empty one of them
   * grows it and the others wait. `"lazy"`: nothing is when `di_boot` returns; a section is when
   * `di_pfn_to_page`, `di_page_words` or `di_page_text` first asks for one of its pages, when
   * allocations run short, or by `di_finish`. A view (`di_view_get`) of a lazy machine has no
   * frames.
   */
  const char *policy;
  /**
   * Who writes what: `"static"` (default), `"padata"`, `"deque"` or `"rayon"`. The outcome is the
   * same.
   */
  const char *scheduler;
  /**
   * The page writer: `"stream"` (default), `"template"`, `"zero"`, `"memset"` or `"auto"`. The
   * outcome is the same.
   */
  const char *writer;
  /**
   * Threads; 0 for 1.
   */
  uint32_t threads;
  /**
   * Not 0: each thread is pinned to a CPU, where there are enough.
   */
  uint32_t pinned;
  /**
   * Memory for struct pages: 0 what can be had, 1 one range of addresses, 2 the heap, a section
   * at a time.
   */
  uint32_t backing;
  /**
   * Not 0: links in struct pages are addresses of this process, and can be followed. 0: those of
   * the modelled kernel, the same in every run.
   */
  uint32_t host_addresses;
  /**
   * Sections of a memory block, for hotplug: a power of two, or 0 for 1; no more than there is
   * room for in the kernel's range of physical addresses.
   */
  uint64_t sections_per_block;
  /**
   * Bytes that struct pages may take; 0 for what the host has available.
   */
  uint64_t memory_limit;
  /**
   * Is told how many bytes of struct pages are written of how many, by any of the threads but
   * one at a time; unless it returns 0 the boot is cancelled. It must not call this library.
   */
  int32_t (*progress)(void *user, uint64_t done, uint64_t total);
  /**
   * What `progress` is called with.
   */
  void *user;
} di_boot_options;

/**
 * Where the struct pages of boot-time memory lie and how their flags words are made up, for the
 * functions `di_view_...` of the header, which compilers make part of their caller. It is good for
 * as long as the machine.
 */
typedef struct di_view {
  /**
   * Bytes of this structure; set it before the call.
   */
  size_t size;
  /**
   * Where the struct page of frame 0 would lie.
   */
  size_t mem_map;
  /**
   * Bytes of a struct page.
   */
  uint64_t struct_page_bytes;
  /**
   * The first frame with a struct page.
   */
  uint64_t first_pfn;
  /**
   * One past the last one. There may be holes in between, whose struct pages must not be read:
   * see `di_next_valid_pfn`. As `first_pfn` where the view has no frames.
   */
  uint64_t end_pfn;
  /**
   * Where a flags word has the node: so far it is shifted down, and then masked.
   */
  uint32_t node_shift;
  /**
   * Where it has the zone.
   */
  uint32_t zone_shift;
  /**
   * Where it has the section.
   */
  uint32_t section_shift;
  /**
   * Where it has the CPU and process that touched the page last.
   */
  uint32_t last_cpupid_shift;
  /**
   * Where it has the memory tag, as a word so that there is no gap.
   */
  uint64_t kasan_tag_shift;
  /**
   * The node's bits, once shifted down.
   */
  uint64_t node_mask;
  /**
   * The zone's bits.
   */
  uint64_t zone_mask;
  /**
   * The section's bits; 0 where the kernel does not keep it there, as of all that follow.
   */
  uint64_t section_mask;
  /**
   * The bits of CPU and process.
   */
  uint64_t last_cpupid_mask;
  /**
   * The memory tag's bits.
   */
  uint64_t kasan_tag_mask;
  /**
   * Bits that are page flags, in place.
   */
  uint64_t flags_mask;
} di_view;

/**
 * A device. Zero everything but `size`, `node`, `start` and `bytes` for a plain one.
 */
typedef struct di_device {
  /**
   * Bytes of this structure.
   */
  size_t size;
  /**
   * The node that its pages name.
   */
  uint32_t node;
  /**
   * What its memory is: 1 private, 2 coherent, 3 or 0 persistent under a file system, 4 handed
   * out as a character device, 5 a window of a PCI device.
   */
  uint32_t memory_type;
  /**
   * Its first address.
   */
  uint64_t start;
  /**
   * Its bytes.
   */
  uint64_t bytes;
  /**
   * Log2 of the pages of a compound; 0 for single pages.
   */
  uint32_t vmemmap_shift;
  /**
   * Not 0: its struct pages lie in its own memory, as those of a namespace with its map on the
   * device.
   */
  uint32_t map_on_device;
  /**
   * Where the kernel has its description: what its struct pages hold.
   */
  uint64_t pagemap;
} di_device;

/**
 * A node.
 */
typedef struct di_node {
  /**
   * Bytes of this structure; set it before the call.
   */
  size_t size;
  /**
   * Its number.
   */
  uint32_t node;
  /**
   * Not 0: it is online.
   */
  uint32_t online;
  /**
   * Its first frame.
   */
  uint64_t start_pfn;
  /**
   * Pages from its first to its last.
   */
  uint64_t spanned_pages;
  /**
   * Pages that are there.
   */
  uint64_t present_pages;
  /**
   * The first frame that was initialised late at boot, or `DI_NO_PFN`.
   */
  uint64_t first_deferred_pfn;
} di_node;

/**
 * A zone of a node.
 */
typedef struct di_zone {
  /**
   * Bytes of this structure; set it before the call.
   */
  size_t size;
  /**
   * Its node.
   */
  uint32_t node;
  /**
   * Its number, as in a flags word.
   */
  uint32_t index;
  /**
   * Its name, as `Normal`, with a zero byte.
   */
  char name[16];
  /**
   * Its first frame; 0 where it spans none.
   */
  uint64_t start_pfn;
  /**
   * Pages from its first to its last.
   */
  uint64_t spanned_pages;
  /**
   * Pages that are there.
   */
  uint64_t present_pages;
  /**
   * Pages under the allocator's care.
   */
  uint64_t managed_pages;
  /**
   * Free pages.
   */
  uint64_t free_pages;
} di_zone;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Why the last function that failed on this thread did so; empty where none has.
 *
 * Good until the next call of this library on this thread. Threads: any.
 */
const char *di_last_error(void);

/**
 * The name of a status, as `DI_NO_PAGE`. Threads: any.
 */
const char *di_status_name(uint32_t status);

/**
 * A layout without memory, to be put together by `di_layout_add_memory`; free it by
 * `di_layout_free`.
 *
 * # Safety
 * `layout` is null or valid for a write. Threads: any.
 */
enum di_status di_layout_new(struct di_layout **layout);

/**
 * Reads a layout from a file: a boot log, a folder of files from `/proc` and `/sys`, or the TOML
 * form of this project. Free it by `di_layout_free`.
 *
 * # Safety
 * `path` is null or a text, `layout` null or valid for a write. Threads: any.
 */
enum di_status di_layout_open(const char *path, struct di_layout **layout);

/**
 * Adds `bytes` bytes of memory from `start` on to node `node`. Not for a layout that was read.
 *
 * # Safety
 * `layout` is null or from this library, and used by nobody else meanwhile. Threads: one at a
 * time for each layout.
 */
enum di_status di_layout_add_memory(struct di_layout *layout,
                                    uint32_t node_number,
                                    uint64_t start,
                                    uint64_t bytes);

/**
 * Reserves `bytes` bytes from `start` on, as the kernel's own image is.
 *
 * # Safety
 * `layout` is null or from this library, and used by nobody else meanwhile. Threads: one at a
 * time for each layout.
 */
enum di_status di_layout_reserve(struct di_layout *layout, uint64_t start, uint64_t bytes);

/**
 * Sets the kernel's command line, of which `kernelcore=`, `movablecore=` and `movable_node` count.
 *
 * # Safety
 * `layout` is null or from this library, and used by nobody else meanwhile; `line` is null or a
 * text. Threads: one at a time for each layout.
 */
enum di_status di_layout_command_line(struct di_layout *layout, const char *line);

/**
 * Frees a layout; nothing happens for null.
 *
 * # Safety
 * `layout` is null or from this library, and is not used again. Threads: any.
 */
void di_layout_free(struct di_layout *layout);

/**
 * The kernel of an architecture (`amd64`, `amd64-small`, `arm64-4k`, `arm64-16k`, `arm64-64k`,
 * `riscv64`, `ppc64-4k`, `ppc64-64k`, `s390x`) and a release (`6.1`, `6.12`, `6.18`, `7.3`).
 * Free it by `di_profile_free`.
 *
 * # Safety
 * `name` and `release` are null or texts, `profile` null or valid for a write. Threads: any.
 */
enum di_status di_profile_preset(const char *name,
                                 const char *release,
                                 struct di_profile **profile);

/**
 * The kernel that a layout tells of: what a boot without a profile uses. Free it by
 * `di_profile_free`.
 *
 * # Safety
 * `layout` is null or from this library, `profile` null or valid for a write. Threads: any, while
 * nobody changes the layout.
 */
enum di_status di_profile_of_layout(const struct di_layout *layout, struct di_profile **profile);

/**
 * Bytes of a page, of a struct page, and pages of a section. Each pointer may be null.
 *
 * # Safety
 * `profile` is null or from this library, the others null or valid for a write. Threads: any.
 */
enum di_status di_profile_sizes(const struct di_profile *profile,
                                uint64_t *page,
                                uint64_t *struct_page,
                                uint64_t *section);

/**
 * Takes a flags word apart. Set `flags->size` first. Where many words are taken apart,
 * `di_view_flags` of the header does the same inline.
 *
 * # Safety
 * `profile` is null or from this library, `flags` null or a structure. Threads: any.
 */
enum di_status di_flags_decode(const struct di_profile *profile,
                               uint64_t word,
                               struct di_flags *flags);

/**
 * A flags word in words, as `node=1 zone=Normal reserved`. `needed`, unless null, gets the bytes
 * that the text takes with its zero; with a null buffer nothing else happens.
 *
 * # Safety
 * `profile` is null or from this library, `buffer` null or valid for `len` bytes, `needed` null or
 * valid for a write. Threads: any.
 */
enum di_status di_flags_text(const struct di_profile *profile,
                             uint64_t word,
                             char *buffer,
                             size_t len,
                             size_t *needed);

/**
 * Frees a profile; nothing happens for null. Machines that were booted with it are none the worse.
 *
 * # Safety
 * `profile` is null or from this library, and is not used again. Threads: any.
 */
void di_profile_free(struct di_profile *profile);

/**
 * Boots the machine of `layout` as the kernel of `profile` (null: the one that the layout tells
 * of), with `options` (null: the defaults). Free it by `di_machine_free`; layout and profile may go
 * before.
 *
 * # Safety
 * `layout` and `profile` are null or from this library; `options` is null or a structure whose
 * strings are null or texts; `machine` is null or valid for a write. Threads: any, while nobody
 * changes the layout.
 */
enum di_status di_boot(const struct di_layout *layout,
                       const struct di_profile *profile,
                       const struct di_boot_options *options,
                       struct di_machine **machine);

/**
 * Initialises what was deferred, with the scheduler, writer, threads and callback of `options`
 * (null: the defaults). Allocations may go on meanwhile, also by other threads.
 *
 * # Safety
 * `machine` is null or from this library; `options` as for `di_boot`. Threads: any.
 */
enum di_status di_finish(const struct di_machine *machine, const struct di_boot_options *options);

/**
 * Initialises deferred memory of a node until it has brought `2^order` more free pages, as an
 * allocation that runs short does. `pages`, unless null, gets how many it brought.
 *
 * # Safety
 * `machine` is null or from this library, `pages` null or valid for a write. Threads: any.
 */
enum di_status di_grow(const struct di_machine *machine,
                       uint32_t node_number,
                       uint32_t order,
                       uint64_t *pages);

/**
 * Frees a machine with all its struct pages; nothing happens for null.
 *
 * # Safety
 * `machine` is null or from this library, no other call on it is under way, and neither it nor a
 * pointer to one of its struct pages is used again. Threads: any.
 */
void di_machine_free(struct di_machine *machine);

/**
 * Whether a frame has a struct page. Null has none.
 *
 * # Safety
 * `machine` is null or from this library. Threads: any.
 */
bool di_pfn_valid(const struct di_machine *machine, uint64_t pfn);

/**
 * The first frame at or above `pfn` that has a struct page, or `DI_NO_PFN`.
 *
 * # Safety
 * `machine` is null or from this library. Threads: any.
 */
uint64_t di_next_valid_pfn(const struct di_machine *machine, uint64_t pfn);

/**
 * The struct page of a frame in this process, or null where its section has none.
 *
 * The pointer is good for the frames of its section alone, and until that section's memory is
 * removed or the machine freed. Other threads may write behind it: read words by atomic loads.
 * `di_view_pfn_to_page` of the header does the same inline for boot-time memory.
 *
 * # Safety
 * `machine` is null or from this library. Threads: any.
 */
const uint64_t *di_pfn_to_page(const struct di_machine *machine, uint64_t pfn);

/**
 * The frame whose struct page holds the address `page`, or `DI_NO_PFN`. `di_view_page_to_pfn` of
 * the header does the same inline for boot-time memory.
 *
 * # Safety
 * `machine` is null or from this library. Threads: any.
 */
uint64_t di_page_to_pfn(const struct di_machine *machine, const uint64_t *page);

/**
 * Fills a view, once per machine. Set `view->size` first. Where struct pages are not in one range
 * of addresses (the heap), or are written when they are asked for (the policy "lazy"), the view
 * has no frames, and only takes flags words apart: ask `di_pfn_to_page` and `di_page_to_pfn` then.
 *
 * # Safety
 * `machine` is null or from this library, `view` null or a structure. Threads: any.
 */
enum di_status di_view_get(const struct di_machine *machine, struct di_view *view);

/**
 * Copies the words of an initialised struct page, each loaded at once: at most `words`, of which
 * `needed`, unless null, gets how many there are.
 *
 * # Safety
 * `machine` is null or from this library, `page` valid for `words` words, `needed` null or valid
 * for a write. Threads: any.
 */
enum di_status di_page_words(const struct di_machine *machine,
                             uint64_t pfn,
                             uint64_t *page,
                             size_t words,
                             size_t *needed);

/**
 * An initialised struct page in words. `needed` and a null buffer as for `di_flags_text`.
 *
 * # Safety
 * `machine` is null or from this library, `buffer` null or valid for `len` bytes, `needed` null or
 * valid for a write. Threads: any.
 */
enum di_status di_page_text(const struct di_machine *machine,
                            uint64_t pfn,
                            char *buffer,
                            size_t len,
                            size_t *needed);

/**
 * Allocates `2^order` pages on a node, or where its list leads, in the zone of number `zone` or
 * below (`DI_ANY_ZONE`: any). `mobility` is 0 for unmovable pages, 1 for movable and 2 for
 * reclaimable ones. Deferred memory is initialised where free memory runs short.
 *
 * # Safety
 * `machine` is null or from this library, `pfn` null or valid for a write. Threads: any.
 */
enum di_status di_alloc_pages(const struct di_machine *machine,
                              uint32_t node_number,
                              uint32_t order,
                              uint32_t zone,
                              uint32_t mobility,
                              uint64_t *pfn);

/**
 * Frees `2^order` pages that were allocated as one block.
 *
 * # Safety
 * `machine` is null or from this library. Threads: any.
 */
enum di_status di_free_pages(const struct di_machine *machine, uint64_t pfn, uint32_t order);

/**
 * Adds memory to a node, in whole memory blocks, all of it offline.
 *
 * # Safety
 * `machine` is null or from this library. Threads: any; waits for calls under way.
 */
enum di_status di_memory_add(const struct di_machine *machine,
                             uint32_t node_number,
                             uint64_t start,
                             uint64_t bytes);

/**
 * Puts memory that was added to use, block by block: `to` is 0 for the zone that it touches, 1 for
 * one that the kernel itself may use, 2 for zone Movable. Blocks before one that is refused stay
 * online.
 *
 * # Safety
 * `machine` is null or from this library. Threads: any; waits for calls under way.
 */
enum di_status di_memory_online(const struct di_machine *machine,
                                uint64_t start,
                                uint64_t bytes,
                                uint32_t to);

/**
 * Takes memory out of use, block by block; all its pages must be free. Blocks before one that is
 * refused stay offline.
 *
 * # Safety
 * `machine` is null or from this library. Threads: any; waits for calls under way.
 */
enum di_status di_memory_offline(const struct di_machine *machine, uint64_t start, uint64_t bytes);

/**
 * Removes offline memory that was added.
 *
 * # Safety
 * `machine` is null or from this library; pointers to struct pages of that memory are not used
 * again. Threads: any; waits for calls under way.
 */
enum di_status di_memory_remove(const struct di_machine *machine, uint64_t start, uint64_t bytes);

/**
 * Binds a device: its struct pages are added and written. `id`, unless null, gets its number,
 * for `di_device_remove`.
 *
 * # Safety
 * `machine` is null or from this library, `device` null or a structure, `id` null or valid for a
 * write. Threads: any; waits for calls under way.
 */
enum di_status di_device_add(const struct di_machine *machine,
                             const struct di_device *device,
                             uint64_t *id);

/**
 * Unbinds a device: its struct pages go.
 *
 * # Safety
 * `machine` is null or from this library; pointers to struct pages of that device are not used
 * again. Threads: any; waits for calls under way.
 */
enum di_status di_device_remove(const struct di_machine *machine, uint64_t id);

/**
 * How many nodes there are, online or not.
 *
 * # Safety
 * `machine` is null or from this library, `count` null or valid for a write. Threads: any.
 */
enum di_status di_node_count(const struct di_machine *machine, uint32_t *count);

/**
 * The node at `index`, ascending by number from 0. Set `node->size` first.
 *
 * # Safety
 * `machine` is null or from this library, `node` null or a structure. Threads: any.
 */
enum di_status di_node_get(const struct di_machine *machine, uint32_t index, struct di_node *node);

/**
 * How many zones there are, all nodes together, empty ones too.
 *
 * # Safety
 * `machine` is null or from this library, `count` null or valid for a write. Threads: any.
 */
enum di_status di_zone_count(const struct di_machine *machine, uint32_t *count);

/**
 * The zone at `index`, by node and number from 0. Set `zone->size` first.
 *
 * # Safety
 * `machine` is null or from this library, `zone` null or a structure. Threads: any.
 */
enum di_status di_zone_get(const struct di_machine *machine, uint32_t index, struct di_zone *zone);

/**
 * Pages of boot-time memory whose struct pages are still to be initialised.
 *
 * # Safety
 * `machine` is null or from this library, `pages` null or valid for a write. Threads: any.
 */
enum di_status di_deferred_pages(const struct di_machine *machine, uint64_t *pages);

/**
 * Checks every struct page and every free list. `violations`, unless null, gets how many things
 * are wrong: 0 for a machine that is whole, whose deferred memory does not count. The first ones
 * are in `di_last_error` then, and the status is `DI_DEFECT`.
 *
 * # Safety
 * `machine` is null or from this library, `violations` null or valid for a write. Threads: any;
 * waits for calls under way.
 */
enum di_status di_check(const struct di_machine *machine, uint64_t *violations);

/**
 * A number that tells two machines apart: of every word of every initialised struct page, in the
 * order of frames. Equal machines whose struct pages hold a kernel's addresses have equal numbers,
 * in any run.
 *
 * # Safety
 * `machine` is null or from this library, `digest` null or valid for a write. Threads: any; waits
 * for calls under way.
 */
enum di_status di_digest(const struct di_machine *machine, uint64_t *digest);

/**
 * Prints a machine as a kernel does; `kind` is a `di_dump_kind`. `needed` and a null buffer as for
 * `di_flags_text`.
 *
 * # Safety
 * `machine` is null or from this library, `buffer` null or valid for `len` bytes, `needed` null or
 * valid for a write. Threads: any.
 */
enum di_status di_dump(const struct di_machine *machine,
                       uint32_t kind,
                       char *buffer,
                       size_t len,
                       size_t *needed);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DEFERRED_INIT_H */

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
