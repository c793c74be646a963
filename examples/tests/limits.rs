//! A sweep on hosts that withhold something: memory, threads, room on the disk, `/sys`, calls, CPUs.
//!
//! Each case takes the thing away for real, in a child process. Where that needs a right that the
//! caller has not, the case says on standard error that it was skipped, and why.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// The built example; cargo builds all examples before it runs these tests.
fn sweep() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut path: PathBuf = test.parent().unwrap().parent().unwrap().into();
    path.extend(["examples", "sweep"]);
    path
}

/// A shell line that ends in a small sweep with these arguments.
fn shell(before: &str, launcher: &[&str], folder: &Path, args: &str) -> Output {
    let (sweep, folder) = (sweep(), folder.display());
    let line = format!(
        "{before} exec {} --out {folder} --writers zero {args}",
        sweep.display()
    );
    let mut words: Vec<&str> = launcher.to_vec();
    words.extend(["sh", "-c", &line]);
    Command::new(words[0]).args(&words[1..]).output().unwrap()
}

/// Whether this process may do what the shell line does; says so where not.
fn may(what: &str, launcher: &[&str], line: &str) -> bool {
    let mut words: Vec<&str> = launcher.to_vec();
    words.extend(["sh", "-c", line]);
    let tried = Command::new(words[0]).args(&words[1..]).output();
    match tried {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            captures::skipped(&format!("{what}: {}", said.trim()));
            false
        }
        Err(error) => {
            captures::skipped(&format!("{what}: {}: {error}", words[0]));
            false
        }
    }
}

