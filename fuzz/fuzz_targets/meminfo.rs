//! See `fuzz::meminfo`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::meminfo(data));
