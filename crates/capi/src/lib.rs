//! The C interface: memory maps of whole machines behind opaque handles.
//!
//! What a simulator in C links: `libdeferred_init.so` or `.a`, with the header
//! `deferred_init.h`. A machine is put together ([`di_layout`]), booted as some kernel
//! ([`di_profile`], [`di_boot`]), and then asked for struct pages, allocated from, plugged and
//! unplugged. Any number of machines live in one process and never meet.
//!
//! # Conventions
//! - Functions that can fail return a [`di_status`], `DI_OK` being 0, and have the reason in words
//!   in [`di_last_error`], for the calling thread alone. Nothing unwinds into C.
//! - Structures of options and answers begin with `size`, to be set to the `sizeof` of the caller's
//!   build; members that it does not know keep their defaults.
//! - Each function says which threads may call it. Whatever changes a machine as a whole (memory or
//!   devices that come and go) waits for calls under way, so only freeing needs care.
//! - Strings are UTF-8 and end with a zero byte. Ranges are a start and a length in bytes.
//!
//! # The fast path
//! Three things a simulator does for every page, and should not pay a call for: `di_view_pfn_to_page`,
//! `di_view_page_to_pfn` and `di_view_flags` (with `di_view_node`, `di_view_zone` and
//! `di_view_section` for one field) are inline functions of the header, over a [`di_view`] that
//! [`di_view_get`] fills once per machine. They take at most twice the time of the same arithmetic
//! written by hand, which `capi_perf --check` judges. [`di_pfn_to_page`], [`di_page_to_pfn`] and
//! [`di_flags_decode`] are the same as calls, and know memory and devices that came later as well.
//!
//! # From Rust
//! The functions can be called from Rust too, as tests do; everything behind them is in the other
//! crates of this workspace, without a raw pointer:
//!
//! ```
//! use std::ptr::null_mut;
//! use deferred_init_c::*;
//!
//! let (mut layout, mut machine, mut pfn) = (null_mut(), null_mut(), 0);
//! // SAFETY: every pointer is this function's own, and each handle is freed once.
//! unsafe {
//!     assert_eq!(di_layout_new(&mut layout), di_status::DI_OK);
//!     assert_eq!(di_layout_add_memory(layout, 0, 0, 1 << 30), di_status::DI_OK);
//!     assert_eq!(di_boot(layout, std::ptr::null(), std::ptr::null(), &mut machine), di_status::DI_OK);
//!     assert_eq!(di_alloc_pages(machine, 0, 3, DI_ANY_ZONE, 0, &mut pfn), di_status::DI_OK);
//!     assert!(!di_pfn_to_page(machine, pfn).is_null());
//!     assert_eq!(di_free_pages(machine, pfn, 3), di_status::DI_OK);
//!     di_machine_free(machine);
//!     di_layout_free(layout);
//! }
//! ```

#![expect(
    non_camel_case_types,
    reason = "the names are C's, where types are written like this"
)]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "pointers of one call rest on one promise, the function's own `Safety`"
)]

mod asked;
mod boot;
mod inspect;
mod layout;
mod machine_handle;
mod pages;
mod plug;
mod pointer;
mod profile;
mod status;

pub use boot::{di_boot, di_boot_options, di_finish, di_grow, di_machine_free};
pub use inspect::{
    di_check, di_deferred_pages, di_digest, di_dump, di_dump_kind, di_node, di_node_count,
    di_node_get, di_zone, di_zone_count, di_zone_get,
};
pub use layout::{
    di_layout, di_layout_add_memory, di_layout_command_line, di_layout_free, di_layout_new,
    di_layout_open, di_layout_reserve,
};
pub use machine_handle::di_machine;
pub use pages::{
    DI_ANY_ZONE, DI_NO_PFN, di_alloc_pages, di_free_pages, di_next_valid_pfn, di_page_text,
    di_page_to_pfn, di_page_words, di_pfn_to_page, di_pfn_valid, di_view, di_view_get,
};
pub use plug::{
    di_device, di_device_add, di_device_remove, di_memory_add, di_memory_offline, di_memory_online,
    di_memory_remove,
};
pub use profile::{
    di_flags, di_flags_decode, di_flags_text, di_profile, di_profile_free, di_profile_of_layout,
    di_profile_preset, di_profile_sizes,
};
pub use status::{di_last_error, di_status, di_status_name};
