//! Page writers beside the streaming limit and Linux's way in C: `cargo xtask perf`.

use std::process::ExitCode;

use clap::Parser;
use tools::perf::{self, Options};

fn main() -> ExitCode {
    let options = Options::parse();
    match perf::run(&options, &mut |line| eprintln!("{line}")) {
        Ok(report) => {
            if options.json {
                println!("{}", report.json());
            } else {
                print!("{}", report.table());
            }
            if options.check && !report.holds() {
                return ExitCode::FAILURE;
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("perf: {error}");
            ExitCode::from(2)
        }
    }
}
