//! Any sequence of calls of the C interface, as bytes decide it.
//!
//! Handles are used as the header asks (each freed once, and not used afterwards); everything else
//! may be wrong: null, numbers that mean nothing, structures of other sizes, buffers that are short
//! or lie anywhere. No call may end as `DI_DEFECT`, each failure has words, and after every machine's
//! life its struct pages and free lists are whole.
//!
//! Used by the tests of this crate and by a fuzz target.

mod bytes;
mod layouts;
mod machines;
mod outputs;

use std::ffi::CStr;
use std::ptr::null_mut;

use deferred_init_c::*;

use bytes::Bytes;
use machines::Booted;

/// Calls of one script.
const LONGEST: usize = 80;
/// Handles of a kind that are open at once.
const SLOTS: usize = 2;

/// Makes the calls that `data` stands for.
///
/// # Panics
/// Where one does what its documentation does not say.
pub(crate) fn any_calls(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut open = Open::default();
    if !bytes.once_in(8) {
        // most calls say little without a machine
        open.machines[0] = Some(Booted::plain(&mut bytes));
    }
    for _ in 0..LONGEST {
        if bytes.is_empty() {
            break;
        }
        open.call(&mut bytes);
    }
    open.close();
}

/// What is open.
#[derive(Default)]
struct Open {
    layouts: [Option<layouts::Layout>; SLOTS],
    profiles: [Option<*mut di_profile>; SLOTS],
    machines: [Option<Booted>; SLOTS],
}

impl Open {
    fn call(&mut self, bytes: &mut Bytes<'_>) {
        let slot = usize::from(bytes.once_in(4));
        match bytes.below(16) {
            0 => self.new_layout(bytes, slot),
            1 => layouts::change(bytes, self.layouts[slot].as_mut()),
            2 => self.new_profile(bytes, slot),
            3 => layouts::ask_profile(bytes, self.profiles[slot].unwrap_or(null_mut())),
            4 => self.boot(bytes, slot),
            5 => self.free(bytes, slot),
            what => match &mut self.machines[slot] {
                Some(machine) => machine.call(bytes, what),
                None => machines::nothing(bytes, what),
            },
        }
    }

    fn new_layout(&mut self, bytes: &mut Bytes<'_>, slot: usize) {
        if let Some(new) = layouts::Layout::open(bytes)
            && let Some(old) = self.layouts[slot].replace(new)
        {
            old.free();
        }
    }

    fn new_profile(&mut self, bytes: &mut Bytes<'_>, slot: usize) {
        let layout = self.layouts[slot].as_ref();
        if let Some(new) = layouts::profile(bytes, layout) {
            free_profile(self.profiles[slot].replace(new));
        }
    }

    fn boot(&mut self, bytes: &mut Bytes<'_>, slot: usize) {
        let profile = match bytes.once_in(3) {
            true => null_mut(),
            false => self.profiles[slot].unwrap_or(null_mut()),
        };
        let new = Booted::boot(bytes, self.layouts[slot].as_ref(), profile);
        if let Some(new) = new
            && let Some(old) = self.machines[slot].replace(new)
        {
            old.end();
        }
    }

    fn free(&mut self, bytes: &mut Bytes<'_>, slot: usize) {
        match bytes.below(4) {
            0 => {
                if let Some(layout) = self.layouts[slot].take() {
                    layout.free();
                }
            }
            1 => free_profile(self.profiles[slot].take()),
            2 => {
                if let Some(machine) = self.machines[slot].take() {
                    machine.end();
                }
            }
            _ => {
                // SAFETY: null is allowed, and nothing happens.
                unsafe {
                    di_layout_free(null_mut());
                    di_profile_free(null_mut());
                    di_machine_free(null_mut());
                }
            }
        }
    }

    /// Layouts and profiles go first: machines are none the worse.
    fn close(self) {
        for layout in self.layouts.into_iter().flatten() {
            layout.free();
        }
        for profile in self.profiles {
            free_profile(profile);
        }
        for machine in self.machines.into_iter().flatten() {
            machine.end();
        }
    }
}

fn free_profile(profile: Option<*mut di_profile>) {
    // SAFETY: null, or ours and not used again.
    unsafe { di_profile_free(profile.unwrap_or(null_mut())) };
}

/// What the last failure of this thread was.
fn reason() -> String {
    // SAFETY: the pointer is this thread's message, and no call came in between.
    let text = unsafe { CStr::from_ptr(di_last_error()) };
    text.to_str().expect("messages are UTF-8").to_owned()
}

/// Whether a call did what it says; one that did not has the reason in words, and is no defect.
#[track_caller]
fn done(status: di_status) -> bool {
    if status == di_status::DI_OK {
        return true;
    }
    let reason = reason();
    assert_ne!(status, di_status::DI_DEFECT, "{reason}");
    assert!(!reason.is_empty(), "{status:?} has no words");
    false
}

/// The call must have ended so.
#[track_caller]
fn must(status: di_status, expected: di_status) {
    assert_eq!(status, expected, "{}", reason());
    done(status);
}
