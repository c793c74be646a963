//! See `machine_fuzz::toml`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| machine_fuzz::toml(data));
