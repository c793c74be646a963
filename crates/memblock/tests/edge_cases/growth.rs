//! Arrays that end, and grow.

use crate::ALL;
use crate::common::{f, n, r, regions};
use memblock::{Behaviour, Growth, Memblock, MemblockError, Which};

/// E-39: wherever the 129th reservation goes, and although the only other free memory is the one
/// that is being reserved.
#[test]
fn the_grown_array_never_lies_under_the_reservation_that_made_it_grow() {
    for behaviour in ALL {
        for gap in 0..=128u64 {
            let mut m = Memblock::with_growth(behaviour, Growth::KERNEL);
            m.allow_resize();
            m.add(r(0x10_0000, 0x20_0000)).unwrap();
            let place = |index: u64| r(0x10_0000 + index * 0x1000, 0x10_0000 + index * 0x1000 + 8);
            for index in (0..=128).filter(|&index| index != gap) {
                m.reserve(place(index)).unwrap();
            }
            assert_eq!(
                (m.reserved().len(), m.capacity(Which::Reserved)),
                (128, Some(128))
            );
            m.reserve(place(gap)).unwrap();
            assert_eq!(
                (m.reserved().len(), m.capacity(Which::Reserved)),
                (130, Some(256))
            );
            let array = m.array_place(Which::Reserved).unwrap();
            assert_eq!((array.start().get() % 4096, array.len()), (0, 8192));
            assert!(!array.overlaps(place(gap)));
            assert!(m.reserved().contains_range(array));
        }
        // two pages are free above and two below; the upper ones are being reserved
        let mut m = Memblock::with_growth(behaviour, Growth::KERNEL);
        m.allow_resize();
        m.add(r(0x10_0000, 0x10_4000)).unwrap();
        for index in 0..128 {
            m.reserve(r(0x20_0000 + index * 16, 0x20_0008 + index * 16))
                .unwrap();
        }
        m.reserve(r(0x10_2000, 0x10_4000)).unwrap();
        assert_eq!(
            m.array_place(Which::Reserved),
            Some(r(0x10_0000, 0x10_2000))
        );
    }
}

#[test]
fn a_full_array_that_may_not_grow_refuses_and_nothing_changes() {
    for behaviour in ALL {
        let mut m = Memblock::with_growth(behaviour, Growth::KERNEL);
        for index in 0..128 {
            m.add(r(index * 0x2000, index * 0x2000 + 0x1000)).unwrap();
        }
        let before = m.clone();
        let full = MemblockError::ArrayFull {
            which: Which::Memory,
            capacity: 128,
            kernel_panics: behaviour != Behaviour::V6_1,
        };
        assert_eq!(m.add(r(0x100_0000, 0x100_1000)), Err(full));
        // a removal asks for room for two cuts, whether it will need them or not
        assert_eq!(m.remove(r(0, 0x1000)), Err(full));
        assert_eq!(m, before);
        m.allow_resize();
        m.reserve(r(0, u64::MAX)).unwrap();
        assert!(matches!(
            m.add(r(0x100_0000, 0x100_1000)),
            Err(MemblockError::NoRoomForArray {
                which: Which::Memory,
                capacity: 128,
                wanted: 256
            })
        ));
    }
}

#[test]
fn an_array_that_grows_twice_gives_its_first_place_back() {
    let mut m = Memblock::with_growth(
        Behaviour::V6_18,
        Growth::Kernel {
            memory: 8,
            reserved: 128,
            physmem: 4,
        },
    );
    m.allow_resize();
    m.add(r(0, 0x8_0000)).unwrap();
    for index in 0..600 {
        m.add(r(0x10_0000 + index * 0x4000, 0x10_2000 + index * 0x4000))
            .unwrap();
    }
    assert_eq!(m.capacity(Which::Memory), Some(1024));
    let array = m.array_place(Which::Memory).unwrap();
    assert_eq!(array.len(), 1024 * 24);
    assert_eq!(
        regions(m.reserved()),
        [(array.start().get(), array.end().get(), None, 0x20)]
    );
}

/// Linux frees the old place of an array before it reserves the new one; if that freeing makes
/// the other array grow, it may take the very place. Found by a property test; followed here,
/// since a model that is kinder than its kernel hides what would happen to it.
#[test]
fn an_array_may_land_on_one_that_is_just_moving() {
    let mut m = Memblock::with_growth(
        Behaviour::V7_3,
        Growth::Kernel {
            memory: 2,
            reserved: 3,
            physmem: 4,
        },
    );
    m.allow_resize();
    m.add(r(0x10_0000, 0x20_0000)).unwrap();
    m.add(r(0x30_0000, 0x30_1000)).unwrap();
    m.add(r(0x40_0000, 0x40_1000)).unwrap();
    let first = m.array_place(Which::Memory).unwrap();
    m.reserve(r(0x1000, 0x2000)).unwrap();
    m.add(r(0x50_0000, 0x50_1000)).unwrap();
    m.add(r(0x60_0000, 0x60_1000)).unwrap();
    let moved = m.array_place(Which::Memory).unwrap();
    assert_ne!(first, moved);
    let other = m.array_place(Which::Reserved).unwrap();
    assert!(other.overlaps(moved));
}

#[test]
fn arrays_grow_in_slab_memory_once_that_is_there() {
    let mut m = Memblock::with_growth(Behaviour::V7_3, Growth::KERNEL);
    m.allow_resize();
    m.settings_mut().slab_available = true;
    for index in 0..200 {
        m.reserve(r(index * 32, index * 32 + 16)).unwrap();
    }
    assert_eq!(m.capacity(Which::Reserved), Some(256));
    assert_eq!(m.reserved().len(), 200);
    assert_eq!(m.array_place(Which::Reserved), None);
}

/// E-40
#[test]
fn handing_over_goes_on_until_the_array_of_reservations_grows_no_more() {
    for behaviour in [Behaviour::V6_12, Behaviour::V6_18, Behaviour::V7_3] {
        let mut m = Memblock::with_growth(behaviour, Growth::KERNEL);
        m.allow_resize();
        m.add_node(r(0x10_0000, 0x20_0000), n(0), f(0)).unwrap();
        m.add_node(r(0x20_0000, 0x30_0000), n(1), f(0)).unwrap();
        for index in 0..125 {
            m.reserve(r(0x11_0000 + index * 16, 0x11_0008 + index * 16))
                .unwrap();
        }
        m.reserve(r(0x1f_f000, 0x20_1000)).unwrap();
        let runs = m.hand_over(12).unwrap();
        assert_eq!(m.capacity(Which::Reserved), Some(256));
        assert!(m.reserved().iter().all(|region| region.node().is_some()));
        assert!(runs.iter().all(|run| run.node.is_some()));
    }
}
