//! See `machine_fuzz::memblock_array`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| machine_fuzz::memblock_array(data));
