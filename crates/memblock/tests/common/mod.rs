//! What the tests share: short names, and a naive oracle.
#![allow(dead_code, reason = "each test binary takes what it needs")]

use std::fmt;

use memblock::{
    AllocRequest, Behaviour, Memblock, MemblockFlags, NodeId, NodeMark, Pfn, PfnRange, PhysAddr,
    PhysRange, Region, RegionList, Which,
};

/// `[start, end)` in bytes.
pub(crate) fn r(start: u64, end: u64) -> PhysRange {
    PhysRange::new(PhysAddr::new(start), PhysAddr::new(end))
}

/// Node `id`.
pub(crate) fn n(id: u16) -> NodeId {
    NodeId::new(id)
}

/// Flags with these bits.
pub(crate) fn f(bits: u32) -> MemblockFlags {
    MemblockFlags::from_bits_retain(bits)
}

/// The regions as tuples that are easy to write down: start, end, node, flags.
pub(crate) fn regions(list: &RegionList) -> Vec<(u64, u64, Option<u16>, u32)> {
    list.iter()
        .map(|it| {
            (
                it.start().get(),
                it.end().get(),
                it.node().map(NodeId::get),
                it.flags().bits(),
            )
        })
        .collect()
}

/// Starts and ends alone.
pub(crate) fn bounds(list: &RegionList) -> Vec<(u64, u64)> {
    list.iter()
        .map(|it| (it.start().get(), it.end().get()))
        .collect()
}

/// One operation, in a form that prints as the line that would make it again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Add(u64, u64),
    AddNode(u64, u64, u16, u32),
    Remove(u64, u64),
    Reserve(u64, u64),
    ReserveWith(u64, u64, u16, u32),
    ReserveKern(u64, u64),
    Free(u64, u64),
    SetNode(u64, u64, Which, u16),
    SetFlag(u64, u64, Which, u32, bool),
    Trim(u64),
    EnforceLimit(u64),
    RemoveMap(u64),
    Cap(u64, u64),
    Alloc {
        size: u64,
        align: u64,
        min: u64,
        max: u64,
        node: Option<u16>,
        exact: bool,
    },
    Settings {
        bottom_up: bool,
        movable_node: bool,
        has_mirror: bool,
    },
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Op::Add(a, b) => write!(f, "m.add(r({a}, {b})).unwrap();"),
            Op::AddNode(a, b, node, flags) => {
                write!(
                    f,
                    "m.add_node(r({a}, {b}), n({node}), f({flags})).unwrap();"
                )
            }
            Op::Remove(a, b) => write!(f, "m.remove(r({a}, {b})).unwrap();"),
            Op::Reserve(a, b) => write!(f, "m.reserve(r({a}, {b})).unwrap();"),
            Op::ReserveWith(a, b, node, flags) => {
                write!(
                    f,
                    "m.reserve_with(r({a}, {b}), n({node}), f({flags})).unwrap();"
                )
            }
            Op::ReserveKern(a, b) => write!(f, "m.reserve_kern(r({a}, {b})).unwrap();"),
            Op::Free(a, b) => write!(f, "m.free(r({a}, {b})).unwrap();"),
            Op::SetNode(a, b, which, node) => {
                write!(
                    f,
                    "m.set_node(r({a}, {b}), Which::{which:?}, n({node})).unwrap();"
                )
            }
            Op::SetFlag(a, b, which, flag, set) => write!(
                f,
                "m.set_flag(r({a}, {b}), Which::{which:?}, f({flag}), {set}).unwrap();"
            ),
            Op::Trim(align) => write!(f, "m.trim_memory({align});"),
            Op::EnforceLimit(limit) => write!(f, "m.enforce_memory_limit({limit}).unwrap();"),
            Op::RemoveMap(limit) => write!(f, "m.mem_limit_remove_map({limit}).unwrap();"),
            Op::Cap(a, b) => write!(f, "m.cap_memory_range(r({a}, {b})).unwrap();"),
            Op::Alloc {
                size,
                align,
                min,
                max,
                node,
                exact,
            } => {
                let node = match (node, exact) {
                    (None, _) => String::new(),
                    (Some(node), false) => format!(".node(n({node}))"),
                    (Some(node), true) => format!(".exact_node(n({node}))"),
                };
                write!(
                    f,
                    "let _ = m.alloc(AllocRequest::phys({size}, {align})\
                     .from(PhysAddr::new({min})).below(PhysAddr::new({max})){node});"
                )
            }
            Op::Settings {
                bottom_up,
                movable_node,
                has_mirror,
            } => write!(
                f,
                "m.settings_mut().bottom_up = {bottom_up}; \
                 m.settings_mut().movable_node = {movable_node}; \
                 m.settings_mut().has_mirror = {has_mirror};"
            ),
        }
    }
}

