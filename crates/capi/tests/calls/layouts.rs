//! Layouts and profiles.

use std::ffi::CString;
use std::ptr::{null, null_mut};

use deferred_init_c::*;

use super::bytes::Bytes;
use super::outputs::{self, is_size};
use super::{done, must};

/// A layout that is open, and the most memory that it may have.
pub(super) struct Layout {
    pub(super) handle: *mut di_layout,
    /// Bytes that were added; `None` for one that was read.
    pub(super) bytes: Option<u64>,
}

const PRESETS: [&str; 10] = [
    "amd64",
    "amd64-small",
    "arm64-4k",
    "arm64-16k",
    "arm64-64k",
    "riscv64",
    "ppc64-4k",
    "ppc64-64k",
    "s390x",
    "pdp11",
];
const RELEASES: [&str; 6] = ["6.1", "6.12", "6.18", "7.3", "2.6", "soon"];
const COMMAND_LINES: [&str; 6] = [
    "",
    "kernelcore=64M",
    "movablecore=50%",
    "movable_node",
    "kernelcore=mirror",
    "kernelcore=99999999999999999999M movablecore=-1",
];

/// Bytes that memory is given out in.
const UNIT: u64 = 16 << 20;
/// Units of the addresses that are given out mostly.
const UNITS: u64 = 80;

impl Layout {
    /// A new one, or one that is read from a file.
    pub(super) fn open(bytes: &mut Bytes<'_>) -> Option<Self> {
        let mut handle = null_mut();
        // SAFETY: null is refused.
        must(unsafe { di_layout_new(null_mut()) }, di_status::DI_NULL);
        if !bytes.once_in(8) {
            // SAFETY: it is this function's own.
            must(unsafe { di_layout_new(&mut handle) }, di_status::DI_OK);
            let bytes = Some(0);
            return Some(Self { handle, bytes });
        }
        let folder = tempfile::tempdir().expect("a folder for one file");
        let file = folder.path().join(bytes.pick(&["log.txt", "machine.toml"]));
        std::fs::write(&file, bytes.take(512)).expect("one small file");
        let path = match bytes.below(4) {
            0 => c"/there/is/no/such/file".to_owned(),
            1 => c"\xff".to_owned(),
            2 => CString::new(folder.path().to_string_lossy().as_bytes()).expect("a path"),
            _ => CString::new(file.to_string_lossy().as_bytes()).expect("a path"),
        };
        // SAFETY: null is refused.
        must(
            unsafe { di_layout_open(null(), &mut handle) },
            di_status::DI_NULL,
        );
        // SAFETY: both are this function's own.
        let opened = done(unsafe { di_layout_open(path.as_ptr(), &mut handle) });
        assert_eq!(opened, !handle.is_null());
        let bytes = None;
        opened.then_some(Self { handle, bytes })
    }

    /// One with a few ranges of memory, on up to three nodes.
    pub(super) fn plain(bytes: &mut Bytes<'_>) -> Self {
        let mut handle = null_mut();
        // SAFETY: it is this function's own.
        must(unsafe { di_layout_new(&mut handle) }, di_status::DI_OK);
        let (mut start, mut sum) = (0, 0);
        for node in 0..=bytes.below(3) as u32 {
            let length = (1 + bytes.below(20)) * UNIT;
            // SAFETY: ours.
            let added = unsafe { di_layout_add_memory(handle, node, start, length) };
            must(added, di_status::DI_OK);
            sum += length;
            start = (start + length).next_multiple_of(8 * UNIT) + bytes.below(2) * 8 * UNIT;
        }
        let bytes = Some(sum);
        Self { handle, bytes }
    }

    pub(super) fn free(self) {
        // SAFETY: ours, and not used again.
        unsafe { di_layout_free(self.handle) };
    }
}

/// The profile of a name that there is.
pub(super) fn plain_profile(bytes: &mut Bytes<'_>) -> *mut di_profile {
    let mut profile = null_mut();
    let (last, names) = PRESETS.split_last().expect("there are some");
    assert_eq!(*last, "pdp11");
    let name = CString::new(bytes.pick(names)).expect("no zero");
    let release = CString::new(bytes.pick(&RELEASES[..4])).expect("no zero");
    // SAFETY: all are this function's own.
    let found = unsafe { di_profile_preset(name.as_ptr(), release.as_ptr(), &mut profile) };
    must(found, di_status::DI_OK);
    profile
}

