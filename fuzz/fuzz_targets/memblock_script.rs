//! See `fuzz::scripts::memblock_script`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::scripts::memblock_script(data));
