//! Buffers and structures that a call fills, of exactly as many bytes as it is told.
//!
//! Under the address sanitizer a byte too many ends the program; without it the bytes behind are
//! compared.

use std::ffi::c_char;
use std::ptr::null_mut;

use deferred_init_c::di_status;

use super::bytes::Bytes;
use super::{done, must};

/// What stands in bytes that nobody is to write.
const UNTOUCHED: u8 = 0xa5;
/// Words behind a structure.
const BEHIND: usize = 2;

/// Lets `ask` print into buffers of several lengths, at any address. Whether it had anything to say.
pub(super) fn text(
    bytes: &mut Bytes<'_>,
    ask: impl Fn(*mut c_char, usize, *mut usize) -> di_status,
) -> bool {
    let mut needed = 0;
    if !done(ask(null_mut(), 0, &mut needed)) {
        return false;
    }
    assert!(needed > 0, "a text has its zero");
    let len = match bytes.below(4) {
        0 => needed - 1,
        1 => bytes.below(256) as usize,
        2 => needed,
        _ => needed + bytes.below(64) as usize,
    };
    let before = bytes.below(8) as usize;
    // a slice of exactly as many bytes, so that the one behind is nobody's
    let mut buffer = vec![UNTOUCHED; before + len].into_boxed_slice();
    let mut again = 0;
    let pointer = match buffer.get_mut(before..) {
        Some(rest) if !rest.is_empty() => rest.as_mut_ptr(),
        // of length 0, but not null
        _ => std::ptr::dangling_mut(),
    };
    let status = ask(pointer.cast(), len, &mut again);
    assert_eq!(again, needed, "what is needed changes between two calls");
    if len < needed {
        must(status, di_status::DI_SPACE);
        assert!(buffer.iter().all(|&byte| byte == UNTOUCHED));
    } else {
        must(status, di_status::DI_OK);
        let text = &buffer[before..before + needed];
        assert_eq!(text.iter().position(|&byte| byte == 0), Some(needed - 1));
        assert!(std::str::from_utf8(&text[..needed - 1]).is_ok());
        let rest = buffer[..before].iter().chain(&buffer[before + needed..]);
        assert!(rest.into_iter().all(|&byte| byte == UNTOUCHED));
    }
    // without a buffer and without a place for the length there is nothing to be done
    must(ask(null_mut(), 0, null_mut()), di_status::DI_SPACE);
    true
}

/// A structure's size as some build of a caller may have it: mostly ours.
pub(super) fn size<T>(bytes: &mut Bytes<'_>) -> usize {
    match bytes.below(4) {
        0 => bytes.below(256) as usize,
        1 => 8 * bytes.below(32) as usize,
        _ => size_of::<T>(),
    }
}

/// Whether a structure that begins with its size can have this one.
pub(super) fn is_size(size: usize) -> bool {
    size >= size_of::<usize>() && size.is_multiple_of(size_of::<usize>())
}

/// Lets `ask` fill a structure of `size` bytes; its words where it did. `T` begins with its size.
pub(super) fn structure<T>(
    size: usize,
    ask: impl FnOnce(*mut T) -> di_status,
) -> Option<Box<[u64]>> {
    let filler = u64::from_ne_bytes([UNTOUCHED; 8]);
    // the first word is read before it says that there are no more
    let words = size.div_ceil(8).max(1);
    let mut memory = vec![filler; words + BEHIND].into_boxed_slice();
    memory[0] = size as u64;
    let ok = done(ask(memory.as_mut_ptr().cast()));
    assert_eq!(memory[0], size as u64, "the size is the caller's");
    let filled = match ok {
        true => size.min(size_of::<T>()) / 8,
        false => 1,
    };
    assert!(
        memory[filled..].iter().all(|&word| word == filler),
        "more is written than there is"
    );
    assert!(!ok || is_size(size), "a structure of {size} bytes");
    ok.then_some(memory)
}
