//! Study files: a small TOML in which every mistake is told with its line.
//!
//! ```toml
//! name = "local-or-not"
//! repeats = 61              # rounds; a verdict takes 61
//! seed = 1                  # of the order
//! factors = "full"          # or "one-at-a-time"
//! reference = "zero"        # a page writer, or "none"
//! warm-up = 3
//! matrix = true             # every node's threads on every node's memory
//! machine-nodes = 2         # of a made-up machine; its memory is a factor
//! # layout = "dmesg.txt"    # or that of a boot log's machine
//!
//! [vary]
//! threads = [1, "powers-of-two"]
//! nodes = ["all"]
//! placement = ["local", "remote", "interleave"]
//! scheduler = ["deque"]
//! policy = ["eager"]        # others are boots, see below
//! writer = ["zero", "stream"]
//! pages = ["4K", "thp", "hugetlb"]
//! memory = ["64G"]
//! ```
//!
//! A policy other than `eager` is combined with what means something to it alone: `deferred` with any
//! placement but `node:N`, `on-demand` and `lazy` with `first-touch` and one scheduler.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use machine::size::ByteSize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Combine, Design, Machine, Rounds, Threads, Unknown, policy, scheduler, writer};

/// Keys of a study file.
const KEYS: &str = "name, repeats, seed, factors, reference, warm-up, matrix, machine-nodes, layout, \
                    and the table [vary]";
/// Keys of its table `vary`.
const FACTORS: &str = "threads, nodes, placement, scheduler, policy, writer, pages, memory";
/// What a name may be.
const NAME: &str = "1 to 100 letters, digits, `-`, `_` and `.`, none of them first but letters and \
                    digits";
/// The most rounds: more is a slip of the finger.
pub const MOST_ROUNDS: u32 = 1_000_000;
/// The largest seed: the largest number of a TOML file.
pub const MOST_SEED: u64 = i64::MAX as u64;

/// Why a study file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DesignError {
    /// It cannot be read.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It has mistakes.
    #[error("{}", shown(file, faults))]
    Faults {
        /// The file.
        file: String,
        /// All of them, by line.
        faults: Vec<Fault>,
    },
}

/// A mistake in a study file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Its line, from 1.
    pub line: usize,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

fn shown(file: &str, faults: &[Fault]) -> String {
    let lines: Vec<String> = faults
        .iter()
        .map(|fault| format!("{file}: {fault}"))
        .collect();
    lines.join("\n")
}

