//! The text form: written, read again, and refused where it is wrong.

use machine::size::ByteSize;
use machine::{MachineLayout, TomlError, synthetic};

const TEXT: &str = "\
form = 1
arch = \"arm64\"
release = \"6.12.9\"
command_line = \"a=\\\"b\\\" \\\\c\"
page_size = 16384
memoryless = [5, 7]  # both have CPUs

[[memory]]
start = 0x8000_0000
end = 0x90000000
node = 1
[[memory]]
start = 0x40000000
end = 0x80000000
node = 0
flags = 4

[[reserved]]
start = 0x40004000
end = 0x40008000

[[node]]
id = 1
start = 0x80000000
end = \"0xffffffffffffffff\"
[[device]]
start = 0x100000000
end = 0x140000000
persistent = 0
";

#[test]
fn a_layout_that_is_written_and_read_again_is_the_same() {
    let first = MachineLayout::from_toml("text", TEXT).unwrap();
    assert_eq!(first.memory.len(), 2);
    assert_eq!(first.memory[0].flags, 4);
    assert_eq!(first.page_size, 16384);
    assert_eq!(first.command_line.as_deref(), Some("a=\"b\" \\c"));
    assert!(!first.devices[0].persistent);
    let written = first.to_toml().unwrap();
    let second = MachineLayout::from_toml("text", &written).unwrap();
    assert_eq!(second.to_toml().unwrap(), written);
    assert_eq!(second.memblock().unwrap(), first.memblock().unwrap());
    assert_eq!(second.profile(), first.profile());
}

#[test]
fn a_reservation_inside_of_another_leaves_nothing_of_its_node() {
    let layout = |reserved: &str| {
        let text = format!(
            "form = 1\n[[memory]]\nstart = 0\nend = 0x9000\n{reserved}\
             [[node]]\nstart = 0x5000\nend = 0x9000\nid = 1\n"
        );
        MachineLayout::from_toml("text", &text).unwrap()
    };
    let outer = "[[reserved]]\nstart = 0x1000\nend = 0x9000\n";
    let inner = "[[reserved]]\nstart = 0x2000\nend = 0x3000\nnode = 1\n";
    let first = layout(&format!("{inner}{outer}"));
    assert_eq!(first.memblock().unwrap(), layout(outer).memblock().unwrap());
    let written = first.to_toml().unwrap();
    let second = MachineLayout::from_toml("text", &written).unwrap();
    assert_eq!(second.to_toml().unwrap(), written);
}

#[test]
fn a_range_without_bytes_names_no_node() {
    let text = "form = 1\n[[memory]]\nstart = 0\nend = 0x9000\n\
                [[memory]]\nstart = 0xa000\nend = 0xa000\nnode = 1\n";
    let first = MachineLayout::from_toml("text", text).unwrap();
    let written = first.to_toml().unwrap();
    assert!(written.contains("node = 0"), "{written}");
    let second = MachineLayout::from_toml("text", &written).unwrap();
    assert_eq!(second.to_toml().unwrap(), written);
}

#[test]
fn what_other_readers_make_can_be_written() {
    let made: ByteSize = "16G".parse().unwrap();
    let layout = synthetic::even(made, 4).unwrap();
    let again = MachineLayout::from_toml("text", &layout.to_toml().unwrap()).unwrap();
    assert_eq!(again.memblock().unwrap(), layout.memblock().unwrap());
    assert_eq!(again.nodes(), layout.nodes());
}

#[test]
fn wrong_texts_are_refused_with_the_line() {
    let error = |text: &str| {
        MachineLayout::from_toml("file", text)
            .unwrap_err()
            .to_string()
    };
    for (text, expected) in [
        ("hello", "line 1: `hello`: expected KEY = VALUE"),
        ("form = 2", "form 2 is later than 1"),
        ("page_size = 5000", "a power of two"),
        ("arch = \"vax\"", "x86_64, arm64"),
        ("odd = 1", "a key of the documented form"),
        ("[[thing]]", "[[memory]]"),
        ("[[memory]]\nstart = 1", "line 1 has no `end`"),
        ("[[memory]]\nstart = -1", "an integer"),
        ("[[memory]]\nstart = 99999999999999999999999", "an integer"),
        ("[[memory]]\nstart = 2\nend = 1", "not below the start"),
        (
            "[[memory]]\nstart = 0\nend = 1\nnode = 65536",
            "up to 65535",
        ),
        (
            "[[memory]]\nstart = 0\nend = 1\ncolour = 3",
            "a key of this table",
        ),
        (
            "[[memory]]\nstart = 0\nend = 1\nend = 2",
            "each key once in a table",
        ),
        ("", "no usable memory"),
        ("machine = \"never closed", "a string in double quotes"),
        (
            "[[memory]]\nstart=0\nend=2\nnode=0\n[[memory]]\nstart=1\nend=3\nnode=1",
            "nodes 0 and 1 both claim",
        ),
    ] {
        let shown = error(text);
        assert!(shown.contains(expected), "{text}: {shown}");
    }
    assert!(matches!(
        MachineLayout::from_toml("file", "x"),
        Err(TomlError::Line { .. })
    ));
}
