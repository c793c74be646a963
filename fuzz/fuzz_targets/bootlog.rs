//! See `fuzz::bootlog`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::bootlog(data));
