//! See `machine_fuzz::lines`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| machine_fuzz::lines(data));
