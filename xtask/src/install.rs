//! The C library, installed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::launch;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Builds the C library in release and copies it below `--prefix`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let prefix = match args {
        [flag, prefix] if flag == "--prefix" => prefix.clone(),
        [word] => match word.strip_prefix("--prefix=") {
            Some(prefix) => prefix.into(),
            None => return usage(),
        },
        _ => return usage(),
    };
    let build = ["build", "--release", "--package", "capi"].map(String::from);
    let built = launch::cargo(&build);
    if built != ExitCode::SUCCESS {
        return built;
    }
    match install(Path::new(&prefix)) {
        Ok(files) => {
            for file in files {
                println!("{}", file.display());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("xtask install: {error}");
            ExitCode::from(2)
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: cargo xtask install --prefix DIR");
    ExitCode::from(2)
}

fn install(prefix: &Path) -> io::Result<Vec<PathBuf>> {
    let (lib, include) = (prefix.join("lib"), prefix.join("include"));
    let config = lib.join("pkgconfig");
    for folder in [&lib, &include, &config] {
        fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
    }
    // the file says where it is, whatever folder the command was started in
    let prefix = fs::canonicalize(prefix)?;
    let built = target().join("release");
    let capi = launch::root().join("crates/capi");
    let mut files = Vec::new();
    let mut copy = |from: PathBuf, to: PathBuf| -> io::Result<()> {
        fs::copy(&from, &to).map_err(|error| named(&from, &error))?;
        files.push(to);
        Ok(())
    };
    let shared = format!("libdeferred_init.so.{VERSION}");
    copy(built.join("libdeferred_init_c.so"), lib.join(&shared))?;
    copy(
        built.join("libdeferred_init_c.a"),
        lib.join("libdeferred_init.a"),
    )?;
    copy(
        capi.join("include/deferred_init.h"),
        include.join("deferred_init.h"),
    )?;
    for name in ["libdeferred_init.so.0", "libdeferred_init.so"] {
        let link = lib.join(name);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(named(&link, &error));
            }
            _ => std::os::unix::fs::symlink(&shared, &link)?,
        }
        files.push(link);
    }
    let text = fs::read_to_string(capi.join("deferred_init.pc.in"))?
        .replace("@PREFIX@", &prefix.display().to_string())
        .replace("@VERSION@", VERSION);
    let file = config.join("deferred_init.pc");
    fs::write(&file, text).map_err(|error| named(&file, &error))?;
    files.push(file);
    Ok(files)
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| launch::root().join("target"), PathBuf::from)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
