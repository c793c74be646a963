//! See `fuzz::readers::lines`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::readers::lines(data));
