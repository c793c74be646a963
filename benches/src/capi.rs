//! The C interface as C programs use it, beside the arithmetic written inline.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use deferred_init_c::{
    di_boot, di_layout_add_memory, di_layout_free, di_layout_new, di_machine, di_machine_free,
    di_page_words, di_profile, di_profile_free, di_profile_preset, di_status, di_view, di_view_get,
};
use memmap_core::{Field, KernelVersion, Profile};

/// What `benches/c/capi.c` calls `struct plain`.
#[derive(Debug)]
#[repr(C)]
struct Plain {
    mem_map: u64,
    bytes: u64,
    first: u64,
    end: u64,
    shift: [u32; 5],
    mask: [u64; 5],
    flags: u64,
}

type Loop = unsafe extern "C" fn(*const c_void, *const u64, usize) -> u64;

unsafe extern "C" {
    fn plain_pfn_to_page(what: *const c_void, values: *const u64, count: usize) -> u64;
    fn view_pfn_to_page(what: *const c_void, values: *const u64, count: usize) -> u64;
    fn call_pfn_to_page(what: *const c_void, values: *const u64, count: usize) -> u64;
    fn plain_page_to_pfn(what: *const c_void, values: *const u64, count: usize) -> u64;
    fn view_page_to_pfn(what: *const c_void, values: *const u64, count: usize) -> u64;
    fn call_page_to_pfn(what: *const c_void, values: *const u64, count: usize) -> u64;
    fn plain_links(what: *const c_void, values: *const u64, count: usize) -> u64;
    fn view_links(what: *const c_void, values: *const u64, count: usize) -> u64;
    fn plain_decode(what: *const c_void, values: *const u64, count: usize) -> u64;
    fn view_decode(what: *const c_void, values: *const u64, count: usize) -> u64;
    fn call_decode(what: *const c_void, values: *const u64, count: usize) -> u64;
}

/// A way of doing one thing to many values.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// What is done.
    pub what: &'static str,
    /// `inline`, `header` or `call`.
    pub how: &'static str,
    run: Loop,
}

/// Every way; of each thing the one written inline comes first.
pub const WAYS: [Way; 11] = [
    way("pfn_to_page", "inline", plain_pfn_to_page),
    way("pfn_to_page", "header", view_pfn_to_page),
    way("pfn_to_page", "call", call_pfn_to_page),
    way("page_to_pfn", "inline", plain_page_to_pfn),
    way("page_to_pfn", "header", view_page_to_pfn),
    way("page_to_pfn", "call", call_page_to_pfn),
    way("node and zone", "inline", plain_links),
    way("node and zone", "header", view_links),
    way("flags decode", "inline", plain_decode),
    way("flags decode", "header", view_decode),
    way("flags decode", "call", call_decode),
];

const fn way(what: &'static str, how: &'static str, run: Loop) -> Way {
    Way { what, how, run }
}

/// A machine behind the C interface, and values to ask it about.
#[derive(Debug)]
pub struct Subject {
    machine: *mut di_machine,
    profile: *mut di_profile,
    view: di_view,
    plain: Plain,
    pfns: Vec<u64>,
    pages: Vec<u64>,
    words: Vec<u64>,
}

impl Subject {
    /// A machine of 1 GiB and `count` of its frames, spread all over it.
    ///
    /// # Errors
    /// The status of the function that failed.
    pub fn new(count: usize) -> Result<Self, di_status> {
        let ok = |status| match status {
            di_status::DI_OK => Ok(()),
            failed => Err(failed),
        };
        let (mut layout, mut profile, mut machine) = (null_mut(), null_mut(), null_mut());
        // SAFETY: `layout` is ours.
        ok(unsafe { di_layout_new(&mut layout) })?;
        // SAFETY: as above.
        ok(unsafe { di_layout_add_memory(layout, 0, 0, 1 << 30) })?;
        // SAFETY: texts are constants, `profile` is ours.
        ok(unsafe { di_profile_preset(c"amd64".as_ptr(), c"7.3".as_ptr(), &mut profile) })?;
        // SAFETY: all of them are ours.
        ok(unsafe { di_boot(layout, profile, null(), &mut machine) })?;
        // SAFETY: it is not used again.
        unsafe { di_layout_free(layout) };
        let mut view = di_view {
            size: size_of::<di_view>(),
            ..di_view::default()
        };
        // SAFETY: both are ours.
        ok(unsafe { di_view_get(machine, &mut view) })?;
        let kernel = Profile::amd64(KernelVersion::V7_3);
        let layout = kernel.flags_layout();
        let fields: [Field; 5] = [
            layout.node(),
            layout.zone(),
            layout.section(),
            layout.last_cpupid(),
            layout.kasan_tag(),
        ];
        let plain = Plain {
            mem_map: view.mem_map as u64,
            bytes: view.struct_page_bytes,
            first: view.first_pfn,
            end: view.end_pfn,
            shift: fields.map(|field| field.shift),
            mask: fields.map(Field::mask),
            flags: (1 << layout.numbers().count()) - 1,
        };
        let pfns: Vec<u64> = (0..count as u64)
            .map(|i| i.wrapping_mul(0x9e37_79b9) % view.end_pfn)
            .collect();
        let page = |pfn: &u64| plain.mem_map.wrapping_add(pfn * plain.bytes);
        let pages = pfns.iter().map(page).collect();
        let word = |pfn: &u64| {
            let mut word = 0;
            // SAFETY: one word is asked for and there is room for it.
            unsafe { di_page_words(machine, *pfn, &mut word, 1, null_mut()) };
            word
        };
        let words = pfns.iter().map(word).collect();
        Ok(Self {
            machine,
            profile,
            view,
            plain,
            pfns,
            pages,
            words,
        })
    }

    /// Does it to all values; what came out, added up. Ways of one thing give the same.
    pub fn run(&self, way: &Way) -> u64 {
        let values = match way.what {
            "pfn_to_page" => &self.pfns,
            "page_to_pfn" => &self.pages,
            _ => &self.words,
        };
        let what: *const c_void = match (way.how, way.what) {
            ("inline", _) => std::ptr::from_ref(&self.plain).cast(),
            ("header", _) => std::ptr::from_ref(&self.view).cast(),
            (_, "flags decode") => self.profile.cast_const().cast(),
            _ => self.machine.cast_const().cast(),
        };
        // SAFETY: each loop gets what it takes, and as many values as there are.
        unsafe { (way.run)(what, values.as_ptr(), values.len()) }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // SAFETY: it is ours, and not used again.
        unsafe { di_machine_free(self.machine) };
        // SAFETY: as above.
        unsafe { di_profile_free(self.profile) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_a_thing_gives_the_same() {
        let subject = Subject::new(1000).unwrap();
        for way in &WAYS {
            let first = WAYS.iter().find(|first| first.what == way.what).unwrap();
            assert_eq!(subject.run(way), subject.run(first), "{way:?}");
        }
        // what is promised of the fast path is judged
        for what in ["pfn_to_page", "page_to_pfn", "flags decode"] {
            let has = |how| WAYS.iter().any(|way| way.what == what && way.how == how);
            assert!(has("inline") && has("header"), "{what}");
        }
    }
}
