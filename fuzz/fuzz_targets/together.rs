//! See `fuzz::readers::together`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::readers::together(data));
