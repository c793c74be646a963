//! The kernel that is modelled, and its flags words.

use std::ffi::c_char;

use memmap_core::{Field, KernelVersion, Profile};

use crate::layout::di_layout;
use crate::pointer::{copy_text, fill, put, shared, text};
use crate::status::{Failure, di_status, guard};

/// A kernel as data: release, architecture, sizes.
#[derive(Debug)]
pub struct di_profile {
    pub(crate) profile: Profile,
    fields: Fields,
}

/// Where what is in a flags word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub(crate) section: Field,
    pub(crate) node: Field,
    pub(crate) zone: Field,
    pub(crate) last_cpupid: Field,
    pub(crate) kasan_tag: Field,
    /// Bits that are flags.
    pub(crate) flags: u64,
}

/// A flags word taken apart; what a kernel does not keep there is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct di_flags {
    /// Bytes of this structure; set it before the call.
    pub size: usize,
    /// The section's number.
    pub section: u64,
    /// The node.
    pub node: u64,
    /// The zone's number.
    pub zone: u64,
    /// CPU and process that touched the page last.
    pub last_cpupid: u64,
    /// The memory tag.
    pub kasan_tag: u64,
    /// The page flags, each at its bit.
    pub flags: u64,
}

impl Fields {
    pub(crate) fn of(profile: &Profile) -> Self {
        let layout = profile.flags_layout();
        Self {
            section: layout.section(),
            node: layout.node(),
            zone: layout.zone(),
            last_cpupid: layout.last_cpupid(),
            kasan_tag: layout.kasan_tag(),
            flags: (1 << layout.numbers().count()) - 1,
        }
    }

    #[inline]
    fn decode(&self, word: u64) -> di_flags {
        di_flags {
            size: size_of::<di_flags>(),
            section: self.section.get(word),
            node: self.node.get(word),
            zone: self.zone.get(word),
            last_cpupid: self.last_cpupid.get(word),
            kasan_tag: self.kasan_tag.get(word),
            flags: word & self.flags,
        }
    }
}

fn preset(name: &str, version: KernelVersion) -> Option<Profile> {
    Some(match name {
        "amd64" => Profile::amd64(version),
        "amd64-small" => Profile::amd64_small(version),
        "arm64-4k" => Profile::arm64_4k(version),
        "arm64-16k" => Profile::arm64_16k(version),
        "arm64-64k" => Profile::arm64_64k(version),
        "riscv64" => Profile::riscv64(version),
        "ppc64-4k" => Profile::ppc64_4k(version),
        "ppc64-64k" => Profile::ppc64_64k(version),
        "s390x" => Profile::s390x(version),
        _ => return None,
    })
}

impl di_profile {
    fn give(profile: Profile, out: *mut *mut Self) -> Result<(), Failure> {
        let fields = Fields::of(&profile);
        let new = Box::into_raw(Box::new(Self { profile, fields }));
        // SAFETY: the word of whoever called the function that calls this.
        unsafe { put(out, new, "profile") }.inspect_err(|_| {
            // SAFETY: nobody has it.
            drop(unsafe { Box::from_raw(new) });
        })
    }
}

/// The kernel of an architecture (`amd64`, `amd64-small`, `arm64-4k`, `arm64-16k`, `arm64-64k`,
/// `riscv64`, `ppc64-4k`, `ppc64-64k`, `s390x`) and a release (`6.1`, `6.12`, `6.18`, `7.3`).
/// Free it by `di_profile_free`.
///
/// # Safety
/// `name` and `release` are null or texts, `profile` null or valid for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_profile_preset(
    name: *const c_char,
    release: *const c_char,
    profile: *mut *mut di_profile,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let (name, release) = unsafe { (text(name, "name")?, text(release, "release")?) };
        let version: KernelVersion = release
            .parse()
            .map_err(Failure::of(di_status::DI_ARGUMENT))?;
        let unknown = || Failure::new(di_status::DI_NOT_FOUND, format!("no profile is {name}"));
        di_profile::give(preset(name, version).ok_or_else(unknown)?, profile)
    })
}

/// The kernel that a layout tells of: what a boot without a profile uses. Free it by
/// `di_profile_free`.
///
/// # Safety
/// `layout` is null or from this library, `profile` null or valid for a write. Threads: any, while
/// nobody changes the layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_profile_of_layout(
    layout: *const di_layout,
    profile: *mut *mut di_profile,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let layout = unsafe { shared(layout, "layout") }?;
        di_profile::give(layout.finished()?.profile(), profile)
    })
}

/// Bytes of a page, of a struct page, and pages of a section. Each pointer may be null.
///
/// # Safety
/// `profile` is null or from this library, the others null or valid for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_profile_sizes(
    profile: *const di_profile,
    page: *mut u64,
    struct_page: *mut u64,
    section: *mut u64,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let profile = &unsafe { shared(profile, "profile") }?.profile;
        for (out, value) in [
            (page, profile.page_size()),
            (struct_page, u64::from(profile.struct_page_bytes)),
            (section, profile.pages_per_section()),
        ] {
            if !out.is_null() {
                // SAFETY: it is not null, so it is valid.
                unsafe { out.write(value) };
            }
        }
        Ok(())
    })
}

/// Takes a flags word apart. Set `flags->size` first. Where many words are taken apart,
/// `di_view_flags` of the header does the same inline.
///
/// # Safety
/// `profile` is null or from this library, `flags` null or a structure. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_flags_decode(
    profile: *const di_profile,
    word: u64,
    flags: *mut di_flags,
) -> di_status {
    // nothing in here can panic, so what it costs is the arithmetic
    // SAFETY: the caller's word.
    if let Some(profile) = unsafe { profile.as_ref() }
        && !flags.is_null()
        // SAFETY: it is not null, so its first word is there; the rest is only as long as that says.
        && unsafe { flags.cast::<usize>().read() } == size_of::<di_flags>()
    {
        // SAFETY: all of it is there.
        unsafe { flags.write(profile.fields.decode(word)) };
        return di_status::DI_OK;
    }
    guard(|| {
        // SAFETY: the caller's word.
        let profile = unsafe { shared(profile, "profile") }?;
        // SAFETY: the caller's word.
        unsafe { fill(flags, profile.fields.decode(word), "flags") }
    })
}

/// A flags word in words, as `node=1 zone=Normal reserved`. `needed`, unless null, gets the bytes
/// that the text takes with its zero; with a null buffer nothing else happens.
///
/// # Safety
/// `profile` is null or from this library, `buffer` null or valid for `len` bytes, `needed` null or
/// valid for a write. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_flags_text(
    profile: *const di_profile,
    word: u64,
    buffer: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> di_status {
    guard(|| {
        // SAFETY: the caller's word.
        let profile = &unsafe { shared(profile, "profile") }?.profile;
        let text = profile.flags_layout().decode(word).to_string();
        // SAFETY: the caller's word.
        unsafe { copy_text(&text, buffer, len, needed) }
    })
}

/// Frees a profile; nothing happens for null. Machines that were booted with it are none the worse.
///
/// # Safety
/// `profile` is null or from this library, and is not used again. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn di_profile_free(profile: *mut di_profile) {
    if !profile.is_null() {
        // SAFETY: it is one of ours, and the caller's last.
        drop(unsafe { Box::from_raw(profile) });
    }
}