impl Design {
    /// Reads a study file. Its name is that of the file where it gives none.
    ///
    /// # Errors
    /// [`DesignError`]: all mistakes at once.
    pub fn read(path: &Path) -> Result<Self, DesignError> {
        let file = path.display().to_string();
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(source) => return Err(DesignError::Io { file, source }),
        };
        match String::from_utf8(bytes) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let before = &error.as_bytes()[..at];
                let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
                let message = format!("byte {at} of the file is no UTF-8; save it as UTF-8");
                Err(DesignError::Faults {
                    file,
                    faults: vec![Fault { line, message }],
                })
            }
        }
    }

    /// As [`read`](Self::read), from a text; `file` is for messages and for the name.
    ///
    /// # Errors
    /// [`DesignError::Faults`].
    pub fn parse(file: &str, text: &str) -> Result<Self, DesignError> {
        let (table, broken) = DeTable::parse_recoverable(text);
        let mut reader = Reader {
            text,
            faults: Vec::new(),
        };
        for error in broken {
            let at = error.span().unwrap_or(0..0);
            reader.fault(at, format!("not TOML: {}", error.message()));
        }
        let mut design = Self::default();
        if !table.get_ref().contains_key("name") {
            let stem = Path::new(file).file_stem().unwrap_or_default();
            design.name = stem.to_string_lossy().into_owned();
            if !is_name(&design.name) {
                let message = format!(
                    "the study would have its file's name, {:?}; give it a `name`: {NAME}",
                    design.name
                );
                reader.fault(0..0, message);
            }
        }
        reader.top(table.get_ref(), &mut design);
        reader.faults.sort();
        reader.faults.dedup();
        match reader.faults.is_empty() {
            true => Ok(design),
            false => Err(DesignError::Faults {
                file: file.to_owned(),
                faults: reader.faults,
            }),
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn fault(&mut self, at: Range<usize>, message: String) {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        self.faults.push(Fault { line, message });
    }

    fn top(&mut self, table: &DeTable<'_>, design: &mut Design) {
        let mut made_up = None;
        let mut layout = None;
        for (key, value) in table {
            let at = value.span();
            match key.get_ref().as_ref() {
                "name" => {
                    if let Some(name) = self.text(key.get_ref(), value) {
                        match is_name(name) {
                            true => design.name = name.to_owned(),
                            false => self.fault(
                                at,
                                format!("name: {name:?} names a file, too; allowed: {NAME}"),
                            ),
                        }
                    }
                }
                "repeats" => {
                    if let Some(rounds) = self.number("repeats", value, 1..=u64::from(MOST_ROUNDS))
                    {
                        design.rounds = Rounds::Exactly(rounds as usize);
                    }
                }
                "seed" => {
                    if let Some(seed) = self.number("seed", value, 0..=MOST_SEED) {
                        design.seed = seed;
                    }
                }
                "warm-up" => {
                    if let Some(runs) = self.number("warm-up", value, 1..=1000) {
                        design.warm_up = runs as usize;
                    }
                }
                "factors" => {
                    if let Some(name) = self.text("factors", value) {
                        let mut all = Combine::ALL.into_iter();
                        match all.find(|combine| combine.name() == name) {
                            Some(combine) => design.combine = combine,
                            None => self.fault(
                                at,
                                format!("factors: `{name}`; allowed: `full`, `one-at-a-time`"),
                            ),
                        }
                    }
                }
                "reference" => match self.text("reference", value) {
                    Some("none") => design.reference = None,
                    Some(name) => match writer(name) {
                        Ok(writer) => design.reference = Some(writer),
                        Err(error) => self.fault(at, format!("reference: {error}, `none`")),
                    },
                    None => {}
                },
                "matrix" => match value.get_ref().as_bool() {
                    Some(matrix) => design.matrix = matrix,
                    None => self.fault(at, "matrix: allowed: true, false".into()),
                },
                "machine-nodes" => {
                    made_up = self
                        .number("machine-nodes", value, 1..=1024)
                        .map(|nodes| (nodes, at));
                }
                "layout" => layout = self.text("layout", value).map(|path| (path, at)),
                "vary" => match value.get_ref().as_table() {
                    Some(table) => self.vary(table, design),
                    None => self.fault(at, format!("vary: a table with any of {FACTORS}")),
                },
                other => self.fault(
                    key.span(),
                    format!("there is no `{other}`; allowed: {KEYS}"),
                ),
            }
        }
        self.machine(made_up, layout, table, design);
        self.policies(table, design);
    }

    /// What a policy is combined with must mean something to it.
    fn policies(&mut self, table: &DeTable<'_>, design: &Design) {
        let vary = table.get("vary").and_then(|vary| vary.get_ref().as_table());
        let Some(named) = vary.and_then(|vary| vary.get("policy")) else {
            return;
        };
        for senseless in design.senseless() {
            let of = |item: &&Spanned<DeValue<'_>>| {
                item.get_ref().as_str() == Some(senseless.policy.name())
            };
            let items = named.get_ref().as_array().map(|items| items.iter());
            let item = items.and_then(|mut items| items.find(of));
            self.fault(item.unwrap_or(named).span(), senseless.to_string());
        }
    }

    /// Whose memory map it is: three ways to say it exclude each other.
    fn machine(
        &mut self,
        made_up: Option<(u64, Range<usize>)>,
        layout: Option<(&str, Range<usize>)>,
        table: &DeTable<'_>,
        design: &mut Design,
    ) {
        if let Some((path, at)) = layout {
            if made_up.is_some() || !design.memory.is_empty() {
                self.fault(
                    at,
                    "layout: a boot log says itself how much memory there is on which nodes; \
                     allowed: either `layout`, or `memory` with `machine-nodes`"
                        .into(),
                );
            }
            design.machine = Machine::Log(path.into());
        } else if !design.memory.is_empty() {
            let nodes = made_up.map_or(1, |(nodes, _)| nodes);
            design.machine = Machine::MadeUp { nodes };
        } else if let Some((_, at)) = made_up {
            // where memory itself was wrong, that is told already
            let memory = table
                .get("vary")
                .and_then(|vary| vary.get_ref().as_table()?.get("memory"));
            if memory.is_none() {
                self.fault(
                    at,
                    "machine-nodes: a made-up machine needs `memory` under [vary], such as [\"64G\"]"
                        .into(),
                );
            }
        }
    }

    fn vary(&mut self, table: &DeTable<'_>, design: &mut Design) {
        for (key, value) in table {
            let key_text = key.get_ref().as_ref();
            match key_text {
                "threads" => self.list(
                    key_text,
                    value,
                    &mut design.threads,
                    Threads::ALLOWED,
                    str::parse,
                ),
                "nodes" => self.list(
                    key_text,
                    value,
                    &mut design.nodes,
                    super::Nodes::ALLOWED,
                    str::parse,
                ),
                "placement" => {
                    self.list(
                        key_text,
                        value,
                        &mut design.placements,
                        super::Place::ALLOWED,
                        str::parse,
                    );
                }
                "scheduler" => {
                    self.list(key_text, value, &mut design.schedulers, "names", scheduler)
                }
                "policy" => self.list(key_text, value, &mut design.policies, "names", policy),
                "writer" => self.list(key_text, value, &mut design.writers, "names", writer),
                "pages" => self.list(key_text, value, &mut design.pages, "names", str::parse),
                "memory" => self.list(
                    key_text,
                    value,
                    &mut design.memory,
                    "sizes such as \"64G\"",
                    |text| {
                        text.parse::<ByteSize>().map_err(|error| Unknown {
                            text: text.to_owned(),
                            what: "size of memory",
                            allowed: error.to_string(),
                        })
                    },
                ),
                other => self.fault(
                    key.span(),
                    format!("vary: there is no factor `{other}`; allowed: {FACTORS}"),
                ),
            }
        }
    }

    fn list<T: fmt::Debug>(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        into: &mut Vec<T>,
        allowed: &str,
        read: impl Fn(&str) -> Result<T, Unknown>,
    ) {
        let one = std::slice::from_ref(value);
        let items: Vec<&Spanned<DeValue<'_>>> = match value.get_ref().as_array() {
            Some(array) => array.iter().collect(),
            None => one.iter().collect(),
        };
        if items.is_empty() {
            self.fault(
                value.span(),
                format!("{key}: at least one value; allowed: {allowed}"),
            );
            return;
        }
        let mut values = Vec::new();
        // by value, not by text: `1G` and `1024M` are one size; not all values know of equality
        let mut seen: Vec<String> = Vec::new();
        for item in items {
            let text = match item.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                other => {
                    let kind = other.type_str();
                    self.fault(
                        item.span(),
                        format!("{key}: a value may not be a {kind}; allowed: {allowed}"),
                    );
                    continue;
                }
            };
            match read(&text) {
                Ok(value) if seen.contains(&format!("{value:?}")) => {
                    self.fault(
                        item.span(),
                        format!("{key}: `{text}` stands there twice; once is enough"),
                    );
                }
                Ok(value) => {
                    seen.push(format!("{value:?}"));
                    values.push(value);
                }
                Err(error) => self.fault(item.span(), format!("{key}: {error}")),
            }
        }
        if !values.is_empty() {
            *into = values;
        }
    }

    fn text<'v>(&mut self, key: &str, value: &'v Spanned<DeValue<'_>>) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            let kind = value.get_ref().type_str();
            self.fault(
                value.span(),
                format!("{key}: a {kind}; allowed: a text in quotes"),
            );
        }
        text
    }

    fn number(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        allowed: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let number = value
            .get_ref()
            .as_integer()
            .and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        let fits = number.filter(|number| allowed.contains(number));
        if fits.is_none() {
            let (low, high) = (allowed.start(), allowed.end());
            let shown = self.text.get(value.span()).unwrap_or("this").to_owned();
            self.fault(
                value.span(),
                format!("{key}: {shown}; allowed: a whole number from {low} to {high}"),
            );
        }
        fits
    }
}

