//! See `fuzz::scripts::boot`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::scripts::boot(data));
