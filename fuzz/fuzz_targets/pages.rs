//! See `fuzz::scripts::pages`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::scripts::pages(data));