/// Changes a layout, or null.
pub(super) fn change(bytes: &mut Bytes<'_>, layout: Option<&mut Layout>) {
    let handle = layout.as_ref().map_or(null_mut(), |layout| layout.handle);
    let (start, length) = (bytes.address(UNITS, UNIT), bytes.address(UNITS / 2, UNIT));
    let node = bytes.small(4);
    let status = match bytes.below(8) {
        0..=4 => {
            // SAFETY: null, or ours and used by nobody else.
            let status = unsafe { di_layout_add_memory(handle, node, start, length) };
            if status == di_status::DI_OK
                && let Some(layout) = layout
            {
                assert!(
                    layout.bytes.is_some(),
                    "memory was added to a file's layout"
                );
                layout.bytes = layout.bytes.map(|before| before.saturating_add(length));
            }
            status
        }
        // SAFETY: as above.
        5 | 6 => unsafe { di_layout_reserve(handle, start, length) },
        _ => {
            let line = CString::new(bytes.pick(&COMMAND_LINES)).expect("no zero");
            let line = if bytes.once_in(8) {
                null()
            } else {
                line.as_ptr()
            };
            // SAFETY: as above, and the text is this function's own.
            let status = unsafe { di_layout_command_line(handle, line) };
            assert!(!line.is_null() || status == di_status::DI_NULL);
            status
        }
    };
    assert!(!handle.is_null() || status == di_status::DI_NULL);
    done(status);
}

/// A profile: of a name, or the one that a layout tells of.
pub(super) fn profile(bytes: &mut Bytes<'_>, layout: Option<&Layout>) -> Option<*mut di_profile> {
    let mut profile = null_mut();
    let handle = layout.map_or(null_mut(), |layout| layout.handle);
    let name = CString::new(bytes.pick(&PRESETS)).expect("no zero");
    let release = CString::new(bytes.pick(&RELEASES)).expect("no zero");
    let status = match bytes.below(8) {
        // SAFETY: null, or ours.
        0 => unsafe { di_profile_of_layout(handle, &mut profile) },
        // SAFETY: null is refused.
        1 => unsafe { di_profile_preset(null(), release.as_ptr(), &mut profile) },
        // SAFETY: null is refused.
        2 => unsafe { di_profile_preset(name.as_ptr(), release.as_ptr(), null_mut()) },
        // SAFETY: all are this function's own.
        _ => unsafe { di_profile_preset(name.as_ptr(), release.as_ptr(), &mut profile) },
    };
    let made = done(status) && !profile.is_null();
    assert_eq!(made, status == di_status::DI_OK);
    made.then_some(profile)
}

/// Asks a profile, or null.
pub(super) fn ask_profile(bytes: &mut Bytes<'_>, profile: *mut di_profile) {
    let word = bytes.any();
    let (mut page, mut section) = (0_u64, 0_u64);
    // SAFETY: null, or ours.
    let status = unsafe { di_profile_sizes(profile, &mut page, null_mut(), &mut section) };
    if profile.is_null() {
        must(status, di_status::DI_NULL);
    } else {
        must(status, di_status::DI_OK);
        assert!(page.is_power_of_two() && section.is_power_of_two());
    }
    let size = outputs::size::<di_flags>(bytes);
    // SAFETY: null, or ours; the structure has as many bytes as it says.
    let ask = |flags| unsafe { di_flags_decode(profile, word, flags) };
    let decoded = outputs::structure::<di_flags>(size, ask);
    assert_eq!(decoded.is_some(), !profile.is_null() && is_size(size));
    // SAFETY: null is refused.
    let nowhere = unsafe { di_flags_decode(profile, word, null_mut()) };
    must(nowhere, di_status::DI_NULL);
    let said = outputs::text(bytes, |buffer, len, needed| {
        // SAFETY: null, or ours; the buffer has as many bytes as it says.
        unsafe { di_flags_text(profile, word, buffer, len, needed) }
    });
    assert_eq!(said, !profile.is_null());
}
