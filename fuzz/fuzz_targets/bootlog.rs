//! See `machine_fuzz::bootlog`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| machine_fuzz::bootlog(data));