/// Whether a text can name a study, and its file.
fn is_name(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=100).contains(&name.len())
        && name.chars().all(letters)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_example_of_the_documentation_is_a_study() {
        let text: String = include_str!("file.rs")
            .lines()
            .skip_while(|line| *line != "//! ```toml")
            .skip(1)
            .take_while(|line| *line != "//! ```")
            .map(|line| format!("{}\n", line.trim_start_matches("//!").trim_start()))
            .collect();
        let design = Design::parse("x.toml", &text).unwrap();
        assert_eq!(design.name, "local-or-not");
        assert_eq!(design.machine, Machine::MadeUp { nodes: 2 });
        assert_eq!(design.pages.len(), 3);
        assert!(design.matrix);
    }

    #[test]
    fn a_file_without_anything_is_the_default_by_its_own_name() {
        let design = Design::parse("folder/quiet.toml", "").unwrap();
        assert_eq!(design.name, "quiet");
        assert_eq!(design.rounds, Rounds::Exactly(61));
        let one = Design::parse("x.toml", "[vary]\nthreads = \"all\"\n").unwrap();
        assert_eq!(one.threads, [Threads::All]);
    }

    #[test]
    fn every_mistake_is_told_with_its_line_and_what_is_allowed() {
        let text = r#"name = "../x"
repeats = 0
seed = "one"
factors = "some"
reference = "fast"
matrix = "yes"
colour = "red"
machine-nodes = 5000

[vary]
threads = [1, 0, "lots", 1.5]
nodes = ["-"]
placement = "far"
scheduler = ["cfs"]
policy = ["sometimes"]
writer = ["zero",
          "zero"]
pages = []
memory = ["lots"]
weather = ["fine"]
"#;
        let error = Design::parse("s.toml", text).unwrap_err().to_string();
        expect![[r#"
            s.toml: line 1: name: "../x" names a file, too; allowed: 1 to 100 letters, digits, `-`, `_` and `.`, none of them first but letters and digits
            s.toml: line 2: repeats: 0; allowed: a whole number from 1 to 1000000
            s.toml: line 3: seed: "one"; allowed: a whole number from 0 to 9223372036854775807
            s.toml: line 4: factors: `some`; allowed: `full`, `one-at-a-time`
            s.toml: line 5: reference: `fast` is no page writer; allowed: `memset`, `zero`, `template`, `stream`, `auto`, `none`
            s.toml: line 6: matrix: allowed: true, false
            s.toml: line 7: there is no `colour`; allowed: name, repeats, seed, factors, reference, warm-up, matrix, machine-nodes, layout, and the table [vary]
            s.toml: line 8: machine-nodes: 5000; allowed: a whole number from 1 to 1024
            s.toml: line 11: threads: `0` is no number of threads; allowed: a number from 1, `1..=8`, `1..=N` (all CPUs), `powers-of-two`, `per-node`, `all`
            s.toml: line 11: threads: `lots` is no number of threads; allowed: a number from 1, `1..=8`, `1..=N` (all CPUs), `powers-of-two`, `per-node`, `all`
            s.toml: line 11: threads: a value may not be a float; allowed: a number from 1, `1..=8`, `1..=N` (all CPUs), `powers-of-two`, `per-node`, `all`
            s.toml: line 12: nodes: `-` is no set of nodes; allowed: `all`, `each`, or node numbers such as `0` or `0,1`
            s.toml: line 13: placement: `far` is no placement; allowed: `first-touch`, `local` (bound to the own node, in records `bind`), `interleave`, `remote`, `node:N`
            s.toml: line 14: scheduler: `cfs` is no scheduler; allowed: `static`, `padata`, `deque`, `rayon`
            s.toml: line 15: policy: `sometimes` is no policy; allowed: `eager`, `deferred`, `on-demand`, `lazy`
            s.toml: line 17: writer: `zero` stands there twice; once is enough
            s.toml: line 18: pages: at least one value; allowed: names
            s.toml: line 19: memory: `lots` is no size of memory; allowed: `lots` does not begin with a number; a size is written like 384G, 1536M or 2T
            s.toml: line 20: vary: there is no factor `weather`; allowed: threads, nodes, placement, scheduler, policy, writer, pages, memory"#]]
        .assert_eq(&error);
    }

    #[test]
    fn what_is_no_toml_is_told_with_its_line_too() {
        let error = Design::parse("s.toml", "seed = 1\nrepeats 5\nname = [\n").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("s.toml: line 2: not TOML:"), "{text}");
        assert!(text.contains("line 3"), "{text}");
    }

    #[test]
    fn ways_to_say_whose_memory_it_is_exclude_each_other() {
        let fault = |text: &str| Design::parse("s.toml", text).unwrap_err().to_string();
        let both = fault("layout = \"dmesg.txt\"\n[vary]\nmemory = [\"1G\"]\n");
        assert!(
            both.contains("line 1: layout: a boot log says itself"),
            "{both}"
        );
        let none = fault("\nmachine-nodes = 2\n");
        assert!(
            none.contains("line 2: machine-nodes: a made-up machine needs"),
            "{none}"
        );
    }

    #[test]
    fn a_policy_with_what_means_nothing_to_it_is_told_with_its_line() {
        let text = r#"[vary]
placement = ["local", "first-touch"]
scheduler = ["deque", "padata"]
policy = ["eager",
          "deferred",
          "lazy"]
"#;
        let error = Design::parse("s.toml", text).unwrap_err().to_string();
        expect![[r#"
            s.toml: line 6: policy: `lazy` with 2 schedulers means nothing: sections are written by whoever asks for them; allowed with `lazy`: one scheduler (or factors = "one-at-a-time" with another policy first)
            s.toml: line 6: policy: `lazy` with placement `bind` means nothing: its struct pages lie with whoever touches them first; allowed with `lazy`: placement `first-touch` (or factors = "one-at-a-time" with another policy first)"#]]
        .assert_eq(&error);
        let fine = text.replace("\"lazy\"", "");
        assert!(Design::parse("s.toml", &fine).is_ok());
        let single = Design::parse("s.toml", "[vary]\npolicy = \"lazy\"\n").unwrap();
        assert_eq!(single.policies, [super::super::Policy::Lazy]);
    }

    #[test]
    fn any_text_is_read_or_refused_and_nothing_panics() {
        proptest::proptest!(|(text in "([a-z\\[\\]\"=. 0-9-]|\\n|name|vary|threads|repeats){0,60}")| {
            let _ = Design::parse("s.toml", &text);
        });
    }

    #[test]
    fn one_value_written_in_two_ways_is_told_as_one_that_stands_there_twice() {
        for (key, values) in [
            ("memory", "[\"1G\", \"1024M\"]"),
            ("memory", "[\"1G\", 1073741824]"),
            ("placement", "[\"local\", \"bind\"]"),
            ("threads", "[1, \"1\"]"),
            ("nodes", "[\"0,1\", \"1,0,0\"]"),
            ("writer", "[\"zero\", \"zero\"]"),
            ("scheduler", "[\"deque\", \"deque\"]"),
        ] {
            let text = format!("[vary]\n{key} = {values}\n");
            let error = Design::parse("s.toml", &text).unwrap_err().to_string();
            assert!(
                error.contains("line 2: ") && error.contains("twice"),
                "{error}"
            );
        }
        for (key, values) in [
            ("memory", "[\"1G\", \"2G\"]"),
            ("writer", "[\"zero\", \"stream\"]"),
            ("scheduler", "[\"deque\", \"static\"]"),
        ] {
            let text = format!("[vary]\n{key} = {values}\n");
            assert!(Design::parse("s.toml", &text).is_ok(), "{text}");
        }
    }

    #[test]
    fn the_name_of_a_file_names_a_study_by_the_same_rule() {
        for file in [
            ".toml",
            "\u{fc}n\u{ef} \u{4e2d}.toml",
            "nl\nx.toml",
            "-x.toml",
        ] {
            let error = Design::parse(file, "seed = 1\n").unwrap_err().to_string();
            assert!(error.contains("give it a `name`"), "{error}");
            assert!(Design::parse(file, "name = \"fine\"\n").is_ok());
        }
    }

    #[test]
    fn a_file_that_is_not_utf8_is_told_with_its_byte_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s.toml");
        std::fs::write(&file, b"seed = 1\nname = \"\xfc\"\n").unwrap();
        let error = Design::read(&file).unwrap_err().to_string();
        assert!(error.contains("line 2: byte 17 "), "{error}");
    }
}
