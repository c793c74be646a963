//! What is done by the bytes of one input: operations of memblock beside the naive oracle, boots
//! under faults, devices and memory blocks that come and go, all checked after each step.

#[path = "../../crates/memblock/tests/common/mod.rs"]
mod common;
// the module alone: all that the crate `tools` depends on would be built with the fuzzer's flags
#[path = "../../crates/tools/src/soak/mod.rs"]
pub mod soak;

use std::sync::OnceLock;

use common::{BYTES, KERNELS, Op, Oracle, PAGE_SHIFT, same};
use deferred_init::Topology;
use memblock::{Memblock, Which};
use soak::{Dice, Part, live};

/// Bytes of struct pages of a machine: small, so that many are tried.
const MEMMAP: u64 = 1 << 20;
/// Operations of one script.
const LONGEST: usize = 60;

/// Any sequence of memblock's operations does what a map of bytes does.
pub fn memblock_script(mut data: &[u8]) {
    let Some((kernel, rest)) = data.split_first() else {
        return;
    };
    data = rest;
    let (_, behaviour) = KERNELS[usize::from(*kernel) % KERNELS.len()];
    let mut m = Memblock::new(behaviour);
    m.settings_mut().page_shift = PAGE_SHIFT;
    let mut oracle = Oracle::new(behaviour, BYTES as usize);
    for _ in 0..LONGEST {
        let Some((op, rest)) = operation(data) else {
            break;
        };
        data = rest;
        oracle.apply(&mut m, op);
    }
    same(&m, &oracle);
}

/// The operation that six bytes stand for.
fn operation(data: &[u8]) -> Option<(Op, &[u8])> {
    let (&[what, first, second, third, fourth, fifth], rest) = data.split_first_chunk()?;
    let a = u64::from(first) % BYTES;
    let b = (a + u64::from(second) % 48).min(BYTES);
    let node = u16::from(third) % 3;
    let memory = [0, 1, 2, 4, 8, 0x40][usize::from(fourth) % 6];
    let reserved = [0, 0x10, 0x20][usize::from(fourth) % 3];
    let set = fifth & 1 == 1;
    let which = if fifth & 2 == 2 {
        Which::Memory
    } else {
        Which::Reserved
    };
    let op = match what % 16 {
        0 => Op::Add(a, b),
        1 => Op::AddNode(a, b, node, memory),
        2 => Op::Remove(a, b),
        3 => Op::Reserve(a, b),
        4 => Op::ReserveWith(a, b, node, reserved),
        5 => Op::ReserveKern(a, b),
        6 => Op::Free(a, b),
        7 => Op::SetNode(a, b, which, node),
        8 => Op::SetFlag(a, b, Which::Memory, memory, set),
        9 => Op::SetFlag(a, b, Which::Reserved, reserved, set),
        10 => Op::Trim(1 << (fourth % 4)),
        11 => Op::EnforceLimit(a),
        12 => Op::RemoveMap(a),
        13 => Op::Cap(a, b),
        14 => Op::Settings {
            bottom_up: set,
            movable_node: fifth & 2 == 2,
            has_mirror: fifth & 4 == 4,
        },
        _ => Op::Alloc {
            size: 1 + u64::from(second) % 23,
            align: [0, 1, 4, 16][usize::from(fourth) % 4],
            min: a,
            max: 1 + u64::from(third) % BYTES,
            node: (fifth & 4 == 4).then_some(u16::from(fifth >> 3) % 3),
            exact: set,
        },
    };
    Some((op, rest))
}

/// Plans and runs over any machine, interrupted anywhere, leave a map without a violation.
pub fn boot(data: &[u8]) {
    part(data, Part::Boot);
}

/// Devices beside and over memory come and go.
pub fn devices(data: &[u8]) {
    part(data, Part::Devices);
}

/// Several CPUs allocate and free, and memory blocks come and go.
pub fn pages(data: &[u8]) {
    part(data, Part::Pages);
}

fn part(data: &[u8], part: Part) {
    static HOST: OnceLock<Topology> = OnceLock::new();
    let host = HOST.get_or_init(|| Topology::host().expect("this host has CPUs"));
    if let Err(finding) = live(&mut Dice::Bytes(data), host, part, MEMMAP) {
        panic!("{finding}");
    }
}
