//! What the first program of a machine does and no other: mount file systems, switch off.

use std::ffi::CString;
use std::path::Path;

use crate::error::{Args, Call, Errno, SysError};
use crate::seam;

/// Mounts a file system of `kind` that needs no device (`proc`, `sysfs`, `devtmpfs`, `tmpfs`) on an
/// existing folder.
///
/// # Errors
/// [`SysError::Refused`]: `EPERM` without the right to mount, `EINVAL` for a path with a NUL byte.
pub fn mount(kind: &str, on: &Path) -> Result<(), SysError> {
    let args = || Args::File {
        path: on.to_owned(),
        bytes: 0,
    };
    let text = |bytes: &[u8]| {
        CString::new(bytes).map_err(|_| SysError::Refused {
            call: Call::Mount,
            args: args(),
            errno: Errno(libc::EINVAL),
        })
    };
    let kind = text(kind.as_bytes())?;
    let target = text(on.as_os_str().as_encoded_bytes())?;
    seam::call(Call::Mount, args, || {
        // SAFETY: three strings that end in NUL, no flags, and no data.
        let done = unsafe {
            libc::mount(
                kind.as_ptr(),
                target.as_ptr(),
                kind.as_ptr(),
                0,
                std::ptr::null(),
            )
        };
        libc::c_long::from(done)
    })?;
    Ok(())
}

/// Switches the machine off at once. Whoever calls it has written everything that must last.
///
/// # Errors
/// [`SysError::Refused`]: `EPERM` without the right to do so.
#[doc(alias = "reboot")]
pub fn power_off() -> Result<(), SysError> {
    seam::call(
        Call::Reboot,
        || Args::None,
        || {
            // SAFETY: takes a number; where it succeeds it does not return.
            let done = unsafe { libc::reboot(libc::RB_POWER_OFF) };
            libc::c_long::from(done)
        },
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::Faults;

    #[test]
    fn a_mount_that_is_refused_names_the_folder() {
        let faults = Faults::new().fail(Call::Mount, 1, libc::EPERM);
        let _scope = faults.enter();
        let error = mount("proc", Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().contains("mount(/nowhere)"), "{error}");
        assert!(mount("proc\0", Path::new("/nowhere")).is_err());
    }
}
