//! See `machine_fuzz::zoneinfo`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| machine_fuzz::zoneinfo(data));
