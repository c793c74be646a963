//! See `machine_fuzz::sysfs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| machine_fuzz::sysfs(data));
