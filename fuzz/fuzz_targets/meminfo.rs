//! See `machine_fuzz::meminfo`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| machine_fuzz::meminfo(data));
