//! See `fuzz::lines`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::lines(data));
