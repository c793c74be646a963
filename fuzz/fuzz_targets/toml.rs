//! See `fuzz::readers::toml`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::readers::toml(data));
