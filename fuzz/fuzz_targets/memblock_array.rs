//! See `fuzz::memblock_array`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::memblock_array(data));
