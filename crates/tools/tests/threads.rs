//! What threads share, and what one hands to another: a type that no longer may is an error here.

use deferred_init::policy::Lazy;
use deferred_init::{Topology, engine::Engine, plan::Plan};
use machine::{BootLog, MachineLayout};
use memblock::{Memblock, MemblockError};
use memmap_core::buddy::Allocator;
use memmap_core::hotplug::Hotplug;
use memmap_core::{Claim, Geometry, MemoryMap, Profile};
use zone_device::{DeviceMemmap, DeviceRuns, Devices};

const fn shared<T: Send + Sync>() {}
const fn handed_over<T: Send>() {}
const fn an_error<T: std::error::Error + Send + Sync + 'static>() {}

const _: () = {
    shared::<Memblock>();
    shared::<Profile>();
    shared::<Geometry>();
    shared::<MemoryMap>();
    shared::<Allocator<MemoryMap>>();
    shared::<Lazy<MemoryMap>>();
    shared::<Plan>();
    shared::<Topology>();
    shared::<MachineLayout>();
    shared::<BootLog>();
    shared::<DeviceRuns>();
    shared::<Devices>();
    handed_over::<Claim<'static>>();
    handed_over::<Engine>();
    handed_over::<Hotplug>();
    handed_over::<DeviceMemmap>();
    an_error::<MemblockError>();
    an_error::<memmap_core::GeometryError>();
    an_error::<memmap_core::MapError>();
    an_error::<deferred_init::engine::EngineError>();
    an_error::<machine::LayoutError>();
    an_error::<machine::ReadError>();
    an_error::<study::judge::JudgeError>();
};
