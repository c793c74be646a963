//! Random sequences of all operations beside an allocator that keeps every byte.
//!
//! A failure shrinks, and prints a test that can be pasted under `tests/regressions/`.

mod common;

use common::{BYTES, KERNELS, Op, Oracle, PAGE_SHIFT, Script, r, same};
use memblock::{Behaviour, Memblock, Pfn, PhysAddr, PhysRange, Which};
use proptest::prelude::*;

fn range() -> impl Strategy<Value = (u64, u64)> {
    (0..BYTES, 0..48u64).prop_map(|(start, len)| (start, (start + len).min(BYTES)))
}

fn memory_flag() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), Just(2), Just(4), Just(8), Just(0x40)]
}

fn reserved_flag() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(0x10), Just(0x20)]
}

fn op() -> impl Strategy<Value = Op> {
    let node = 0..3u16;
    prop_oneof![
        3 => range().prop_map(|(a, b)| Op::Add(a, b)),
        3 => (range(), node.clone(), memory_flag())
            .prop_map(|((a, b), node, flags)| Op::AddNode(a, b, node, flags)),
        2 => range().prop_map(|(a, b)| Op::Remove(a, b)),
        3 => range().prop_map(|(a, b)| Op::Reserve(a, b)),
        2 => (range(), node.clone(), reserved_flag())
            .prop_map(|((a, b), node, flags)| Op::ReserveWith(a, b, node, flags)),
        2 => range().prop_map(|(a, b)| Op::ReserveKern(a, b)),
        2 => range().prop_map(|(a, b)| Op::Free(a, b)),
        2 => (range(), any::<bool>(), node.clone()).prop_map(|((a, b), memory, node)| {
            let which = if memory { Which::Memory } else { Which::Reserved };
            Op::SetNode(a, b, which, node)
        }),
        2 => (range(), memory_flag(), any::<bool>())
            .prop_map(|((a, b), flag, set)| Op::SetFlag(a, b, Which::Memory, flag, set)),
        1 => (range(), reserved_flag(), any::<bool>())
            .prop_map(|((a, b), flag, set)| Op::SetFlag(a, b, Which::Reserved, flag, set)),
        1 => (0..4u32).prop_map(|shift| Op::Trim(1 << shift)),
        1 => (0..BYTES).prop_map(Op::EnforceLimit),
        1 => (0..BYTES).prop_map(Op::RemoveMap),
        1 => range().prop_map(|(a, b)| Op::Cap(a, b)),
        4 => (
            1..24u64,
            prop_oneof![Just(0), Just(1), Just(4), Just(16)],
            0..BYTES,
            1..=BYTES,
            proptest::option::of(node),
            any::<bool>(),
        )
            .prop_map(|(size, align, min, max, node, exact)| Op::Alloc {
                size,
                align,
                min,
                max,
                node,
                exact,
            }),
        1 => (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(bottom_up, movable_node, has_mirror)| Op::Settings {
                bottom_up,
                movable_node,
                has_mirror,
            }
        ),
    ]
}

/// Runs `check`; prints the script where it panics, and lets it panic.
fn with_script(kernel: &'static str, ops: &[Op], check: impl FnOnce() + std::panic::UnwindSafe) {
    if let Err(panic) = std::panic::catch_unwind(check) {
        eprintln!("{}", Script(kernel, ops));
        std::panic::resume_unwind(panic);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_of_operations_does_what_a_map_of_bytes_does(
        kernel in 0..KERNELS.len(),
        ops in prop::collection::vec(op(), 1..40),
    ) {
        let (name, behaviour) = KERNELS[kernel];
        with_script(name, &ops, || {
            let mut m = Memblock::new(behaviour);
            m.settings_mut().page_shift = PAGE_SHIFT;
            let mut oracle = Oracle::new(behaviour, BYTES as usize);
            for &op in &ops {
                oracle.apply(&mut m, op);
            }
            same(&m, &oracle);
        });
    }

    #[test]
    fn ranges_anywhere_in_the_address_space_are_harmless(
        ranges in prop::collection::vec((any::<u64>(), any::<u64>(), 0..8u8), 1..60),
    ) {
        let mut m = Memblock::new(Behaviour::V7_3);
        for (start, size, what) in ranges {
            let start = if what % 2 == 0 { start } else { u64::MAX - (start >> 50) };
            let range = PhysRange::from_size(PhysAddr::new(start), size);
            match what {
                0..=2 => m.add(range).unwrap(),
                3 => m.remove(range).unwrap(),
                4..=5 => m.reserve(range).unwrap(),
                6 => m.mark_nomap(range).unwrap(),
                _ => m.free(range).unwrap(),
            }
            prop_assert!(m.memory().iter().zip(m.memory().iter().skip(1)).all(|(a, b)| a.end() <= b.start()));
            prop_assert_eq!(m.memory().covered(), m.memory().total_size());
            let _ = m.find_in_range(r(0, u64::MAX), size, 1 << 63);
            let _ = m.next_valid_pfn(Pfn::new(start), Pfn::MAX, 12);
        }
    }
}
