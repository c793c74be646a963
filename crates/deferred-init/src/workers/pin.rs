//! Pins the calling thread to one CPU, and makes sure of it.

use sys::{Args, Call, Errno, SysError};

use crate::CpuSet;

/// The C library's CPU set, and with it the pinning crate, ends here; beyond it would abort.
const FIXED_SET: u32 = 1024;

/// Pins the calling thread to `cpu`.
///
/// # Errors
/// [`SysError`], also where the system said yes and did otherwise.
pub(super) fn pin(cpu: u32) -> Result<(), SysError> {
    let only: CpuSet = [cpu].into_iter().collect();
    let args = || Args::Cpus {
        count: 1,
        first: Some(cpu),
    };
    let refused = |errno| SysError::Refused {
        call: Call::SchedSetaffinity,
        args: args(),
        errno,
    };
    if cpu < FIXED_SET {
        sys::seam::check(Call::SchedSetaffinity, args)?;
        // The list of CPUs was taken from the mask before anything was pinned: the crate's own list
        // would be that of this thread.
        let core = core_affinity::CoreId { id: cpu as usize };
        if !core_affinity::set_for_current(core) {
            return Err(refused(Errno::from(std::io::Error::last_os_error())));
        }
    } else {
        sys::set_affinity(only.words())?;
    }
    match sys::affinity()? == only.words() {
        true => Ok(()),
        false => Err(refused(Errno(22))),
    }
}