/// What was said, where it ended by itself with `status` and without a panic.
fn said(output: &Output, status: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

const OWN_MOUNTS: &[&str] = &["unshare", "-m"];

#[test]
fn address_space_that_is_limited_is_named_with_both_numbers_and_what_fits() {
    let folder = tempfile::tempdir().unwrap();
    let output = shell(
        "ulimit -v 600000;",
        &[],
        folder.path(),
        "--memory 64G --rounds 1 --threads 1",
    );
    let said = said(&output, 3);
    for word in ["1073741824", "ulimit -v", "fits"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn a_memory_limit_of_the_control_group_is_kept() {
    let own = format!("/sys/fs/cgroup/memory/deferred-init-{}", std::process::id());
    let make = format!("mkdir {own} && echo 300M > {own}/memory.limit_in_bytes");
    // one hierarchy a kind of limit, or one for all
    let unified = own.replace("/memory/", "/");
    let make_unified = format!("mkdir {unified} && echo 300M > {unified}/memory.max");
    let group = if may("a memory limit in an own hierarchy", &[], &make) {
        own
    } else if may(
        "a memory limit in the unified hierarchy",
        &[],
        &make_unified,
    ) {
        unified
    } else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let output = shell(
        &format!("echo $$ > {group}/cgroup.procs;"),
        &[],
        folder.path(),
        "--memory 64G --rounds 1 --threads 1",
    );
    std::fs::remove_dir(&group).unwrap();
    let said = said(&output, 3);
    assert!(said.contains("1073741824"), "{said}");
    assert!(said.contains("limit of /sys/fs/cgroup"), "{said}");
}

#[test]
fn threads_that_may_not_be_had_are_an_error_that_names_the_limit() {
    let nobody = [
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
    ];
    let limited = [&nobody[..], &["prlimit", "--nproc=1"]].concat();
    let readable = format!("test -x {}", sweep().display());
    if !may("becoming nobody", &limited, &readable) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(
        folder.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let output = shell(
        "",
        &limited,
        folder.path(),
        "--memory 256M --rounds 1 --threads 1",
    );
    let said = said(&output, 1);
    assert!(said.contains("ulimit -u"), "{said}");
}

#[test]
fn an_output_that_is_read_only_is_an_error_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o ro none {};", folder.path().display());
    if !may("mounting", OWN_MOUNTS, &format!("{mount} true")) {
        return;
    }
    let output = shell(
        &mount,
        OWN_MOUNTS,
        folder.path(),
        "--memory 256M --rounds 1 --threads 1",
    );
    let said = said(&output, 2);
    assert!(said.contains("Read-only file system"), "{said}");
    assert!(
        said.contains(&folder.path().display().to_string()),
        "{said}"
    );
}

#[test]
fn an_output_that_fills_up_ends_the_sweep_and_keeps_whole_records() {
    let folder = tempfile::tempdir().unwrap();
    let mount = format!(
        "mount -t tmpfs -o size=16k none {};",
        folder.path().display()
    );
    if !may("mounting", OWN_MOUNTS, &format!("{mount} true")) {
        return;
    }
    let copy = tempfile::NamedTempFile::new().unwrap();
    // the mount is gone with the child: what it holds is copied before
    let before = format!(
        "{mount} ( {} --out {} --writers zero --memory 256M --rounds 100 --threads 1 >&2 ); \
         status=$?; cat {}/*.jsonl > {}; exit $status; ",
        sweep().display(),
        folder.path().display(),
        folder.path().display(),
        copy.path().display(),
    );
    let output = shell(&before, OWN_MOUNTS, folder.path(), "");
    let said = said(&output, 1);
    assert!(said.contains("No space left on device"), "{said}");
    let records = std::fs::read_to_string(copy.path()).unwrap();
    assert!(records.ends_with('\n'), "the last record is whole");
    assert!(records.lines().count() > 3);
    for line in records.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn a_hidden_sys_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs none /sys;";
    if !may("mounting", OWN_MOUNTS, &format!("{mount} true")) {
        return;
    }
    let output = shell(
        mount,
        OWN_MOUNTS,
        folder.path(),
        "--memory 256M --rounds 1 --threads 1",
    );
    let said = said(&output, 2);
    assert!(said.contains("/sys"), "{said}");
}

/// Does `work` on a thread for which, and for whose children, `mbind` ends with `errno`.
fn without_mbind<T: Send>(errno: i32, work: impl FnOnce() -> T + Send) -> T {
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(
        [(libc::SYS_mbind, vec![])].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        arch,
    )
    .unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    std::thread::scope(|scope| {
        let filtered = scope.spawn(|| {
            seccompiler::apply_filter(&filter).unwrap();
            work()
        });
        filtered.join().unwrap()
    })
}

#[test]
fn a_sandbox_that_refuses_to_place_memory_is_an_error_that_says_what_to_do() {
    let small = "--memory 256M --rounds 1 --threads 1";
    for (errno, advice) in [
        (libc::EPERM, "a sandbox forbids it"),
        (libc::ENOSYS, "no NUMA support, or a sandbox hides it"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let bound = format!("{small} --placement bind");
        let output = without_mbind(errno, || shell("", &[], folder.path(), &bound));
        let said = said(&output, 1);
        assert!(said.contains("mbind"), "{said}");
        assert!(said.contains(advice), "{said}");
        assert!(said.contains("place by first touch"), "{said}");
        // and that can be done there
        let folder = tempfile::tempdir().unwrap();
        let output = without_mbind(errno, || shell("", &[], folder.path(), small));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[test]
fn a_cpu_set_of_one_is_kept_to() {
    let folder = tempfile::tempdir().unwrap();
    let allowed = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = allowed
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap()
        .trim()
        .to_owned();
    let last = list.rsplit([',', '-']).next().unwrap();
    let one = ["taskset", "-c", last];
    if !may("taskset", &one, "true") {
        return;
    }
    let output = shell("", &one, folder.path(), "--memory 256M --rounds 1");
    said(&output, 0);
    // A page that shows the records lies beside them.
    let file = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|file| file.extension().is_some_and(|ending| ending == "jsonl"))
        .unwrap();
    let records = std::fs::read_to_string(file).unwrap();
    for line in records.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        for worker in record["workers"].as_array().unwrap() {
            assert_eq!(worker["cpu"].to_string(), last, "{worker}");
        }
    }
    let output = shell(
        "",
        &one,
        folder.path(),
        "--memory 256M --rounds 1 --threads 2",
    );
    assert!(said(&output, 2).contains("ask for at most 1"));
}