/// A whole test that can be pasted under `tests/regressions/`.
pub(crate) struct Script<'a>(pub(crate) &'static str, pub(crate) &'a [Op]);

impl fmt::Display for Script<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "#[test]\nfn name_me() {{")?;
        writeln!(f, "    let mut m = Memblock::new({});", self.0)?;
        writeln!(f, "    m.settings_mut().page_shift = {PAGE_SHIFT};")?;
        for op in self.1 {
            writeln!(f, "    {op}")?;
        }
        writeln!(f, "    // assert_eq!(regions(m.memory()), [..]);")?;
        writeln!(f, "    // assert_eq!(regions(m.reserved()), [..]);\n}}")
    }
}

/// Pages of 8 bytes make small address spaces interesting.
pub(crate) const PAGE_SHIFT: u32 = 3;

/// The address space of the oracle.
pub(crate) const BYTES: u64 = 160;

/// A kernel that knows the flags of all.
pub(crate) const fn knowing_all_flags(mut behaviour: Behaviour) -> Behaviour {
    behaviour.known_flags = MemblockFlags::all();
    behaviour
}

/// Kernels by the expression that names them; every flag is known, so that one generator serves.
pub(crate) const KERNELS: [(&str, Behaviour); 4] = [
    (
        "knowing_all_flags(Behaviour::V6_1)",
        knowing_all_flags(Behaviour::V6_1),
    ),
    (
        "knowing_all_flags(Behaviour::V6_12)",
        knowing_all_flags(Behaviour::V6_12),
    ),
    ("Behaviour::V6_18", Behaviour::V6_18),
    ("Behaviour::V7_3", Behaviour::V7_3),
];

fn same_list(list: &RegionList, bytes: &[Option<(NodeMark, MemblockFlags)>]) {
    let regions: Vec<Region> = list.iter().collect();
    assert_eq!(regions, Oracle::runs(bytes));
    let mut backwards: Vec<Region> = list.iter().rev().collect();
    backwards.reverse();
    assert_eq!(regions, backwards);
    assert_eq!(regions.len(), list.len());
    for (at, byte) in bytes.iter().enumerate() {
        let found = list.at(PhysAddr::new(at as u64));
        assert_eq!(found.map(|it| (it.node_mark(), it.flags())), *byte);
    }
    for (index, region) in regions.iter().enumerate() {
        assert_eq!(list.get(index), Some(*region));
    }
    assert_eq!(list.get(regions.len()), None);
}

