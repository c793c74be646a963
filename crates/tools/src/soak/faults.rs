//! Faults drawn from a seed.

use sys::Call;
use sys::seam::Faults;

use super::dice::Dice;

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
pub(super) fn draw(dice: &mut Dice<'_>) -> Option<Fault> {
    dice.bool().then(|| Fault {
        call: dice.pick(&Call::ALL),
        nth: dice.between(1..=12),
        forever: dice.bool(),
        errno: dice.pick(&ERRNOS),
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
