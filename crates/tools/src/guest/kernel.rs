//! The distribution's kernel, fetched and unpacked, never installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package that depends on the newest kernel for virtual machines.
const META: &str = "linux-image-cloud-amd64";

/// A kernel image in `folder`, fetched if there is none yet; else what is missing.
pub(super) fn find(folder: &Path) -> Result<PathBuf, String> {
    if let Some(kernel) = unpacked(folder) {
        return Ok(kernel);
    }
    let missing = |what: &str| {
        format!(
            "no kernel: {what}; give one by --kernel FILE (a bzImage, such as /boot/vmlinuz-* of the package {META})"
        )
    };
    let depends = output("apt-cache", &["depends", META], folder)
        .ok_or_else(|| missing("apt-cache is not there"))?;
    let package = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .map(str::to_owned)
        .ok_or_else(|| missing(&format!("apt knows no package {META} (apt-get update)")))?;
    output("apt-get", &["download", &package], folder)
        .ok_or_else(|| missing(&format!("apt-get download {package} failed")))?;
    let archive = entries(folder)
        .into_iter()
        .find(|path| path.extension().is_some_and(|ext| ext == "deb"))
        .ok_or_else(|| missing(&format!("apt-get download {package} left no file")))?;
    let name = archive.to_string_lossy().into_owned();
    let done = output("dpkg", &["-x", &name, "kernel"], folder);
    // whether it worked shows in what is there now
    let _ = std::fs::remove_file(&archive);
    done.and_then(|_| unpacked(folder))
        .ok_or_else(|| missing(&format!("{package} could not be unpacked")))
}

fn unpacked(folder: &Path) -> Option<PathBuf> {
    entries(&folder.join("kernel/boot"))
        .into_iter()
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
        })
}

/// A folder's entries by name; none where it is not there.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    entries
}

/// What a program prints, where it succeeds.
fn output(program: &str, args: &[&str], folder: &Path) -> Option<String> {
    let output = Command::new(program)
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
