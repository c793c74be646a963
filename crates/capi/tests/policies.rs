//! Machines that boot under each policy: what is there at first, what asking and allocating bring,
//! and that all of them end as the same machine.

#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "all calls of a machine's life rest on one promise: every pointer is the test's own"
)]

use std::collections::BTreeSet;
use std::ffi::CString;
use std::ptr::{null, null_mut};

use deferred_init_c::*;

const PAGES: u64 = (2 << 30) >> 12;
/// Pages of an amd64 section.
const SECTION: u64 = 1 << 15;

/// A machine of one node of 2 GiB.
struct Booted(*mut di_machine);

impl Booted {
    fn new(policy: &str, backing: u32) -> Self {
        let (mut layout, mut profile, mut machine) = (null_mut(), null_mut(), null_mut());
        let name = CString::new(policy).unwrap();
        // SAFETY: a structure of pointers and numbers, for which zero is a value.
        let mut options: di_boot_options = unsafe { std::mem::zeroed() };
        options.size = size_of::<di_boot_options>();
        options.policy = name.as_ptr();
        options.backing = backing;
        // SAFETY: every pointer is this function's own, and each handle is freed once.
        unsafe {
            assert_eq!(di_layout_new(&mut layout), di_status::DI_OK);
            let added = di_layout_add_memory(layout, 0, 0, PAGES << 12);
            assert_eq!(added, di_status::DI_OK);
            let found = di_profile_preset(c"amd64".as_ptr(), c"7.3".as_ptr(), &mut profile);
            assert_eq!(found, di_status::DI_OK);
            let booted = di_boot(layout, profile, &options, &mut machine);
            assert_eq!(booted, di_status::DI_OK);
            di_profile_free(profile);
            di_layout_free(layout);
        }
        Self(machine)
    }

    fn deferred(&self) -> u64 {
        let mut pages = 0;
        // SAFETY: both are ours.
        let status = unsafe { di_deferred_pages(self.0, &mut pages) };
        assert_eq!(status, di_status::DI_OK);
        pages
    }

    fn flags(&self, pfn: u64) -> Result<u64, di_status> {
        let mut word = 0;
        // SAFETY: there is room for the one word that is asked for.
        match unsafe { di_page_words(self.0, pfn, &mut word, 1, null_mut()) } {
            di_status::DI_OK => Ok(word),
            failed => Err(failed),
        }
    }

    fn alloc(&self, order: u32, zone: u32) -> Result<u64, di_status> {
        let mut pfn = 0;
        // SAFETY: both are ours.
        match unsafe { di_alloc_pages(self.0, 0, order, zone, 0, &mut pfn) } {
            di_status::DI_OK => Ok(pfn),
            failed => Err(failed),
        }
    }

    fn finish_and_check(&self) {
        // SAFETY: it is ours, and null stands for the defaults.
        unsafe {
            assert_eq!(di_finish(self.0, null()), di_status::DI_OK);
            assert_eq!(di_check(self.0, null_mut()), di_status::DI_OK);
        }
        assert_eq!(self.deferred(), 0);
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        // SAFETY: it is ours, and not used again.
        unsafe { di_machine_free(self.0) };
    }
}

#[test]
fn each_policy_ends_as_the_same_machine() {
    let all = |policy| {
        let machine = Booted::new(policy, 0);
        machine.finish_and_check();
        (0..PAGES).map(|pfn| machine.flags(pfn)).collect::<Vec<_>>()
    };
    let eager = all("eager");
    assert!(eager.iter().all(Result::is_ok));
    for policy in ["deferred", "on-demand", "lazy"] {
        assert!(all(policy) == eager, "{policy}");
    }
}

#[test]
fn policies_differ_in_what_is_there_at_first() {
    assert_eq!(Booted::new("eager", 0).deferred(), 0);
    let deferred = Booted::new("deferred", 0).deferred();
    assert!(0 < deferred && deferred < PAGES, "{deferred}");
    assert_eq!(Booted::new("on-demand", 0).deferred(), deferred);
    assert_eq!(Booted::new("lazy", 0).deferred(), PAGES);
}

