//! Sequences of calls of the C interface, with handles used as its header asks and everything else
//! as bytes decide: the script that the tests of the crate `capi` run too.

#[path = "../../crates/capi/tests/calls/mod.rs"]
mod calls;

/// Makes the calls that `data` stands for.
pub fn any_calls(data: &[u8]) {
    calls::any_calls(data);
}
