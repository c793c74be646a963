//! The soak, with its machines counted in the log of nights.

use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::launch::{self, Stream};
use crate::log::{Ended, Log, Run};

/// Builds the program, runs it with `args`, and adds what it did to the log.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let line = ["build", "--release", "--package", "tools", "--bin", "soak"].map(String::from);
    let built = launch::cargo(&line);
    if built != ExitCode::SUCCESS {
        return built;
    }
    let program = launch::root().join("target/release/soak");
    let begin = Instant::now();
    let mut machines = 0;
    let status = launch::watch(Command::new(&program).args(args), Stream::Output, |line| {
        if let Some(count) = self::machines(line) {
            machines = count;
        }
    });
    let code = match status {
        Ok(status) => status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(1),
        Err(error) => {
            eprintln!("xtask soak: {}: {error}", program.display());
            2
        }
    };
    // 2: it was asked for something that it does not do, and did nothing
    let asked_for_help = machines == 0 && code == 0;
    if code == 2 || asked_for_help {
        return ExitCode::from(code);
    }
    let log = Log::of_workspace();
    let logged = log.add(&Run {
        name: "soak/machines",
        took: begin.elapsed(),
        ended: if code == 0 { Ended::Ok } else { Ended::Failed },
        counts: &[("machines", machines), ("findings", u64::from(code != 0))],
    });
    let totals = log.totals().only(|name| name.starts_with("soak/"));
    println!("totals of {}:\n{totals}", log.path().display());
    match logged {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::from(2),
    }
}

/// How many machines there were, of the line that says so.
fn machines(line: &str) -> Option<u64> {
    line.split_once(" machines: ")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn machines_are_counted_by_the_line_that_says_so() {
        let line = "431 machines: 2 struct pages checked, 1 runs interrupted";
        assert_eq!(super::machines(line), Some(431));
        assert_eq!(super::machines("seeds from 7"), None);
    }
}
