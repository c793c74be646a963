//! What programs share where they meet their caller: shares in percent, and the end of the output.
//!
//! A reader that has seen enough closes the pipe, and a disk gets full; neither is a bug of the
//! program. So programs write through a writer that reports errors, and end by [`finish`].

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// What a shell reports of a program that was ended by the signal for a closed pipe.
const CLOSED_PIPE: u8 = 128 + 13;

/// A share that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PercentError {
    /// No number.
    #[error("no number; give per cent, such as 99.5")]
    NotANumber,
    /// A number that is no share.
    #[error("a share is 0 to 100 per cent")]
    OutOfRange,
}

/// Reads a share, 0 to 100 per cent.
///
/// # Errors
/// [`PercentError`] where `text` is no number from 0 to 100.
///
/// ```
/// assert_eq!(tools::front::percent("99.5"), Ok(99.5));
/// assert!(tools::front::percent("-1").is_err());
/// ```
pub fn percent(text: &str) -> Result<f64, PercentError> {
    let percent: f64 = text.parse().map_err(|_| PercentError::NotANumber)?;
    if percent.is_nan() {
        return Err(PercentError::NotANumber);
    }
    if (0.0..=100.0).contains(&percent) {
        Ok(percent)
    } else {
        Err(PercentError::OutOfRange)
    }
}

/// Says on standard error what went wrong; where that cannot be said either, nothing more is done.
pub fn complain(program: &str, what: impl std::fmt::Display) {
    // whoever closed standard error does not want to know
    drop(writeln!(io::stderr(), "{program}: {what}"));
}

/// Runs `body` with standard output to write to, and turns its result into an exit status: that
/// of `body`, 141 without a word where the reader went away, 2 where output cannot be written.
pub fn finish(
    program: &str,
    body: impl FnOnce(&mut dyn Write) -> io::Result<ExitCode>,
) -> ExitCode {
    let mut out = io::stdout().lock();
    let result = body(&mut out).and_then(|code| out.flush().map(|()| code));
    match result {
        Ok(code) => code,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::from(CLOSED_PIPE),
        Err(error) => {
            complain(
                program,
                format_args!("output cannot be written: {error}; is there room for it?"),
            );
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_numbers_from_0_to_100() {
        for (text, share) in [("0", 0.0), ("100", 100.0), ("99.95", 99.95)] {
            assert_eq!(percent(text), Ok(share));
        }
        for text in ["-1", "100.1", "inf", "-inf", "1e9"] {
            assert_eq!(percent(text), Err(PercentError::OutOfRange), "{text}");
        }
        for text in ["", "NaN", "ten", "50%"] {
            assert_eq!(percent(text), Err(PercentError::NotANumber), "{text}");
        }
    }
}
