//! Pointers from C: null is refused here, and everything else is the caller's word.

use std::ffi::{CStr, c_char};

use crate::status::{Failure, di_status};

fn null(what: &str) -> Failure {
    Failure::new(di_status::DI_NULL, format!("{what} is null"))
}

/// What `pointer` points to.
///
/// # Safety
/// Null, or valid for reads for as long as the result is used.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's word.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// What `pointer` points to, alone.
///
/// # Safety
/// Null, or valid for reads and writes, and used by nobody else meanwhile.
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's word.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(what))
}

/// A text that ends with a zero byte.
///
/// # Safety
/// Null, or such a text.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: it is not null, so it is such a text.
    let bytes = unsafe { CStr::from_ptr(pointer) };
    let refuse = || Failure::new(di_status::DI_ARGUMENT, format!("{what} is not UTF-8"));
    bytes.to_str().map_err(|_| refuse())
}

/// Puts `value` where `out` points.
///
/// # Safety
/// Null, or valid for a write.
pub(crate) unsafe fn put<T>(out: *mut T, value: T, what: &str) -> Result<(), Failure> {
    if out.is_null() {
        return Err(null(what));
    }
    // SAFETY: it is not null, so it is valid for a write.
    unsafe { out.write(value) };
    Ok(())
}

/// A structure that begins with its own size and may grow: what the caller's build has of it, with
/// the rest as in `default`.
///
/// # Safety
/// Null, or valid for reads of as many bytes as its first word says. `T` is plain data, of which
/// any bytes are a value, and begins with a `usize`.
pub(crate) unsafe fn sized<T: Copy>(pointer: *const T, default: T) -> Result<T, Failure> {
    if pointer.is_null() {
        return Ok(default);
    }
    // SAFETY: it is not null, so its first word is there.
    let size = unsafe { pointer.cast::<usize>().read() };
    check_size(size)?;
    let mut value = default;
    let bytes = size.min(size_of::<T>());
    // SAFETY: so many bytes are there on both sides, which do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(
            pointer.cast::<u8>(),
            std::ptr::from_mut(&mut value).cast::<u8>(),
            bytes,
        );
    }
    Ok(value)
}

/// Fills a structure of the caller's that begins with its own size, as far as the caller's build
/// has it.
///
/// # Safety
/// Null, or valid for writes of as many bytes as its first word says. `T` is plain data and begins
/// with a `usize`.
pub(crate) unsafe fn fill<T: Copy>(out: *mut T, value: T, what: &str) -> Result<(), Failure> {
    if out.is_null() {
        return Err(null(what));
    }
    // SAFETY: it is not null, so its first word is there.
    let size = unsafe { out.cast::<usize>().read() };
    check_size(size)?;
    let word = size_of::<usize>();
    let bytes = size.min(size_of::<T>());
    // SAFETY: so many bytes are there on both sides, which do not overlap; the size stays.
    unsafe {
        std::ptr::copy_nonoverlapping(
            std::ptr::from_ref(&value).cast::<u8>().add(word),
            out.cast::<u8>().add(word),
            bytes - word,
        );
    }
    Ok(())
}

/// Structures are whole words in every build: another size was never set, and would cut a pointer.
fn check_size(size: usize) -> Result<(), Failure> {
    let word = size_of::<usize>();
    if size < word || !size.is_multiple_of(word) {
        let message = format!(
            "the member `size` is {size}, which no structure has; set it to the size of the \
             structure first"
        );
        return Err(Failure::new(di_status::DI_ARGUMENT, message));
    }
    Ok(())
}

/// Copies `text` and a zero byte to a buffer, and says how many bytes that takes.
///
/// # Safety
/// `buffer` is null or valid for `len` bytes, `needed` null or valid for a write.
pub(crate) unsafe fn copy_text(
    text: &str,
    buffer: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> Result<(), Failure> {
    let bytes = text.len() + 1;
    if !needed.is_null() {
        // SAFETY: not null, so valid.
        unsafe { needed.write(bytes) };
    }
    if buffer.is_null() && !needed.is_null() {
        return Ok(());
    }
    if buffer.is_null() || len < bytes {
        let message = format!("{bytes} bytes are needed, the buffer has {len}");
        return Err(Failure::new(di_status::DI_SPACE, message));
    }
    // SAFETY: the buffer is as large as that, and ours is another one.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, text.len()) };
    // SAFETY: as above.
    unsafe { buffer.add(text.len()).write(0) };
    Ok(())
}
