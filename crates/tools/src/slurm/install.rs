//! Slurm's programs: here, or from the distribution.

use std::process::{Command, Stdio};

use super::cluster::find;

/// What a cluster takes.
const PROGRAMS: [&str; 7] = [
    "munged",
    "slurmctld",
    "slurmd",
    "sbatch",
    "scontrol",
    "sinfo",
    "squeue",
];

/// Debian's packages of them.
const PACKAGES: [&str; 4] = ["munge", "slurmctld", "slurmd", "slurm-client"];

/// Sees to it that all programs are here; why they are not, where they are not.
pub(super) fn ensure(may_install: bool, say: &mut dyn FnMut(&str)) -> Result<(), String> {
    if missing().is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install {}", PACKAGES.join(" "));
    let lacking = |why: &str| format!("{} not here, {why} ({line})", missing().join(", "));
    if !may_install {
        return Err(lacking("and not to be installed"));
    }
    if find("apt-get").is_none() {
        return Err(lacking("and there is no apt-get"));
    }
    let root = std::fs::metadata("/proc/self")
        .is_ok_and(|data| std::os::unix::fs::MetadataExt::uid(&data) == 0);
    if !root {
        return Err(lacking("and only root can install them"));
    }
    say(&line);
    let apt = |args: &[&str]| {
        let status = Command::new("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    let mut install = vec!["install", "-y", "-qq", "--no-install-recommends"];
    install.extend(PACKAGES);
    // the list of packages may be missing or old; then it is fetched first
    let installed = apt(&install) || (apt(&["update", "-qq"]) && apt(&install));
    if !installed {
        return Err(lacking("and they could not be installed"));
    }
    match missing().is_empty() {
        true => Ok(()),
        false => Err(lacking("even now that their packages are installed")),
    }
}

fn missing() -> Vec<&'static str> {
    PROGRAMS
        .into_iter()
        .filter(|program| find(program).is_none())
        .collect()
}
