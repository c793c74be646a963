//! A layout as a small text that diffs well and can be written by hand.
//!
//! The form is a subset of TOML: integers (decimal or `0x…`), strings in double quotes, lists of
//! integers, and arrays of tables, one value a line. Ends are the first address behind.
//! Addresses of 2^63 and more, which TOML has no integers for, are strings.
//!
//! ```toml
//! form = 1
//! arch = "x86_64"
//! release = "6.12.9"
//! page_size = 4096
//! memoryless = [5]
//!
//! [[memory]]
//! start = 0x1000
//! end = 0x9b000
//! node = 0
//!
//! [[reserved]]
//! start = 0x2000
//! end = 0x3000
//! ```
//!
//! Tables are `memory` and `reserved` (with `node` and memblock's `flags`, both optional), `node`
//! (`id`, `start`, `end`: addresses that belong to a node) and `device` (`start`, `end`,
//! `persistent = 1` or `0`). What is reserved is what was so when memory was handed over.

use std::fmt::Write as _;

use memblock::{NodeId, PhysAddr, PhysRange};

use crate::error::LayoutError;
use crate::layout::{
    DeviceRange, MachineLayout, MemoryRange, MemorySource, NodeRange, NodeSource, PageSizeSource,
    ReservedSource,
};
use crate::location::Location;
use crate::release::{Architecture, KernelRelease};

/// Version of the form that is written.
const FORM: u64 = 1;

/// A text that is not a layout in this form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TomlError {
    /// A line is not of the form.
    #[error("{file}: {at}: expected {expected}; `boot --toml LOG` prints a layout in this form")]
    Line {
        /// The file.
        file: String,
        /// The line.
        at: Location,
        /// What should stand there.
        expected: &'static str,
    },
    /// A table lacks a value.
    #[error("{file}: the table that begins on line {line} has no `{key}`; add `{key} = …` to it")]
    Missing {
        /// The file.
        file: String,
        /// Line of the table's heading.
        line: u64,
        /// The key.
        key: &'static str,
    },
    /// The form is of a later version.
    #[error(
        "{file}: form {form} is later than {FORM}, which this version reads; write it again with \
         this version"
    )]
    Form {
        /// The file.
        file: String,
        /// The version that it names.
        form: u64,
    },
    /// Two ranges of memory overlap, or there is none.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

impl MachineLayout {
    /// The layout in the documented form, ranges ascending.
    ///
    /// # Errors
    /// [`LayoutError::Memblock`] where reservations cannot be replayed.
    pub fn to_toml(&self) -> Result<String, LayoutError> {
        let mut out = format!(
            "# {}: {}\nform = {FORM}\n",
            one_line(&self.file),
            one_line(&self.provenance.to_string())
        );
        let mut text = |key: &str, value: Option<&str>| {
            if let Some(value) = value {
                let _ = writeln!(out, "{key} = \"{}\"", escaped(value));
            }
        };
        text("arch", self.architecture.map(Architecture::name));
        text(
            "release",
            self.release.as_ref().map(|release| release.text.as_str()),
        );
        text("machine", self.machine.as_deref());
        text("command_line", self.command_line.as_deref());
        let _ = writeln!(out, "page_size = {}", self.page_size);
        if let Some(cpus) = self.nr_cpus {
            let _ = writeln!(out, "nr_cpus = {}", number(cpus));
        }
        for (key, nodes) in [("memoryless", &self.memoryless), ("offline", &self.offline)] {
            if !nodes.is_empty() {
                let list: Vec<_> = nodes.iter().map(ToString::to_string).collect();
                let _ = writeln!(out, "{key} = [{}]", list.join(", "));
            }
        }
        let memblock = self.memblock()?;
        for (key, list) in [
            ("memory", memblock.memory()),
            ("reserved", memblock.reserved()),
        ] {
            for region in list.iter() {
                table(&mut out, key, region.range());
                if let Some(node) = region.node() {
                    let _ = writeln!(out, "node = {node}");
                }
                if !region.flags().is_empty() {
                    let _ = writeln!(out, "flags = {:#x}", region.flags().bits());
                }
            }
        }
        for claim in &self.node_ranges {
            table(&mut out, "node", claim.range);
            let _ = writeln!(out, "id = {}", claim.node);
        }
        for device in &self.devices {
            table(&mut out, "device", device.range);
            let _ = writeln!(out, "persistent = {}", u8::from(device.persistent));
        }
        Ok(out)
    }

    /// Reads the documented form from `text`, which messages will call `file`.
    ///
    /// # Errors
    /// * [`TomlError::Line`] and [`TomlError::Missing`] where the text is not of the form.
    /// * [`TomlError::Form`] where it is of a later version.
    /// * [`TomlError::Layout`] where ranges of memory overlap, or there is none.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, TomlError> {
        Reader::new(file).read(text)
    }
}

fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn escaped(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// An integer; one that TOML has no room for is a string.
fn number(value: u64) -> String {
    match i64::try_from(value) {
        Ok(_) => format!("{value:#x}"),
        Err(_) => format!("\"{value:#x}\""),
    }
}

fn table(out: &mut String, key: &str, range: PhysRange) {
    let start = number(range.start().get());
    let end = number(range.end().get());
    let _ = write!(out, "\n[[{key}]]\nstart = {start}\nend = {end}\n");
}

/// A value.
#[derive(Clone, Debug)]
enum Value {
    Number(u64),
    Text(String),
    Numbers(Vec<u64>),
}

/// The table that is being read.
#[derive(Default)]
struct Table {
    kind: String,
    line: u64,
    values: Vec<(String, u64)>,
}

struct Reader<'a> {
    file: &'a str,
    layout: MachineLayout,
}

impl<'a> Reader<'a> {
    fn new(file: &'a str) -> Self {
        let mut layout = MachineLayout::empty(file);
        layout.provenance.memory = MemorySource::Toml;
        layout.provenance.nodes = NodeSource::Toml;
        layout.provenance.reserved = ReservedSource::Toml;
        layout.provenance.page_size = PageSizeSource::Given;
        Self { file, layout }
    }

    fn line<T>(&self, line: u64, text: &str, expected: &'static str) -> Result<T, TomlError> {
        Err(TomlError::Line {
            file: self.file.to_owned(),
            at: Location::new(line, text),
            expected,
        })
    }

