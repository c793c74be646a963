//! A browser without a screen.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A browser of this host.
pub(crate) struct Chromium {
    program: PathBuf,
    folder: tempfile::TempDir,
}

/// What came of a page.
pub(crate) struct Opened {
    /// The document after its script has run.
    pub(crate) dom: String,
    /// What was written to the console, a line each: errors of scripts, and whatever was refused to
    /// be loaded.
    pub(crate) console: Vec<String>,
}

impl Chromium {
    /// The first that is found, or nothing.
    pub(crate) fn find() -> Option<Self> {
        let names = [
            "chromium",
            "chromium-browser",
            "google-chrome",
            "google-chrome-stable",
        ];
        let path = std::env::var_os("PATH")?;
        let program = names
            .iter()
            .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
            .find(|file| file.is_file())?;
        Some(Self {
            program,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args([
                "--headless=new",
                "--disable-gpu",
                "--no-first-run",
                "--mute-audio",
            ])
            .args([
                "--disable-extensions",
                "--disable-background-networking",
                "--disable-sync",
            ])
            // of containers: little shared memory
            .arg("--disable-dev-shm-usage")
            .arg(format!("--user-data-dir={}", self.folder.path().display()))
            .env("HOME", self.folder.path())
            .stdin(Stdio::null());
        let root = std::fs::metadata("/proc/self")
            .is_ok_and(|data| std::os::unix::fs::MetadataExt::uid(&data) == 0);
        if root {
            // it refuses to run as root otherwise
            command.arg("--no-sandbox");
        }
        command
    }

    /// Opens a page and waits for its script.
    pub(crate) fn open(&self, page: &Path) -> Opened {
        let output = self
            .command()
            .args([
                "--enable-logging=stderr",
                "--log-level=0",
                "--virtual-time-budget=5000",
            ])
            .arg("--dump-dom")
            .arg(url(page))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", output.status);
        Opened {
            dom: String::from_utf8(output.stdout).unwrap(),
            console: said
                .lines()
                .filter(|line| line.contains("CONSOLE"))
                .map(str::to_owned)
                .collect(),
        }
    }
}

fn url(page: &Path) -> String {
    format!("file://{}", page.display())
}
