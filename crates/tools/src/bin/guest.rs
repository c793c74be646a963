//! A machine with several nodes, emulated, and what must hold in it: `cargo xtask guest`.
//!
//! The same program is what runs inside, as the machine's first and only one.

use std::process::ExitCode;

use clap::Parser;
use tools::guest::{self, Options, Outcome};

fn main() -> ExitCode {
    if std::process::id() == 1 {
        guest::inside();
    }
    match guest::run(&Options::parse(), &mut |line| println!("{line}")) {
        Ok(Outcome::Passed { checks, seconds }) => {
            println!("guest: {checks} checks hold, {seconds:.1} s");
            ExitCode::SUCCESS
        }
        Ok(Outcome::Skipped { why }) => {
            println!("guest: skipped: {why}");
            ExitCode::SUCCESS
        }
        Ok(Outcome::Failed { failed, checks }) => {
            eprintln!("guest: {failed} of {checks} checks do not hold");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("guest: {error}");
            ExitCode::from(2)
        }
    }
}
