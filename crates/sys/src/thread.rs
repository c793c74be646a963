//! Threads that carry their parent's faults.

use std::thread::{Builder, JoinHandle};

use crate::error::{Args, Call, SysError};
use crate::seam;

/// Creates a named thread.
///
/// # Errors
/// [`SysError::Refused`] where a limit on threads or memory forbids it.
#[doc(alias = "pthread_create")]
pub fn spawn<T, F>(name: &str, body: F) -> Result<JoinHandle<T>, SysError>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let faults = seam::current();
    let args = || Args::Thread {
        name: name.to_owned(),
    };
    seam::io(Call::Spawn, args, || {
        // a NUL would be refused by std with a panic
        let name = name.replace('\0', "");
        Builder::new().name(name).spawn(move || {
            let _scope = faults.as_ref().map(seam::Faults::enter);
            body()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::Faults;

    #[test]
    fn a_refused_thread_is_named() {
        let faults = Faults::new().fail(Call::Spawn, 1, libc::EAGAIN);
        let _scope = faults.enter();
        let error = spawn("n0/w3", || ()).unwrap_err();
        assert!(error.to_string().contains("thread n0/w3"), "{error}");
        assert!(error.to_string().contains("fewer threads"), "{error}");
    }
}
