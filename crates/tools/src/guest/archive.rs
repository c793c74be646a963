//! The initial file system, as the kernel unpacks it: a cpio archive of the "newc" kind.

/// A file of the archive.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Its path without a leading slash.
    pub(super) path: String,
    /// Its mode, with its kind.
    pub(super) mode: u32,
    /// What it holds; what a symbolic link points to.
    pub(super) data: Vec<u8>,
    /// Its device number, for a device.
    pub(super) device: (u32, u32),
}

impl File {
    /// A folder.
    pub(super) fn folder(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            mode: 0o040_755,
            data: Vec::new(),
            device: (0, 0),
        }
    }

    /// An executable or plain file.
    pub(super) fn plain(path: &str, data: Vec<u8>) -> Self {
        Self {
            path: path.to_owned(),
            mode: 0o100_755,
            data,
            device: (0, 0),
        }
    }

    /// A character device.
    pub(super) fn device(path: &str, major: u32, minor: u32) -> Self {
        Self {
            path: path.to_owned(),
            mode: 0o020_600,
            data: Vec::new(),
            device: (major, minor),
        }
    }
}

/// Packs files in the order given; folders must come before what lies in them.
pub(super) fn pack(files: &[File]) -> Vec<u8> {
    let mut out = Vec::new();
    let end = File {
        path: "TRAILER!!!".to_owned(),
        mode: 0,
        data: Vec::new(),
        device: (0, 0),
    };
    for (number, file) in files.iter().chain([&end]).enumerate() {
        let fields = [
            number as u32 + 1,
            file.mode,
            0,
            0,
            1,
            0,
            file.data.len() as u32,
            0,
            0,
            file.device.0,
            file.device.1,
            file.path.len() as u32 + 1,
            0,
        ];
        out.extend_from_slice(b"070701");
        for field in fields {
            out.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        out.extend_from_slice(file.path.as_bytes());
        out.push(0);
        pad(&mut out);
        out.extend_from_slice(&file.data);
        pad(&mut out);
    }
    out
}

/// Names and contents start at multiples of four bytes.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_names_and_contents_are_aligned() {
        let image = pack(&[File::folder("a"), File::plain("a/bc", b"hello".to_vec())]);
        assert_eq!(image.len() % 4, 0);
        let text = String::from_utf8_lossy(&image);
        // inode, mode, owner, group, links, time, size
        let header =
            "07070100000002000081ED00000000000000000000000100000000".to_owned() + "00000005";
        let at = text.find(&header).unwrap();
        assert_eq!(at % 4, 0);
        assert!(text[at..].contains("a/bc\0\0hello\0\0\0"));
        assert!(text.contains("TRAILER!!!"));
    }
}
