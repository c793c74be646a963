//! Random machines under random faults, one after the other, and what must not change meanwhile.
//!
//! A machine and everything that happens to it is drawn from one number, so that a finding is
//! shown again by that number alone (as far as threads do not decide).

mod census;
mod dice;
mod faults;
mod life;
mod machine;

use std::panic::{AssertUnwindSafe, catch_unwind};

use deferred_init::Topology;

pub use census::Census;
pub use dice::Dice;
pub use life::{Lived, Part, live};

/// What must not be.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Finding {
    what: String,
}

impl Finding {
    fn new(what: String) -> Self {
        Self { what }
    }
}

/// The most bytes of struct pages that a machine of the soak is given.
const MOST_MEMMAP: u64 = 24 << 20;

/// Lives the life of `seed`; a panic in it is a finding like others.
///
/// # Errors
/// [`Finding`].
pub fn round(seed: u64, topology: &Topology) -> Result<Lived, Finding> {
    catch_unwind(AssertUnwindSafe(|| {
        live(&mut Dice::seeded(seed), topology, Part::Whole, MOST_MEMMAP)
    }))
    .unwrap_or_else(|payload| {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied());
        Err(Finding::new(format!(
            "a panic: {}",
            text.unwrap_or("without a message")
        )))
    })
}
