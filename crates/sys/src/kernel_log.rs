//! What this host's kernel has said since it booted.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::{Args, Call, SysError};
use crate::seam;

/// The longest record that the kernel hands out at once, bytes.
const RECORD: usize = 8192;

/// Files that systems keep the boot's messages in.
const KEPT: [&str; 2] = ["/var/log/dmesg", "/var/log/boot.msg"];

/// The kernel's messages, a line each, oldest first: from the kernel itself, else from where the
/// system kept those of the boot.
///
/// # Errors
/// [`SysError::Refused`] where the kernel keeps its log from us and no file has it.
#[doc(alias = "dmesg")]
pub fn kernel_log() -> Result<String, SysError> {
    let kept = || {
        KEPT.iter()
            .find_map(|path| std::fs::read_to_string(path).ok())
    };
    records(Path::new("/dev/kmsg")).or_else(|error| kept().ok_or(error))
}

fn records(path: &Path) -> Result<String, SysError> {
    let args = || Args::File {
        path: path.to_owned(),
        bytes: 0,
    };
    let mut log = seam::io(Call::Open, args, || {
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
    })?;
    let mut text = String::new();
    let mut record = [0; RECORD];
    loop {
        let read = seam::io(Call::Read, args, || match log.read(&mut record) {
            // nothing newer
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Some(0)),
            // the oldest was overwritten while we read: the next one follows
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => Ok(None),
            read => read.map(Some),
        })?;
        match read {
            Some(0) => return Ok(text),
            Some(bytes) => line(&String::from_utf8_lossy(&record[..bytes]), &mut text),
            None => {}
        }
    }
}

/// Turns `priority,number,microseconds,flags;message` into a line as `dmesg` prints it.
fn line(record: &str, text: &mut String) {
    let Some((head, message)) = record.split_once(';') else {
        return;
    };
    let micros: u64 = head
        .split(',')
        .nth(2)
        .and_then(|field| field.parse().ok())
        .unwrap_or(0);
    let message = message.lines().next().unwrap_or_default();
    text.push_str(&format!(
        "[{:5}.{:06}] {message}\n",
        micros / 1_000_000,
        micros % 1_000_000
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::Faults;

    #[test]
    fn a_record_becomes_a_line_without_its_dictionary() {
        let mut text = String::new();
        line(
            "6,339,5140900,-;node 0 deferred pages initialised in 36ms\n SUBSYSTEM=acpi\n",
            &mut text,
        );
        line("no record", &mut text);
        assert_eq!(
            text,
            "[    5.140900] node 0 deferred pages initialised in 36ms\n"
        );
    }

    #[test]
    fn a_log_that_is_kept_from_us_is_an_error() {
        let faults = Faults::new().fail(Call::Open, 1, libc::EPERM);
        let _scope = faults.enter();
        let error = records(Path::new("/dev/kmsg")).unwrap_err();
        assert!(error.to_string().contains("open(/dev/kmsg)"), "{error}");
    }

    #[test]
    fn this_kernel_says_something_or_keeps_it_from_us() {
        match kernel_log() {
            Ok(text) => assert!(!text.is_empty()),
            Err(error) => captures::skipped(&format!("{error}")),
        }
    }
}
