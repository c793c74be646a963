//! Ours: the token of a claim was made before it was known whether the claim was won. When it
//! was not, the token's drop made the winner's section pending, and two threads wrote it.

use memmap_core::{BackingKind, BackingOptions, KernelVersion, MemoryMap, SectionNr, SectionState};

use crate::support::Layout;

#[test]
fn a_claim_that_is_not_won_changes_nothing() {
    let geometry = Layout::of(&[(0, 0, 0x8000)]).amd64(KernelVersion::V6_12);
    let mut options = BackingOptions::default();
    options.kind = BackingKind::Heap;
    let map = MemoryMap::new(geometry, options).expect("it fits");
    let winner = map.claim(SectionNr(0)).expect("it is pending");
    for _ in 0..3 {
        assert!(map.claim(SectionNr(0)).is_none());
        assert_eq!(map.section_state(SectionNr(0)), SectionState::Claimed);
    }
    winner.publish();
    assert!(map.claim(SectionNr(0)).is_none());
    assert_eq!(map.section_state(SectionNr(0)), SectionState::Ready);
}