#[test]
fn a_lazy_machine_writes_the_sections_that_are_asked_for_alone() {
    for backing in 1..=2 {
        let machine = Booted::new("lazy", backing);
        let pfn = 3 * SECTION + 17;
        // SAFETY: the machine is ours.
        let page = unsafe { di_pfn_to_page(machine.0, pfn) };
        assert!(!page.is_null());
        assert_eq!(machine.deferred(), PAGES - SECTION);
        // SAFETY: the section is written and the machine is still there; nobody writes meanwhile.
        let word = unsafe { page.read() };
        assert_eq!(machine.flags(pfn), Ok(word));
        // SAFETY: as above.
        assert_eq!(unsafe { di_page_to_pfn(machine.0, page) }, pfn);
        assert!(machine.flags(pfn - 17).is_ok());
        assert_eq!(machine.deferred(), PAGES - SECTION);
        assert!(machine.flags(5 * SECTION).is_ok());
        assert_eq!(machine.deferred(), PAGES - 2 * SECTION);
        assert_eq!(machine.flags(PAGES), Err(di_status::DI_NO_PAGE));
        machine.finish_and_check();
    }
}

#[test]
fn all_memory_of_a_machine_can_be_allocated_whatever_its_policy() {
    let order = 10;
    let blocks = |policy| {
        let machine = Booted::new(policy, 0);
        let mut got = BTreeSet::new();
        let why = loop {
            match machine.alloc(order, DI_ANY_ZONE) {
                Ok(pfn) => assert!(got.insert(pfn), "{pfn:#x} was given twice"),
                Err(why) => break why,
            }
        };
        assert_eq!(why, di_status::DI_NO_MEMORY);
        machine.finish_and_check();
        got
    };
    let eager = blocks("eager");
    assert!(eager.len() as u64 > PAGES / 1024 - 8, "{}", eager.len());
    for policy in ["deferred", "on-demand", "lazy"] {
        assert!(blocks(policy) == eager, "{policy}");
    }
}

#[test]
fn threads_that_ask_a_lazy_machine_at_once_get_it_whole() {
    let machine = Booted::new("lazy", 0);
    let shared = SharedMachine(&machine);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let shared = &shared;
            scope.spawn(move || {
                for section in 0..PAGES / SECTION {
                    let pfn = section * SECTION + thread;
                    assert!(shared.get().flags(pfn).is_ok());
                    let block = shared.get().alloc(3, DI_ANY_ZONE).unwrap();
                    // SAFETY: the machine is there until the scope ends, and the block is ours.
                    let freed = unsafe { di_free_pages(shared.get().0, block, 3) };
                    assert_eq!(freed, di_status::DI_OK);
                }
            });
        }
    });
    assert_eq!(machine.deferred(), 0);
    machine.finish_and_check();
}

/// A machine that several threads use.
struct SharedMachine<'a>(&'a Booted);

impl SharedMachine<'_> {
    fn get(&self) -> &Booted {
        self.0
    }
}

// SAFETY: the functions called on it may be called by any thread.
unsafe impl Sync for SharedMachine<'_> {}

#[test]
fn a_policy_that_there_is_not_is_refused() {
    let (mut layout, mut machine) = (null_mut(), null_mut());
    // SAFETY: a structure of pointers and numbers, for which zero is a value.
    let mut options: di_boot_options = unsafe { std::mem::zeroed() };
    options.size = size_of::<di_boot_options>();
    options.policy = c"later".as_ptr();
    // SAFETY: every pointer is this function's own, and the handle is freed once.
    unsafe {
        assert_eq!(di_layout_new(&mut layout), di_status::DI_OK);
        let added = di_layout_add_memory(layout, 0, 0, PAGES << 12);
        assert_eq!(added, di_status::DI_OK);
        let status = di_boot(layout, null(), &options, &mut machine);
        assert_eq!(status, di_status::DI_NOT_FOUND);
        di_layout_free(layout);
    }
    assert!(machine.is_null());
}
