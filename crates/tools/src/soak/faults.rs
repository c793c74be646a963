//! Faults drawn from a seed.

use fastrand::Rng;
use sys::Call;
use sys::seam::Faults;

/// Which call is to fail, from which time on, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    call: Call,
    nth: u64,
    forever: bool,
    errno: i32,
}

/// `errno` values that calls give where memory, rights, kernels or patience run out:
/// EPERM, EINTR, EAGAIN, ENOMEM, EACCES, EINVAL, ENOSYS.
const ERRNOS: [i32; 7] = [1, 4, 11, 12, 13, 22, 38];

/// Draws a fault, or none.
pub(super) fn draw(rng: &mut Rng) -> Option<Fault> {
    rng.bool().then(|| Fault {
        call: Call::ALL[rng.usize(..Call::ALL.len())],
        nth: rng.u64(1..=12),
        forever: rng.bool(),
        errno: ERRNOS[rng.usize(..ERRNOS.len())],
    })
}

impl Fault {
    pub(super) fn faults(self) -> Faults {
        let Self {
            call, nth, errno, ..
        } = self;
        if self.forever {
            Faults::new().fail_from(call, nth, errno)
        } else {
            Faults::new().fail(call, nth, errno)
        }
    }
}
