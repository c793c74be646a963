//! See `machine_fuzz::together`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| machine_fuzz::together(data));