/// Whether both hold the same, seen in every way that there is.
pub(crate) fn same(m: &Memblock, oracle: &Oracle) {
    same_list(m.memory(), &oracle.memory);
    same_list(m.reserved(), &oracle.reserved);
    for node in [None, Some(n(0)), Some(n(1))] {
        for asks in [0, 1, 2, 4, 8, 0x40] {
            let flags = MemblockFlags::from_bits_retain(asks);
            let free: Vec<_> = m
                .free_ranges(node, flags)
                .map(|it| (it.start().get(), it.end().get()))
                .collect();
            assert_eq!(
                free,
                oracle.free(node, flags),
                "node {node:?} flags {asks:#x}"
            );
            let mut rev: Vec<_> = m
                .free_ranges_rev(node, flags)
                .map(|it| (it.start().get(), it.end().get()))
                .collect();
            rev.reverse();
            assert_eq!(free, rev, "node {node:?} flags {asks:#x}, from above");
        }
    }
    let pages = BYTES >> PAGE_SHIFT;
    for pfn in 0..pages {
        let next = m.next_valid_pfn(Pfn::new(pfn), Pfn::new(pages), PAGE_SHIFT);
        let expected = ((pfn + 1)..pages)
            .find(|&candidate| {
                let first = (candidate << PAGE_SHIFT) as usize;
                let frame = &oracle.memory[first..first + (1 << PAGE_SHIFT)];
                // inside a region only the first byte counts, a region's own start any
                frame[0].is_some() || (candidate > pfn && frame.iter().any(Option::is_some))
            })
            .unwrap_or(pages);
        assert_eq!(next.get(), expected, "after {pfn}");
    }
    let zone = PfnRange::new(Pfn::new(3), Pfn::new(pages - 3));
    let free: Vec<_> = m
        .free_pfn_ranges(PAGE_SHIFT, zone, None)
        .map(|it| (it.start().get(), it.end().get()))
        .collect();
    let expected: Vec<_> = oracle
        .free(None, MemblockFlags::empty())
        .into_iter()
        .map(|(a, b)| (a.div_ceil(8).max(3), (b / 8).min(pages - 3)))
        .filter(|(a, b)| a < b)
        .collect();
    assert_eq!(free, expected);
}

/// What a byte is: node and flags, where it is anything.
type Byte = Option<(NodeMark, MemblockFlags)>;

/// The same allocator, byte by byte: slow and obvious.
#[derive(Clone)]
pub(crate) struct Oracle {
    behaviour: Behaviour,
    pub(crate) memory: Vec<Byte>,
    pub(crate) reserved: Vec<Byte>,
    bottom_up: bool,
    movable_node: bool,
    has_mirror: bool,
}

impl Oracle {
    pub(crate) fn new(behaviour: Behaviour, bytes: usize) -> Self {
        Self {
            behaviour,
            memory: vec![None; bytes],
            reserved: vec![None; bytes],
            bottom_up: false,
            movable_node: false,
            has_mirror: false,
        }
    }

    fn list(&mut self, which: Which) -> &mut Vec<Byte> {
        match which {
            Which::Memory => &mut self.memory,
            _ => &mut self.reserved,
        }
    }

    /// The bytes of `which` in `[a, b)` that are anything.
    fn bytes(
        &mut self,
        which: Which,
        a: u64,
        b: u64,
    ) -> impl Iterator<Item = &mut (NodeMark, MemblockFlags)> {
        let list = self.list(which);
        let end = list.len();
        list[(a as usize).min(end)..(b as usize).min(end)]
            .iter_mut()
            .flatten()
    }

    fn fill(&mut self, which: Which, a: u64, b: u64, node: NodeMark, flags: MemblockFlags) {
        let list = self.list(which);
        for at in a..b.min(list.len() as u64) {
            list[at as usize].get_or_insert((node, flags));
        }
    }

    fn clear(&mut self, which: Which, a: u64, b: u64) {
        let list = self.list(which);
        for at in a..b.min(list.len() as u64) {
            list[at as usize] = None;
        }
    }

    /// The runs of equal bytes.
    pub(crate) fn runs(list: &[Byte]) -> Vec<Region> {
        let mut runs: Vec<Region> = Vec::new();
        for (at, byte) in list.iter().enumerate() {
            let Some((node, flags)) = *byte else { continue };
            let at = at as u64;
            match runs.last_mut() {
                Some(last)
                    if last.end().get() == at
                        && last.node_mark() == node
                        && last.flags() == flags =>
                {
                    *last = Region::new(r(last.start().get(), at + 1), node, flags);
                }
                _ => runs.push(Region::new(r(at, at + 1), node, flags)),
            }
        }
        runs
    }

