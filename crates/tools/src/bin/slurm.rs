//! A study on a Slurm cluster of this host's own: `cargo xtask slurm`.

use std::process::ExitCode;

use clap::Parser;
use tools::front;
use tools::slurm::{self, Options, Outcome};

fn main() -> ExitCode {
    let options = Options::parse();
    front::finish("slurm", |out| {
        let mut said = Ok(());
        let outcome = slurm::run(&options, &mut |line| {
            if said.is_ok() {
                said = writeln!(out, "{line}");
            }
        });
        said?;
        match outcome {
            Ok(Outcome::Passed { checks, records }) => {
                writeln!(out, "slurm: {checks} checks hold, {records} records joined")?;
                Ok(ExitCode::SUCCESS)
            }
            Ok(Outcome::Skipped { why }) => {
                writeln!(out, "slurm: skipped: {why}")?;
                Ok(ExitCode::SUCCESS)
            }
            Ok(Outcome::Failed { failed }) => {
                for line in failed {
                    front::complain("slurm", line);
                }
                Ok(ExitCode::FAILURE)
            }
            Err(error) => {
                front::complain("slurm", error);
                Ok(ExitCode::from(2))
            }
        }
    })
}
