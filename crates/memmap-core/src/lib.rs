//! Linux memory maps in user space.

#![cfg_attr(not(any(feature = "std", test)), no_std)]

mod image;
pub mod writers;

pub use image::{MAX_WORDS, PageImage, StructPageSize};
