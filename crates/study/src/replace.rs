//! Files that take the place of others, whole or not at all.
//!
//! What is written goes to a file beside the place first and takes it when all of it is on disk, so a disk
//! that gets full, or an end at any moment, leaves what was there. A device or a pipe cannot be replaced
//! and is written to directly.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file under way to its place.
#[derive(Debug)]
pub struct Replacement {
    to: To,
}

#[derive(Debug)]
enum To {
    // dropped before it is in its place, it is removed
    Beside(NamedTempFile, PathBuf),
    Device(File),
}

impl Replacement {
    /// Begins a file that will lie at `path`, or where the link at `path` leads. Nothing is there, nor is
    /// what was there changed, before [`finish`](Self::finish).
    ///
    /// # Errors
    /// What the system said, where no file can be made there or the one that is there may not be written.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".unfinished-");
        let old = match std::fs::metadata(path) {
            Ok(old) => Some(old),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(old) = &old {
            // what its owner has made read-only is not replaced behind their back
            let file = OpenOptions::new().write(true).open(path)?;
            if !old.is_file() {
                return Ok(Self {
                    to: To::Device(file),
                });
            }
            builder.permissions(old.permissions());
        } else {
            use std::os::unix::fs::PermissionsExt;
            // as any new file, less what the umask takes
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let place = match &old {
            Some(_) => path.canonicalize()?,
            None => path.to_owned(),
        };
        let file = builder.tempfile_in(folder(&place))?;
        Ok(Self {
            to: To::Beside(file, place),
        })
    }

    /// Puts it into its place when it is on disk.
    ///
    /// # Errors
    /// What the system said; what was there before is there still.
    pub fn finish(self) -> io::Result<()> {
        match self.to {
            To::Beside(file, place) => {
                file.as_file().sync_data()?;
                file.persist(place)?;
                Ok(())
            }
            To::Device(mut file) => file.flush(),
        }
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Beside(file, _) => file.write(bytes),
            To::Device(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Beside(file, _) => file.flush(),
            To::Device(file) => file.flush(),
        }
    }
}

/// Writes a whole file, all or nothing.
///
/// # Errors
/// What the system said; what was there before is there still.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = Replacement::begin(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Whether two paths lead to one file, through links or not; also where it is still to be made.
pub fn is_same(one: &Path, other: &Path) -> bool {
    match (place(one), place(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

fn place(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let folder = folder(path).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    })
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(folder: &Path) -> Vec<String> {
        let files = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_not_finished_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let mut file = Replacement::begin(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(names(folder.path()), [""; 0]);

        replace(&path, b"old").unwrap();
        let mut file = Replacement::begin(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        replace(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["page.html"]);
    }

    #[test]
    fn a_link_stays_a_link_and_rights_stay_what_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        symlink("a", &link).unwrap();
        replace(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_device_is_written_to_and_a_folder_is_refused() {
        replace(Path::new("/dev/null"), b"gone").unwrap();
        assert!(replace(Path::new("/dev/full"), b"too much").is_err());
        let folder = tempfile::tempdir().unwrap();
        assert!(Replacement::begin(folder.path()).is_err());
        assert!(Replacement::begin(&folder.path().join("none/x")).is_err());
    }

    #[test]
    fn one_file_is_known_by_every_path_that_leads_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(is_same(&at("new"), &at("./new")), "not made yet");
        std::fs::write(at("a"), "").unwrap();
        symlink("a", at("b")).unwrap();
        assert!(is_same(&at("a"), &at("b")));
        assert!(!is_same(&at("a"), &at("new")));
    }
}
