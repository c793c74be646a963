//! See `machine_fuzz::iomem`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| machine_fuzz::iomem(data));
