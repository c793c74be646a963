//! See `fuzz::readers::sysfs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::readers::sysfs(data));
