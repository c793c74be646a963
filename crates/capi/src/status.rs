//! How functions end: a status, and a message for the thread that asked.

use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a function ended. `DI_OK` is 0; of anything else `di_last_error` has the reason in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum di_status {
    /// It did what it says.
    DI_OK = 0,
    /// A pointer is null that must not be.
    DI_NULL = 1,
    /// A value means nothing.
    DI_ARGUMENT = 2,
    /// A file cannot be read or is none that we know.
    DI_FILE = 3,
    /// Memory overlaps, is not whole pages, or there is none.
    DI_LAYOUT = 4,
    /// The host has not the memory.
    DI_HOST_MEMORY = 5,
    /// The host refused something else: threads, its own description.
    DI_HOST = 6,
    /// The page has no struct page, or none that was initialised.
    DI_NO_PAGE = 7,
    /// The machine has no such block of free pages.
    DI_NO_MEMORY = 8,
    /// What is to go is in use.
    DI_BUSY = 9,
    /// Something is there already.
    DI_CONFLICT = 10,
    /// There is no such thing.
    DI_NOT_FOUND = 11,
    /// The callback asked to stop.
    DI_CANCELLED = 12,
    /// The buffer is too small.
    DI_SPACE = 13,
    /// A defect of this library. The machine that was asked is not used again: free it.
    DI_DEFECT = 14,
}

/// Why a function did not do what it says.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: di_status,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: di_status, message: impl ToString) -> Self {
        let message = message.to_string();
        Self { status, message }
    }

    /// All that an error tells: C has no other way to ask for its sources.
    pub(crate) fn because(status: di_status, error: impl Error) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            let more = error.to_string();
            // many name their source in their own words
            if !message.contains(&more) {
                message = format!("{message}: {more}");
            }
            source = error.source();
        }
        Self { status, message }
    }

    /// A closure for `map_err`.
    pub(crate) fn of<E: Error>(status: di_status) -> impl Fn(E) -> Self {
        move |error| Self::because(status, error)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

fn remember(message: &str) {
    let clean = message.replace('\0', " ");
    LAST.with(|last| *last.borrow_mut() = CString::new(clean).unwrap_or_default());
}

/// Runs the body of a function: nothing unwinds into C, and the message of a failure is kept for
/// this thread.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Failure>) -> di_status {
    // What a panic leaves half-done is behind a lock, which is poisoned then.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => di_status::DI_OK,
        Ok(Err(failure)) => {
            remember(&failure.message);
            failure.status
        }
        Err(panic) => {
            remember(&format!("a defect of this library: {}", said(&*panic)));
            di_status::DI_DEFECT
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it does not say which")
}

/// Why the last function that failed on this thread did so; empty where none has.
///
/// Good until the next call of this library on this thread. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn di_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// The name of a status, as `DI_NO_PAGE`. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn di_status_name(status: u32) -> *const c_char {
    const NAMES: [&CStr; 15] = [
        c"DI_OK",
        c"DI_NULL",
        c"DI_ARGUMENT",
        c"DI_FILE",
        c"DI_LAYOUT",
        c"DI_HOST_MEMORY",
        c"DI_HOST",
        c"DI_NO_PAGE",
        c"DI_NO_MEMORY",
        c"DI_BUSY",
        c"DI_CONFLICT",
        c"DI_NOT_FOUND",
        c"DI_CANCELLED",
        c"DI_SPACE",
        c"DI_DEFECT",
    ];
    NAMES
        .get(status as usize)
        .copied()
        .unwrap_or(c"unknown")
        .as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: the pointer is this thread's message, and no call came in between.
        unsafe { CStr::from_ptr(di_last_error()) }
            .to_string_lossy()
            .into_owned()
    }

    #[test]
    fn a_panic_ends_at_the_boundary_as_a_status_with_its_words() {
        assert_eq!(guard(|| panic!("seven")), di_status::DI_DEFECT);
        assert!(last().ends_with("seven"));
    }

    #[test]
    fn a_message_tells_the_sources_of_an_error_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("the outer one")]
        struct Outer(#[source] Middle);
        #[derive(Debug, thiserror::Error)]
        #[error("the middle one: the inner one")]
        struct Middle(#[source] Inner);
        #[derive(Debug, thiserror::Error)]
        #[error("the inner one")]
        struct Inner;
        let failure = Failure::because(di_status::DI_HOST, Outer(Middle(Inner)));
        assert_eq!(
            failure.message,
            "the outer one: the middle one: the inner one"
        );
    }

    #[test]
    fn a_message_is_its_threads_own() {
        let fail = |text: &str| Failure::new(di_status::DI_BUSY, text);
        assert_eq!(guard(|| Err(fail("here"))), di_status::DI_BUSY);
        std::thread::spawn(|| assert_eq!(last(), ""))
            .join()
            .unwrap();
        assert_eq!(last(), "here");
    }

    #[test]
    fn every_status_has_its_name() {
        let name = |status| {
            // SAFETY: names are constants.
            unsafe { CStr::from_ptr(di_status_name(status)) }
        };
        assert_eq!(name(di_status::DI_DEFECT as u32), c"DI_DEFECT");
        assert_eq!(name(di_status::DI_SPACE as u32), c"DI_SPACE");
        assert_eq!(name(99), c"unknown");
    }
}
