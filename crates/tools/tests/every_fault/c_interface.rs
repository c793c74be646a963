//! A machine's life through the C interface while calls fail: each failure is a status and words.

use std::error::Error;
use std::ffi::CStr;
use std::ptr::{null, null_mut};

use deferred_init_c::*;

use crate::scenarios::went_on;

/// What C is told: the status, and the words of `di_last_error`.
#[derive(Debug, thiserror::Error)]
#[error("{status:?} {words}")]
pub(crate) struct Told {
    status: di_status,
    words: String,
}

/// Bytes of a memory block of one section.
const BLOCK: u64 = 128 << 20;

/// Boots, allocates, plugs, binds, finishes and frees. A call that fails is made once more, which must
/// go well: the machine is none the worse.
pub(crate) fn life(backing: u32) -> Result<String, Box<dyn Error>> {
    let mut first = None;
    let (mut layout, mut profile, mut machine) = (null_mut(), null_mut(), null_mut());
    // SAFETY: every pointer is this function's own, and each handle is freed once.
    unsafe {
        let mut options: di_boot_options = std::mem::zeroed();
        options.size = size_of::<di_boot_options>();
        options.policy = c"deferred".as_ptr();
        options.threads = 2;
        options.pinned = 1;
        options.backing = backing;
        let mut device: di_device = std::mem::zeroed();
        device.size = size_of::<di_device>();
        (device.start, device.bytes) = (1 << 36, BLOCK);
        let (mut pfn, mut id) = (0, 0);

        let mut call = |call: &mut dyn FnMut() -> di_status| {
            let told = match call() {
                di_status::DI_OK => return,
                status => Told {
                    status,
                    words: CStr::from_ptr(di_last_error())
                        .to_string_lossy()
                        .into_owned(),
                },
            };
            assert_ne!(told.status, di_status::DI_DEFECT, "{told}");
            let again = call();
            assert_eq!(again, di_status::DI_OK, "again, after {told}");
            first.get_or_insert(told);
        };
        call(&mut || di_layout_new(&mut layout));
        call(&mut || di_layout_add_memory(layout, 0, 0, 4 * BLOCK));
        call(&mut || di_profile_preset(c"amd64".as_ptr(), c"7.3".as_ptr(), &mut profile));
        call(&mut || di_boot(layout, profile, &options, &mut machine));
        call(&mut || di_alloc_pages(machine, 0, 3, DI_ANY_ZONE, 0, &mut pfn));
        call(&mut || di_free_pages(machine, pfn, 3));
        call(&mut || di_memory_add(machine, 0, 8 * BLOCK, BLOCK));
        call(&mut || di_memory_online(machine, 8 * BLOCK, BLOCK, 0));
        call(&mut || di_memory_offline(machine, 8 * BLOCK, BLOCK));
        call(&mut || di_memory_remove(machine, 8 * BLOCK, BLOCK));
        call(&mut || di_device_add(machine, &device, &mut id));
        call(&mut || di_device_remove(machine, id));
        call(&mut || di_finish(machine, &options));
        call(&mut || di_check(machine, null_mut()));
        assert!(!di_pfn_to_page(machine, pfn).is_null());
        assert_eq!(di_page_to_pfn(machine, null()), DI_NO_PFN);
        di_machine_free(machine);
        di_profile_free(profile);
        di_layout_free(layout);
    }
    match first {
        None => Ok(went_on(&[])),
        Some(told) => Err(told.into()),
    }
}
