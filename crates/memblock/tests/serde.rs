//! A memblock as JSON and back.

mod common;

use common::{n, r};
use memblock::{Behaviour, Growth, Memblock, NodeMark, PhysRange, RegionList, Which};

#[test]
fn a_memblock_survives_json_with_all_that_a_dump_does_not_show() {
    let mut m = Memblock::with_growth(Behaviour::V6_18, Growth::KERNEL);
    m.add(r(0x1800, 0x9_0000)).unwrap();
    m.trim_memory(0x1000);
    m.set_node(r(0, 0x4000), Which::Memory, n(3)).unwrap();
    m.reserve_with(r(0x2000, 0x3000), NodeMark::UNSET, common::f(0x1020))
        .unwrap_err();
    m.reserve_with(r(0x2000, 0x3000), NodeMark::UNSET, common::f(0x20))
        .unwrap();
    m.reserve(r(0x3000, 0x3800)).unwrap();
    m.enable_physmem();
    m.settings_mut().bottom_up = true;
    let json = serde_json::to_string(&m).unwrap();
    let back: Memblock = serde_json::from_str(&json).unwrap();
    assert_eq!(back, m);
    assert_eq!(back.phys_mem_size(), m.phys_mem_size());
    assert_eq!(back.dump(), m.dump());
}

#[test]
fn lists_and_ranges_that_can_not_be_are_refused() {
    let list = |text: &str| serde_json::from_str::<RegionList>(text);
    let region = |start: u64, end: u64| {
        format!(r#"{{"range":{{"start":{start},"end":{end}}},"flags":0,"node":-1}}"#)
    };
    let two = |first: String, second: String| format!("[0,false,[{first},{second}]]");
    assert_eq!(list(&two(region(0, 4), region(6, 8))).unwrap().len(), 2);
    assert!(list(&two(region(0, 4), region(3, 8))).is_err());
    assert!(list(&two(region(6, 8), region(0, 4))).is_err());
    assert!(list(&two(region(0, 4), region(5, 5))).is_err());
    assert!(serde_json::from_str::<PhysRange>(r#"{"start":5,"end":3}"#).is_err());
    assert!(serde_json::from_str::<NodeMark>("70000").is_err());
    assert_eq!(
        serde_json::from_str::<NodeMark>("null").unwrap(),
        NodeMark::UNSET
    );
}