    fn skips(&self, at: usize, node: Option<NodeId>, asks: MemblockFlags) -> bool {
        let Some((mark, flags)) = self.memory[at] else {
            return true;
        };
        let hot = MemblockFlags::HOTPLUG;
        let (nomap, driver) = (MemblockFlags::NOMAP, MemblockFlags::DRIVER_MANAGED);
        (node.is_some() && mark.get() != node)
            || (self.movable_node && flags.contains(hot) && !asks.contains(hot))
            || (asks.contains(MemblockFlags::MIRROR) && !flags.contains(MemblockFlags::MIRROR))
            || (flags.contains(nomap) && !asks.contains(nomap))
            || (flags.contains(driver) && !asks.contains(driver))
            || (asks.contains(MemblockFlags::KHO_SCRATCH)
                && !flags.contains(MemblockFlags::KHO_SCRATCH))
    }

    /// Free ranges, lowest first: bytes of one region of memory that are not reserved.
    pub(crate) fn free(&self, node: Option<NodeId>, asks: MemblockFlags) -> Vec<(u64, u64)> {
        let mut free: Vec<(u64, u64)> = Vec::new();
        for at in 0..self.memory.len() {
            if self.reserved[at].is_some() || self.skips(at, node, asks) {
                continue;
            }
            let at64 = at as u64;
            match free.last_mut() {
                Some(last) if last.1 == at64 && self.memory[at - 1] == self.memory[at] => {
                    last.1 += 1;
                }
                _ => free.push((at64, at64 + 1)),
            }
        }
        free
    }

    fn find(
        &self,
        size: u64,
        align: u64,
        min: u64,
        max: u64,
        node: Option<NodeId>,
        flags: MemblockFlags,
    ) -> Option<u64> {
        let min = min.max(1 << PAGE_SHIFT);
        let max = max.max(min);
        let fits = |&at: &u64| {
            at % align == 0
                && self.free(node, flags).iter().any(|&(start, end)| {
                    let (start, end) = (start.clamp(min, max), end.clamp(min, max));
                    // an allocation of nothing needs a place all the same
                    start < end && start <= at && at + size <= end
                })
        };
        let all = 0..=self.memory.len() as u64;
        if self.bottom_up {
            all.into_iter().find(fits)
        } else {
            all.rev().find(fits)
        }
    }

    /// Where an allocation would go, and with which node it would be recorded.
    pub(crate) fn place(
        &self,
        size: u64,
        align: u64,
        min: u64,
        max: u64,
        node: Option<NodeId>,
        exact: bool,
    ) -> Option<(u64, Option<NodeId>)> {
        let align = if align == 0 { 64 } else { align };
        let mut tries = vec![MemblockFlags::empty()];
        if self.has_mirror {
            tries.insert(0, MemblockFlags::MIRROR);
        }
        for flags in tries {
            if let Some(at) = self.find(size, align, min, max, node, flags) {
                return Some((at, node));
            }
            if node.is_some()
                && !exact
                && let Some(at) = self.find(size, align, min, max, None, flags)
            {
                return Some((at, None));
            }
        }
        None
    }

    fn max_address(&self, limit: u64) -> Option<u64> {
        if limit == 0 {
            return None;
        }
        let mut seen = 0;
        for (at, byte) in self.memory.iter().enumerate() {
            seen += u64::from(byte.is_some());
            if seen == limit {
                return Some(at as u64 + 1);
            }
        }
        None
    }

    fn cap(&mut self, a: u64, b: u64) {
        if a >= b || self.memory.iter().all(Option::is_none) {
            return;
        }
        for at in 0..self.memory.len() {
            if (a..b).contains(&(at as u64)) {
                continue;
            }
            if self.memory[at].is_some_and(|(_, flags)| !flags.contains(MemblockFlags::NOMAP)) {
                self.memory[at] = None;
            }
            self.reserved[at] = None;
        }
    }

