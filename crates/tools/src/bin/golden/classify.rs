//! What a listed run is, by its own words alone.
//!
//! Whether a run is compared is decided here, before our struct page is looked at: a run shows
//! its initialisation if its words are those of a page that was initialised and then reserved, or
//! initialised and then freed, and nothing else. See `docs/golden.md`.

use memmap_core::{PageFlag, Profile, StructPage, StructPageSize};

use crate::pages::{OWN_LIST, WORDS};

/// What the words of a run say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// Initialised and reserved: one reference, links to itself.
    Reserved,
    /// Initialised and freed, inside a free block: no reference, links to itself.
    Free,
    /// The head of a free block, whose links and order depend on what is free around it.
    BlockHead,
    /// Taken, or given back, since.
    InUse,
}

/// The type of a free block's head, in either encoding.
const BUDDY: [u32; 2] = [0xf000_0000, 0xffff_ff7f];

pub(crate) fn classify(profile: &Profile, words: &[u64; WORDS]) -> Words {
    let layout = profile.flags_layout();
    let page = StructPage::new(StructPageSize::B64, profile.byte_order, words);
    // Node, zone, section and last CPU may be anything: they are what is compared.
    let links = [
        layout.section(),
        layout.node(),
        layout.zone(),
        layout.last_cpupid(),
    ];
    let flags = links
        .iter()
        .fold(page.flags(), |flags, field| flags & !field.put(u64::MAX));
    let reserved = layout.numbers().mask(PageFlag::Reserved);
    let rest_is_zero = |at: &[usize]| at.iter().all(|i| words[*i] == 0);

    if BUDDY.contains(&page.mapcount()) && page.refcount() == 0 && flags == 0 {
        return if rest_is_zero(&[3, 4, 7]) {
            Words::BlockHead
        } else {
            Words::InUse
        };
    }
    let self_linked = words[1] == OWN_LIST && words[2] == OWN_LIST;
    if !self_linked || !rest_is_zero(&[3, 4, 5, 7]) || page.mapcount() != u32::MAX {
        return Words::InUse;
    }
    match (flags == reserved, flags == 0, page.refcount()) {
        (true, _, 1) => Words::Reserved,
        (_, true, 0) => Words::Free,
        _ => Words::InUse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memmap_core::KernelVersion;

    const L: u64 = 0x000f_ffff_c000_0000;
    const S: u64 = OWN_LIST;

    fn of(words: [u64; WORDS]) -> Words {
        classify(&Profile::amd64(KernelVersion::V6_12), &words)
    }

    #[test]
    fn only_words_that_initialisation_leaves_are_compared() {
        assert_eq!(
            of([L | 0x2000, S, S, 0, 0, 0, 0x1_ffff_ffff, 0]),
            Words::Reserved
        );
        assert_eq!(of([L, S, S, 0, 0, 0, 0xffff_ffff, 0]), Words::Free);
        assert_eq!(of([L, 1, 2, 0, 0, 10, 0xf000_0000, 0]), Words::BlockHead);
        for used in [
            // allocated, or initialised and left alone: nobody can tell
            [L, S, S, 0, 0, 0, 0x1_ffff_ffff, 0],
            // list poison of a page that headed a smaller block
            [
                L,
                0xdead_0000_0000_0100,
                0xdead_0000_0000_0122,
                0,
                0,
                0,
                0xffff_ffff,
                0,
            ],
            // reserved by a driver later, with private data
            [L | 0x2000, S, S, 0, 0, 1, 0x1_ffff_ffff, 0],
            [L | 0x2001, S, S, 0, 0, 0, 0x1_ffff_ffff, 0],
            [L | 0x2000, S, S, 0, 0, 0, 0x2_ffff_ffff, 0],
            [L, S, S, 0, 0, 0, 0xffff_ffff, 0xffff_8880_0000_0000],
        ] {
            assert_eq!(of(used), Words::InUse, "{used:x?}");
        }
    }

    #[test]
    fn a_wrong_node_or_zone_does_not_save_a_run_from_being_compared() {
        let wrong = [0x2f_ffff_c000_2000, S, S, 0, 0, 0, 0x1_ffff_ffff, 0];
        assert_eq!(of(wrong), Words::Reserved);
        // nor does a last CPU that is not all ones
        assert_eq!(
            of([0xf_0000_0000_0000, S, S, 0, 0, 0, 0xffff_ffff, 0]),
            Words::Free
        );
    }

    #[test]
    fn big_endian_counts_are_found_on_their_side() {
        let s390x = Profile::s390x(KernelVersion::V6_12);
        let reserved = [0x2000, S, S, 0, 0, 0, 0xffff_ffff_0000_0001, 0];
        assert_eq!(classify(&s390x, &reserved), Words::Reserved);
        let free = [0, S, S, 0, 0, 0, 0xffff_ffff_0000_0000, 0];
        assert_eq!(classify(&s390x, &free), Words::Free);
    }
}
