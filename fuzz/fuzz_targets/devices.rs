//! See `fuzz::scripts::devices`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::scripts::devices(data));
