//! See `fuzz::readers::zoneinfo`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::readers::zoneinfo(data));
