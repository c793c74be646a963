//! A switch that stops a run from outside.

use crate::sync::{Arc, AtomicBool, Ordering};

/// Asks workers to stop at the next section; clones share the switch.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks all runs that have the token to stop.
    pub fn cancel(&self) {
        // Relaxed: nothing else is handed over by it; a worker that sees it late does one section more
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.switch().load(Ordering::Relaxed)
    }

    /// The switch itself, for who looks at it often.
    pub(super) fn switch(&self) -> &AtomicBool {
        &self.0
    }
}
