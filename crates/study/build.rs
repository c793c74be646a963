//! Tells the crate the commit that it is built from.

use std::process::Command;

fn main() {
    // what any crate of the workspace is built from, and where the branch stands
    println!("cargo::rerun-if-changed=..");
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", ".."])
        .is_some_and(|changes| !changes.is_empty());
    let mark = if changed { "+" } else { "" };
    println!("cargo::rustc-env=STUDY_COMMIT={commit}{mark}");
}

/// What git says; nothing where there is no git, or no repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}
