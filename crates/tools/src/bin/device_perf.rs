//! Struct pages of devices: our ways beside the streaming limit and Linux's ways in C.

use std::process::ExitCode;

use clap::Parser;
use tools::device_perf::{self, Options};

fn main() -> ExitCode {
    let options = Options::parse();
    match device_perf::run(&options, &mut |line| eprintln!("{line}")) {
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
            eprintln!("device_perf: {error}");
            ExitCode::from(2)
        }
    }
}