    /// Does `op` on both, and compares what an allocation gave.
    pub(crate) fn apply(&mut self, m: &mut Memblock, op: Op) {
        let plain = self.behaviour.plain_reservation_node;
        let end = self.memory.len() as u64;
        match op {
            Op::Add(a, b) => {
                m.add(r(a, b)).unwrap();
                self.fill(Which::Memory, a, b, NodeMark::UNSET, f(0));
            }
            Op::AddNode(a, b, node, flags) => {
                m.add_node(r(a, b), n(node), f(flags)).unwrap();
                self.fill(Which::Memory, a, b, n(node).into(), f(flags));
            }
            Op::Remove(a, b) => {
                m.remove(r(a, b)).unwrap();
                self.clear(Which::Memory, a, b);
            }
            Op::Reserve(a, b) => {
                m.reserve(r(a, b)).unwrap();
                self.fill(Which::Reserved, a, b, plain, f(0));
            }
            Op::ReserveWith(a, b, node, flags) => {
                m.reserve_with(r(a, b), n(node), f(flags)).unwrap();
                self.fill(Which::Reserved, a, b, n(node).into(), f(flags));
            }
            Op::ReserveKern(a, b) => {
                m.reserve_kern(r(a, b)).unwrap();
                self.fill(
                    Which::Reserved,
                    a,
                    b,
                    plain,
                    self.behaviour.allocation_flags,
                );
            }
            Op::Free(a, b) => {
                m.free(r(a, b)).unwrap();
                self.clear(Which::Reserved, a, b);
            }
            Op::SetNode(a, b, which, node) => {
                m.set_node(r(a, b), which, n(node)).unwrap();
                for byte in self.bytes(which, a, b) {
                    byte.0 = n(node).into();
                }
            }
            Op::SetFlag(a, b, which, flag, set) => {
                m.set_flag(r(a, b), which, f(flag), set).unwrap();
                for byte in self.bytes(which, a, b) {
                    byte.1.set(f(flag), set);
                }
            }
            Op::Trim(align) => {
                m.trim_memory(align);
                for region in Self::runs(&self.memory) {
                    let (a, b) = (region.start().get(), region.end().get());
                    let (up, down) = (a.next_multiple_of(align), b / align * align);
                    self.clear(Which::Memory, a, up.min(b));
                    self.clear(Which::Memory, down.max(a), b);
                }
            }
            Op::EnforceLimit(limit) => {
                m.enforce_memory_limit(limit).unwrap();
                if let Some(max) = self.max_address(limit) {
                    self.clear(Which::Memory, max, end);
                    self.clear(Which::Reserved, max, end);
                }
            }
            Op::RemoveMap(limit) => {
                m.mem_limit_remove_map(limit).unwrap();
                if let Some(max) = self.max_address(limit) {
                    self.cap(0, max);
                }
            }
            Op::Cap(a, b) => {
                m.cap_memory_range(r(a, b)).unwrap();
                self.cap(a, b);
            }
            Op::Alloc {
                size,
                align,
                min,
                max,
                node,
                exact,
            } => {
                let request = AllocRequest::phys(size, align)
                    .from(PhysAddr::new(min))
                    .below(PhysAddr::new(max));
                let request = match (node, exact) {
                    (None, _) => request,
                    (Some(node), false) => request.node(n(node)),
                    (Some(node), true) => request.exact_node(n(node)),
                };
                let got = m.alloc(request).ok().map(|range| range.start().get());
                let want = self.place(size, align, min, max, node.map(n), exact);
                assert_eq!(got, want.map(|(at, _)| at), "{op}");
                if let Some((at, node)) = want {
                    let mark = if self.behaviour.allocation_keeps_node {
                        node.into()
                    } else {
                        plain
                    };
                    let flags = self.behaviour.allocation_flags;
                    self.fill(Which::Reserved, at, at + size, mark, flags);
                }
            }
            Op::Settings {
                bottom_up,
                movable_node,
                has_mirror,
            } => {
                m.settings_mut().bottom_up = bottom_up;
                m.settings_mut().movable_node = movable_node;
                m.settings_mut().has_mirror = has_mirror;
                self.bottom_up = bottom_up;
                self.movable_node = movable_node;
                self.has_mirror = has_mirror;
            }
        }
    }
}
