//! This program and the libraries that it needs, for the machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive::File;
use super::{GuestError, Shape};

/// All files of the initial file system; `/init` is this program.
pub(super) fn files(shape: &Shape) -> Result<Vec<File>, GuestError> {
    let program = std::env::current_exe().map_err(GuestError::file(Path::new("/proc/self/exe")))?;
    let libraries = libraries(&program)?;
    let mut folders: BTreeSet<PathBuf> = ["proc", "sys", "dev", "tmp"].map(PathBuf::from).into();
    for library in &libraries {
        let inside = library.strip_prefix("/").unwrap_or(library);
        folders.extend(inside.ancestors().skip(1).map(Path::to_owned));
    }
    // sorted, a folder comes before those in it
    let mut files: Vec<File> = folders
        .iter()
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| File::folder(&folder.to_string_lossy()))
        .collect();
    // the console must be there before anything can be mounted
    files.push(File::device("dev/console", 5, 1));
    for library in &libraries {
        let data = std::fs::read(library).map_err(GuestError::file(library))?;
        let inside = library.strip_prefix("/").unwrap_or(library);
        files.push(File::plain(&inside.to_string_lossy(), data));
    }
    let data = std::fs::read(&program).map_err(GuestError::file(&program))?;
    files.push(File::plain("init", data));
    files.push(File::plain("shape", shape.to_text().into_bytes()));
    Ok(files)
}

/// Paths of the dynamic libraries, and of the loader; none for a static program.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, GuestError> {
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .map_err(|source| GuestError::Program {
            program: "ldd".to_owned(),
            source,
        })?;
    Ok(paths(&String::from_utf8_lossy(&output.stdout)))
}

/// The absolute paths in what `ldd` prints.
fn paths(text: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = text
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_found() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd0)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f0)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f1)\n";
        assert_eq!(
            paths(text),
            [
                PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6"),
                PathBuf::from("/lib64/ld-linux-x86-64.so.2"),
            ]
        );
        assert_eq!(paths("\tstatically linked\n"), Vec::<PathBuf>::new());
    }
}
