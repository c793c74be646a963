//! See `fuzz::c_abi`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::c_abi::any_calls(data));
