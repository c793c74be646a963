//! Instructions per page of every writer, counted by callgrind and compared with checked-in values.
//!
//! A count does not depend on what else the machine does, so it shows a change of the generated
//! code that a time would hide. The program runs itself under valgrind with n and with 2n pages
//! and takes the difference, which leaves start-up and set-up out. Values are kept by compiler
//! version: another compiler has other counts, and gets lines to add.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use clap::Parser;
use memmap_core::{PageImage, StructPageSize, writers};

/// Pages of the shorter run; a multiple of every block that a writer handles at once.
const PAGES: usize = 4096;
/// How far a count may be from the checked-in one.
const TOLERANCE: f64 = 0.02;
const CHECKED_IN: &str = include_str!("../../instructions.txt");

#[derive(Debug, Parser)]
#[command(about = "Instructions per page of every writer, counted by valgrind's callgrind")]
struct Options {
    /// What is counted: writes pages and ends.
    #[arg(long, num_args = 3, value_names = ["WRITER", "SIZE", "PAGES"], hide = true)]
    write: Option<Vec<String>>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(job) = options.write {
        return write(&job);
    }
    match compare() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::from(2)
        }
    }
}

/// The counted program.
fn write(job: &[String]) -> ExitCode {
    let [writer, size, pages] = job else {
        return ExitCode::from(2);
    };
    let size = size.parse().ok().and_then(StructPageSize::from_bytes);
    let (Some(writer), Some(size), Ok(pages)) =
        (writers::by_name(writer), size, pages.parse::<usize>())
    else {
        return ExitCode::from(2);
    };
    let image = PageImage::linked(size, 0x17, 0xffff_ea00_0000_0000, !0, 0);
    // The same memory for both lengths, so that it costs the same in both runs.
    let mut memory = vec![1_u64; 2 * PAGES * size.words()];
    writer.write(&image, &mut memory[..pages * size.words()]);
    ExitCode::SUCCESS
}

/// Counts every writer, prints what is found, and says whether all of it is as checked in.
fn compare() -> Result<bool, String> {
    let compiler = compiler()?;
    let expected = checked_in(&compiler);
    if expected.is_empty() {
        println!(
            "no counts are checked in for {compiler}; add these to crates/tools/instructions.txt:"
        );
        println!("\n[{compiler}]");
    }
    let mut good = true;
    // `memset` is left out: what it calls is the C library's.
    let counted = [writers::by_name("zero")].into_iter().flatten();
    for writer in counted.chain(writers::forced().iter().copied()) {
        for size in StructPageSize::ALL {
            let key = format!("{} {}", writer.name(), size.bytes());
            let found = per_page(writer.name(), size)?;
            match expected.get(key.as_str()) {
                None => println!("{key} {found:.3}"),
                Some(&value) => {
                    let near = (found / value - 1.0).abs() <= TOLERANCE;
                    good &= near;
                    let verdict = if near { "as checked in" } else { "CHANGED" };
                    println!("{key:22} {found:7.3} instructions a page, {verdict} ({value:.3})");
                }
            }
        }
    }
    Ok(good)
}

/// The compiler's version as it says itself, without what differs between builds of it.
fn compiler() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc).arg("--version").output();
    let output =
        output.map_err(|error| format!("{} could not be started: {error}", rustc.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    Ok(words.join(" "))
}

/// The values below the heading of one compiler.
fn checked_in(compiler: &str) -> BTreeMap<&'static str, f64> {
    let heading = format!("[{compiler}]");
    CHECKED_IN
        .lines()
        .skip_while(|line| *line != heading)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| {
            let (key, value) = line.rsplit_once(' ')?;
            Some((key, value.parse().ok()?))
        })
        .collect()
}

fn per_page(writer: &str, size: StructPageSize) -> Result<f64, String> {
    let short = count(writer, size, PAGES)?;
    let long = count(writer, size, 2 * PAGES)?;
    Ok((long - short) / PAGES as f64)
}

/// Instructions of this program writing `pages` pages.
fn count(writer: &str, size: StructPageSize, pages: usize) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([
            "--write",
            writer,
            &size.bytes().to_string(),
            &pages.to_string(),
        ])
        .output()
        .map_err(|error| format!("valgrind could not be started: {error}; install valgrind"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    match collected.and_then(|(_, number)| number.trim().parse().ok()) {
        Some(number) if output.status.success() => Ok(number),
        _ => Err(format!("valgrind gave no count for {writer}:\n{text}")),
    }
}
