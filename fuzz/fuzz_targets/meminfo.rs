//! See `fuzz::readers::meminfo`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::readers::meminfo(data));
