//! The seam: where a test lets the n-th call of a kind fail.
//!
//! A [`Faults`] value says which calls fail. It works on the thread that [enters](Faults::enter) it
//! and on all threads that this one [spawns](crate::spawn) meanwhile, and nowhere else: two tests of
//! one process never disturb each other. Outside of tests the seam costs one look at a thread-local.
//!
//! ```
//! use sys::{Call, Mapping, seam::Faults};
//!
//! let faults = Faults::new().fail(Call::Mmap, 2, libc::ENOMEM);
//! let scope = faults.enter();
//! assert!(Mapping::reserve(4096).is_ok());
//! assert!(Mapping::reserve(4096).is_err());
//! drop(scope);
//! assert_eq!(faults.calls(Call::Mmap), 2);
//! ```

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Args, Call, Errno, SysError};

thread_local! {
    static CURRENT: RefCell<Option<Faults>> = const { RefCell::new(None) };
}

/// Which calls fail, and how many of each kind there were.
#[derive(Clone, Debug)]
pub struct Faults {
    rules: Vec<Rule>,
    counts: Arc<[AtomicU64; Call::ALL.len()]>,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    call: Call,
    first: u64,
    last: u64,
    errno: i32,
}

impl Default for Faults {
    fn default() -> Self {
        Self::new()
    }
}

impl Faults {
    /// Nothing fails; calls are counted.
    pub fn new() -> Self {
        Self {
            rules: Vec::new(),
            counts: Arc::new(std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    /// Lets the `nth` call (from 1) of the kind fail with `errno`.
    #[must_use]
    pub fn fail(self, call: Call, nth: u64, errno: i32) -> Self {
        self.rule(call, nth, nth, errno)
    }

    /// Lets the `nth` call (from 1) of the kind, and all after it, fail with `errno`.
    #[must_use]
    pub fn fail_from(self, call: Call, nth: u64, errno: i32) -> Self {
        self.rule(call, nth, u64::MAX, errno)
    }

    fn rule(mut self, call: Call, first: u64, last: u64, errno: i32) -> Self {
        self.rules.push(Rule {
            call,
            first,
            last,
            errno,
        });
        self
    }

    /// How many calls of the kind there were so far, failed ones included.
    pub fn calls(&self, call: Call) -> u64 {
        // Relaxed: a plain count; a test reads it after joining the threads that counted.
        self.counts[call as usize].load(Ordering::Relaxed)
    }

    /// Puts it in force on this thread, until the scope is dropped.
    #[must_use = "the faults are in force only while the scope lives"]
    pub fn enter(&self) -> FaultScope {
        FaultScope {
            before: CURRENT.replace(Some(self.clone())),
            _not_send: std::marker::PhantomData,
        }
    }

    fn hit(&self, call: Call) -> Option<Errno> {
        let nth = self.counts[call as usize].fetch_add(1, Ordering::Relaxed) + 1;
        self.rules
            .iter()
            .find(|rule| rule.call == call && (rule.first..=rule.last).contains(&nth))
            .map(|rule| Errno(rule.errno))
    }
}

/// Keeps a [`Faults`] in force on the thread that entered it.
#[derive(Debug)]
pub struct FaultScope {
    before: Option<Faults>,
    // leaving on another thread would restore the wrong thread's faults
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Drop for FaultScope {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

/// What is in force on this thread, for a thread that it spawns.
pub fn current() -> Option<Faults> {
    CURRENT.with_borrow(Clone::clone)
}

/// Whether this call is to fail. For callers whose call does not go through this crate, such as a
/// library that pins threads itself.
///
/// # Errors
/// [`SysError::Refused`] where a test said so.
pub fn check(call: Call, args: impl FnOnce() -> Args) -> Result<(), SysError> {
    let errno = CURRENT.with_borrow(|faults| faults.as_ref().and_then(|faults| faults.hit(call)));
    match errno {
        None => Ok(()),
        Some(errno) => Err(SysError::Refused {
            call,
            args: args(),
            errno,
        }),
    }
}

/// Makes a call that says −1 when it fails.
pub(crate) fn call(
    call: Call,
    args: impl Fn() -> Args,
    make: impl FnOnce() -> libc::c_long,
) -> Result<libc::c_long, SysError> {
    check(call, &args)?;
    match make() {
        -1 => Err(SysError::Refused {
            call,
            args: args(),
            errno: Errno::last(),
        }),
        value => Ok(value),
    }
}

/// Makes a call of std.
pub(crate) fn io<T>(
    call: Call,
    args: impl Fn() -> Args,
    make: impl FnOnce() -> std::io::Result<T>,
) -> Result<T, SysError> {
    check(call, &args)?;
    make().map_err(|error| SysError::Refused {
        call,
        args: args(),
        errno: error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_stay_on_their_thread_and_on_those_it_spawns() {
        let faults = Faults::new().fail_from(Call::Mmap, 1, libc::ENOMEM);
        let scope = faults.enter();
        let elsewhere = std::thread::scope(|scope| {
            scope
                .spawn(|| crate::Mapping::reserve(4096).is_ok())
                .join()
                .unwrap()
        });
        assert!(elsewhere, "a thread of another test is left alone");
        let inherited = crate::spawn("child", || crate::Mapping::reserve(4096).is_err())
            .unwrap()
            .join()
            .unwrap();
        assert!(inherited);
        drop(scope);
        assert!(crate::Mapping::reserve(4096).is_ok());
        assert_eq!(faults.calls(Call::Mmap), 1);
    }

    #[test]
    fn scopes_nest() {
        let outer = Faults::new().fail_from(Call::Mmap, 1, libc::ENOMEM);
        let inner = Faults::new();
        let _outer = outer.enter();
        {
            let _inner = inner.enter();
            assert!(crate::Mapping::reserve(4096).is_ok());
        }
        assert!(crate::Mapping::reserve(4096).is_err());
    }
}
