//! See `fuzz::readers::memblock_array`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::readers::memblock_array(data));
