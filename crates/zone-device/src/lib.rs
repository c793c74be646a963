//! Struct pages of device memory.
//!
//! A driver that wants struct pages for the memory of its device describes it by a
//! [`DevPagemap`]; Linux then adds that memory to the zone for devices and initialises the struct
//! pages, at every bind of the driver, on one thread. This crate says what they hold, as runs
//! ([`DeviceRuns`]) that any page writer and any engine of this workspace can execute, and adds ways
//! that Linux does not have.
//!
//! ```
//! use memblock::{PhysAddr, PhysRange};
//! use memmap_core::{KernelVersion, Profile};
//! use zone_device::{DevPagemap, DeviceRuns, MemoryType, Site};
//!
//! let profile = Profile::amd64(KernelVersion::V7_3);
//! let range = PhysRange::from_size(PhysAddr::new(4 << 30), 1 << 30);
//! let pagemap = DevPagemap::new(MemoryType::Generic, 0xffff_8881_0279_13c0)
//!     .with_range(range)
//!     .with_vmemmap_shift(9);
//! let runs = DeviceRuns::new(&profile, &pagemap, &Site::default())?;
//! assert_eq!(runs.device_pages(), 262_144);
//! assert_eq!(runs.vmemmap().saved, 3 * 1024);
//!
//! // the second page of every compound names the order, 9, in its flags word
//! let tail = runs.page(range.start().pfn_down(12).saturating_add(1)).unwrap();
//! assert_eq!(tail.word(0, 0) & 0xff, 9);
//! # Ok::<(), zone_device::DeviceError>(())
//! ```
//!
//! Features: `std` (default) for struct pages on mapped memory; without it the crate needs `alloc`
//! only.

#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod altmap;
mod bind;
mod content;
#[cfg(feature = "std")]
mod cow;
mod error;
#[cfg(feature = "std")]
mod memmap;
mod observer;
mod pageblocks;
mod pagemap;
mod runs;
mod shared;
mod vmemmap;
mod way;

pub use altmap::{Altmap, AltmapFull};
pub use bind::{BindError, DeviceId, Devices};
#[cfg(feature = "std")]
pub use cow::CowRefusal;
pub use error::DeviceError;
#[cfg(feature = "std")]
pub use memmap::{Bound, DeviceMemmap, DeviceShard};
pub use observer::{Initialised, RangeObserver};
pub use pagemap::{DevPagemap, MemoryType};
pub use runs::{DeviceKind, DevicePart, DeviceRun, DeviceRuns, Site};
pub use shared::SharedVmemmap;
pub use vmemmap::VmemmapUse;
pub use way::Way;
