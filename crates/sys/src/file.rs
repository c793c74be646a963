//! Records that are on the disk whole, or not at all.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use crate::error::{Args, Call, SysError};
use crate::seam;

/// Appends `record` to the file (created if need be) and waits until it is durable.
///
/// Where writing fails half-way the file is cut back to what it held before, so that no reader
/// ever meets half a record.
///
/// # Errors
/// [`SysError::Refused`] by `open`, `write` or `fdatasync`.
#[doc(alias = "fdatasync")]
pub fn append_record(path: &Path, record: &[u8]) -> Result<(), SysError> {
    let args = |bytes| {
        move || Args::File {
            path: path.to_owned(),
            bytes,
        }
    };
    let mut file = seam::io(Call::Open, args(0), || {
        OpenOptions::new().append(true).create(true).open(path)
    })?;
    let before = seam::io(Call::Read, args(0), || file.metadata())?.len();
    let written = seam::io(Call::Write, args(record.len()), || file.write_all(record))
        .and_then(|()| seam::io(Call::Fdatasync, args(0), || file.sync_data()));
    if written.is_err() {
        // The first error is the one to report; where this fails too there is nothing left to try.
        let _ = file.set_len(before);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Errno;
    use crate::seam::Faults;

    #[test]
    fn every_fault_leaves_whole_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        append_record(&path, b"{\"run\":1}\n").unwrap();
        for call in [Call::Open, Call::Read, Call::Write, Call::Fdatasync] {
            let faults = Faults::new().fail(call, 1, libc::ENOSPC);
            let _scope = faults.enter();
            let error = append_record(&path, b"{\"run\":2}\n").unwrap_err();
            assert_eq!(
                (error.call(), error.errno()),
                (Some(call), Some(Errno(libc::ENOSPC)))
            );
            assert_eq!(std::fs::read(&path).unwrap(), b"{\"run\":1}\n", "{call}");
        }
        append_record(&path, b"{\"run\":2}\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap().len(), 20);
    }

    #[test]
    fn a_full_device_is_reported() {
        let error = append_record(Path::new("/dev/full"), b"x").unwrap_err();
        assert_eq!(error.errno(), Some(Errno(libc::ENOSPC)));
        assert!(error.to_string().contains("make room"), "{error}");
    }
}