    fn read(mut self, text: &str) -> Result<MachineLayout, TomlError> {
        let mut table: Option<Table> = None;
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if let Some(kind) = text
                .strip_prefix("[[")
                .and_then(|rest| rest.strip_suffix("]]"))
            {
                if !["memory", "reserved", "node", "device"].contains(&kind) {
                    return self.line(
                        line,
                        text,
                        "[[memory]], [[reserved]], [[node]] or [[device]]",
                    );
                }
                let new = Table {
                    kind: kind.to_owned(),
                    line,
                    values: Vec::new(),
                };
                if let Some(done) = table.replace(new) {
                    self.finish_table(&done)?;
                }
                continue;
            }
            let Some((key, value)) = text.split_once('=') else {
                return self.line(line, text, "KEY = VALUE");
            };
            let Some(value) = value_of(value.trim()) else {
                return self.line(
                    line,
                    text,
                    "an integer, a string in double quotes, or [a, b]",
                );
            };
            let key = key.trim();
            match (&mut table, value) {
                (Some(table), _) if table.values.iter().any(|(known, _)| known == key) => {
                    return self.line(line, text, "each key once in a table");
                }
                (Some(table), Value::Number(number)) => table.values.push((key.to_owned(), number)),
                (Some(_), _) => return self.line(line, text, "an integer"),
                (None, value) => self.top(line, text, key, value)?,
            }
        }
        if let Some(done) = table {
            self.finish_table(&done)?;
        }
        self.finish()
    }

    fn top(&mut self, line: u64, text: &str, key: &str, value: Value) -> Result<(), TomlError> {
        let layout = &mut self.layout;
        match (key, value) {
            ("form", Value::Number(form)) if form > FORM => {
                return Err(TomlError::Form {
                    file: self.file.to_owned(),
                    form,
                });
            }
            ("form", Value::Number(_)) => {}
            ("page_size", Value::Number(size))
                if size.is_power_of_two() && (1 << 12..=1 << 18).contains(&size) =>
            {
                layout.page_size = size;
            }
            ("page_size", _) => return self.line(line, text, "a power of two from 4096 to 262144"),
            ("nr_cpus", Value::Number(cpus)) => layout.nr_cpus = Some(cpus),
            ("arch", Value::Text(name)) => match Architecture::from_name(&name) {
                Some(arch) => layout.architecture = Some(arch),
                None => return self.line(line, text, "x86_64, arm64, riscv64, ppc64 or s390x"),
            },
            ("release", Value::Text(release)) => match KernelRelease::parse(&release) {
                Some(release) => layout.release = Some(release),
                None => return self.line(line, text, "a release such as 6.12.9"),
            },
            ("machine", Value::Text(machine)) => layout.machine = Some(machine),
            ("command_line", Value::Text(text)) => layout.command_line = Some(text),
            (key @ ("memoryless" | "offline"), Value::Numbers(list)) => {
                let nodes: Result<Vec<_>, _> = list.into_iter().map(u16::try_from).collect();
                let Ok(nodes) = nodes else {
                    return self.line(line, text, "node numbers up to 65535");
                };
                let nodes = nodes.into_iter().map(NodeId::new).collect();
                match key {
                    "memoryless" => layout.memoryless = nodes,
                    _ => layout.offline = nodes,
                }
            }
            _ => return self.line(line, text, "a key of the documented form"),
        }
        Ok(())
    }

    fn finish_table(&mut self, table: &Table) -> Result<(), TomlError> {
        let find = |key: &str| {
            let found = table.values.iter().find(|(known, _)| known == key);
            found.map(|(_, value)| *value)
        };
        let need = |key: &'static str| {
            find(key).ok_or_else(|| TomlError::Missing {
                file: self.file.to_owned(),
                line: table.line,
                key,
            })
        };
        let (start, end) = (need("start")?, need("end")?);
        let allowed: &[&str] = match table.kind.as_str() {
            "node" => &["start", "end", "id"],
            "device" => &["start", "end", "persistent"],
            _ => &["start", "end", "node", "flags"],
        };
        if let Some((odd, _)) = table
            .values
            .iter()
            .find(|(key, _)| !allowed.contains(&key.as_str()))
        {
            return self.line(table.line, odd, "a key of this table");
        }
        if end < start {
            return self.line(
                table.line,
                &table.kind,
                "an end that is not below the start",
            );
        }
        let range = PhysRange::new(PhysAddr::new(start), PhysAddr::new(end));
        let node = |value: u64| u16::try_from(value).map(NodeId::new);
        let line = table.line;
        match table.kind.as_str() {
            "node" => match node(need("id")?) {
                Ok(node) => self
                    .layout
                    .node_ranges
                    .push(NodeRange { range, node, line }),
                Err(_) => return self.line(line, "id", "a node number up to 65535"),
            },
            "device" => self.layout.devices.push(DeviceRange {
                range,
                persistent: find("persistent").unwrap_or(1) != 0,
                line,
            }),
            kind => {
                let node = match find("node").map(node) {
                    Some(Err(_)) => return self.line(line, "node", "a node number up to 65535"),
                    Some(Ok(node)) => Some(node),
                    None => None,
                };
                let Ok(flags) = u32::try_from(find("flags").unwrap_or(0)) else {
                    return self.line(line, "flags", "flags of 32 bits");
                };
                let memory = MemoryRange {
                    range,
                    node,
                    flags,
                    line,
                };
                match kind {
                    "memory" => self.layout.memory.push(memory),
                    _ => self.layout.reserved.push(memory),
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<MachineLayout, TomlError> {
        let mut layout = self.layout;
        layout.memory.sort_by_key(|memory| memory.range.start());
        layout
            .reserved
            .sort_by_key(|reserved| reserved.range.start());
        layout.check_overlaps()?;
        if layout.memory.iter().all(|memory| memory.range.is_empty()) {
            return Err(TomlError::Layout(LayoutError::NoMemory {
                file: self.file.to_owned(),
            }));
        }
        // Where nobody names a node there is one.
        let there = |memory: &&MemoryRange| !memory.range.is_empty();
        if layout
            .memory
            .iter()
            .filter(there)
            .all(|memory| memory.node.is_none())
        {
            for memory in &mut layout.memory {
                memory.node = Some(NodeId::new(0));
            }
        }
        Ok(layout)
    }
}

fn integer(text: &str) -> Option<u64> {
    let plain = text.replace('_', "");
    match plain.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if plain.bytes().all(|b| b.is_ascii_digit()) => plain.parse().ok(),
        None => None,
    }
}

fn value_of(text: &str) -> Option<Value> {
    if let Some(rest) = text.strip_prefix('"') {
        let (mut out, mut escape) = (String::new(), false);
        let mut chars = rest.char_indices();
        let end = loop {
            let (at, c) = chars.next()?;
            match c {
                '"' if !escape => break at,
                '\\' if !escape => escape = true,
                c => {
                    out.push(c);
                    escape = false;
                }
            }
        };
        let behind = rest[end + 1..].trim();
        if !behind.is_empty() && !behind.starts_with('#') {
            return None;
        }
        // An address that TOML has no integer for.
        return Some(match integer(&out) {
            Some(number) if out.starts_with("0x") => Value::Number(number),
            _ => Value::Text(out),
        });
    }
    let text = text.split('#').next().unwrap_or(text).trim();
    if let Some(list) = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        let items = list
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty());
        return items
            .map(integer)
            .collect::<Option<Vec<_>>>()
            .map(Value::Numbers);
    }
    integer(text).map(Value::Number)
}
