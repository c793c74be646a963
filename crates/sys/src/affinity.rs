//! On which CPUs the calling thread may run, on which it does, and for how long it did.
//!
//! Masks are words of 64 CPUs, least significant bit first, of any length: the fixed set of the C
//! library ends at CPU 1023.

use std::time::Duration;

use crate::error::{Args, Call, Errno, SysError};
use crate::seam;

/// The calling thread's CPU mask, without trailing zero words.
///
/// # Errors
/// [`SysError::Refused`].
#[doc(alias = "sched_getaffinity")]
pub fn affinity() -> Result<Vec<u64>, SysError> {
    // The kernel refuses a buffer shorter than its own mask: 8192 CPUs is the most that it can be
    // built for today, and longer ones are tried all the same.
    let mut words = 128;
    loop {
        let mut mask = vec![0_u64; words];
        let bytes = words * 8;
        let got = seam::call(
            Call::SchedGetaffinity,
            || Args::None,
            || {
                // SAFETY: the buffer has `bytes` bytes; thread 0 is the caller.
                unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, mask.as_mut_ptr()) }
            },
        );
        match got {
            Ok(got) => {
                mask.truncate((got as usize).div_ceil(8));
                while mask.last() == Some(&0) {
                    mask.pop();
                }
                return Ok(mask);
            }
            Err(error) if error.errno() == Some(Errno(libc::EINVAL)) && words < 1 << 16 => {
                words *= 2;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Lets the calling thread run on the CPUs of `mask` only.
///
/// The system takes the part of the mask that it knows and allows; a caller that must not run
/// elsewhere checks with [`current_cpu`].
///
/// # Errors
/// [`SysError::Refused`]: `EINVAL` where no CPU of the mask is online and allowed.
#[doc(alias = "sched_setaffinity")]
pub fn set_affinity(mask: &[u64]) -> Result<(), SysError> {
    let args = || Args::Cpus {
        count: mask.iter().map(|word| word.count_ones() as usize).sum(),
        first: first(mask),
    };
    seam::call(Call::SchedSetaffinity, args, || {
        // SAFETY: the mask has as many bytes as said; thread 0 is the caller.
        unsafe {
            libc::syscall(
                libc::SYS_sched_setaffinity,
                0,
                size_of_val(mask),
                mask.as_ptr(),
            )
        }
    })?;
    Ok(())
}

fn first(mask: &[u64]) -> Option<u32> {
    let word = mask.iter().position(|word| *word != 0)?;
    Some(word as u32 * 64 + mask[word].trailing_zeros())
}

/// The CPU and the node that the caller runs on at this moment.
///
/// # Errors
/// [`SysError::Refused`].
#[doc(alias = "getcpu")]
pub fn current_cpu() -> Result<(u32, u32), SysError> {
    let (mut cpu, mut node) = (0_u32, 0_u32);
    seam::call(
        Call::Getcpu,
        || Args::None,
        || {
            let unused = std::ptr::null_mut::<libc::c_void>();
            // SAFETY: both pointers are to live u32s; the third argument is ignored since 2.6.24.
            unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, unused) }
        },
    )?;
    Ok((cpu, node))
}

/// The kernel's number of the calling thread.
#[doc(alias = "gettid")]
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Processor time that all threads of this process have used so far.
///
/// Unlike the time on the wall it does not grow while others have the processor.
#[doc(alias = "clock_gettime")]
#[doc(alias = "CLOCK_PROCESS_CPUTIME_ID")]
pub fn process_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec; this clock is there since Linux 2.6.12, and where it
    // were not the time stays 0.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::Faults;

    #[test]
    fn the_cpu_we_run_on_is_in_our_mask() {
        let mask = affinity().unwrap();
        let (cpu, _) = current_cpu().unwrap();
        assert_ne!(mask[cpu as usize / 64] & (1 << (cpu % 64)), 0);
    }

    #[test]
    fn processor_time_grows_by_work() {
        let before = process_time();
        let mut sum = 0_u64;
        while process_time() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(process_time() > before);
    }

    #[test]
    fn a_mask_beyond_1024_cpus_is_taken() {
        crate::spawn("beyond", || {
            let mine = affinity().unwrap();
            let mut long = mine.clone();
            long.resize(64, 0);
            long[63] = 1; // CPU 4032: not there, which the system does not mind
            set_affinity(&long).unwrap();
            assert_eq!(affinity().unwrap(), mine);
            let mut alone = vec![0; 64];
            alone[63] = 1;
            let error = set_affinity(&alone).unwrap_err();
            assert_eq!(error.errno(), Some(Errno(libc::EINVAL)));
            assert!(error.to_string().contains("1 CPUs from 4032"), "{error}");
        })
        .unwrap()
        .join()
        .unwrap();
    }

    #[test]
    fn a_kernel_with_a_longer_mask_is_asked_again() {
        let faults = Faults::new().fail(Call::SchedGetaffinity, 1, libc::EINVAL);
        let _scope = faults.enter();
        assert!(!affinity().unwrap().is_empty());
        assert_eq!(faults.calls(Call::SchedGetaffinity), 2);
    }
}
