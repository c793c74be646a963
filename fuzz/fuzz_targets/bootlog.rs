//! See `fuzz::readers::bootlog`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::readers::bootlog(data));
