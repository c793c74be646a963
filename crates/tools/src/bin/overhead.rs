//! What the engine costs over a plain loop, and what a second worker brings.

use std::process::ExitCode;

use clap::Parser;
use tools::overhead::{Options, run};

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(figures) => {
            print!("{figures}");
            match options.check && !figures.holds() {
                true => ExitCode::FAILURE,
                false => ExitCode::SUCCESS,
            }
        }
        Err(error) => {
            eprintln!("overhead: {error}");
            ExitCode::from(2)
        }
    }
}
