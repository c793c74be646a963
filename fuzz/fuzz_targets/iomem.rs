//! See `fuzz::readers::iomem`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::readers::iomem(data));
