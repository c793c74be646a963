//! Pages of `docs` against the code.
//!
//! `porting-map.md` has a row for every kernel name that an item carries as `doc(alias)`, with that
//! item, and no other row; `not-modelled.md` names nothing that an item carries;
//! `dependencies.md` names every crate that the workspace declares.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::{dependencies, launch};

/// Crates that model Linux; aliases of others are names of system calls and the like.
const MODELS: [&str; 4] = ["memblock", "memmap-core", "zone-device", "deferred-init"];

/// A kernel name and the item that carries it: its own name, without what it is in.
type Pair = (String, String);

/// Checks; fails where something is missing, with what to do.
pub(crate) fn run(args: &[String]) -> ExitCode {
    if !args.is_empty() {
        eprintln!("usage: cargo xtask tidy");
        return ExitCode::from(2);
    }
    match check() {
        Ok(wrong) if wrong.is_empty() => ExitCode::SUCCESS,
        Ok(wrong) => {
            for line in &wrong {
                eprintln!("tidy: {line}");
            }
            eprintln!("tidy: {} things to do", wrong.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tidy: {error}");
            ExitCode::from(2)
        }
    }
}

fn check() -> io::Result<Vec<String>> {
    let root = launch::root();
    let mut carried = BTreeSet::new();
    for name in MODELS {
        for file in sources(&root.join("crates").join(name).join("src"))? {
            carried.extend(aliases(&fs::read_to_string(file)?));
        }
    }
    let map = fs::read_to_string(root.join("docs/porting-map.md"))?;
    let not = fs::read_to_string(root.join("docs/not-modelled.md"))?;
    let mut wrong = compare(&carried, &map);
    let names: BTreeSet<&str> = carried.iter().map(|(name, _)| name.as_str()).collect();
    for row in rows(&not) {
        if let Some(name) = row.first().filter(|name| names.contains(name.as_str())) {
            wrong.push(format!(
                "docs/not-modelled.md: {name} is modelled by an item"
            ));
        }
    }
    wrong.extend(dependencies::compare(
        &fs::read_to_string(root.join("Cargo.toml"))?,
        &fs::read_to_string(root.join("docs/dependencies.md"))?,
    ));
    let (there, listed) = (carried.len(), rows(&map).len());
    println!("porting-map.md: {listed} rows, {there} names in the code");
    println!("not-modelled.md: {} rows", rows(&not).len());
    Ok(wrong)
}

/// What the map lacks, and what it has too much.
fn compare(carried: &BTreeSet<Pair>, map: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut listed = BTreeSet::new();
    for row in rows(map) {
        let [name, item, section, kernels] = &row[..] else {
            wrong.push(format!("docs/porting-map.md: {row:?} has not four columns"));
            continue;
        };
        if section.is_empty() || kernels.is_empty() {
            wrong.push(format!(
                "docs/porting-map.md: {name} has no section or no kernels"
            ));
        }
        let own = item.rsplit("::").next().unwrap_or(item);
        let pair = (name.clone(), own.to_owned());
        if !carried.contains(&pair) {
            wrong.push(format!(
                "docs/porting-map.md: no item {own} carries doc(alias = \"{name}\"): \
                 take the row out or mend it"
            ));
        }
        if !listed.insert(pair) {
            wrong.push(format!(
                "docs/porting-map.md: {name}, {item} is there twice"
            ));
        }
    }
    for (name, item) in carried.difference(&listed) {
        wrong.push(format!(
            "docs/porting-map.md: {item} carries doc(alias = \"{name}\"): add a row"
        ));
    }
    wrong
}

/// The cells of every row of a page's tables whose first cell is code.
fn rows(page: &str) -> Vec<Vec<String>> {
    page.lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells = line.trim_matches(|c| c == '|' || c == ' ').split(" | ");
            cells.map(|cell| cell.trim().replace('`', "")).collect()
        })
        .collect()
}

/// All Rust files below `folder`.
fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// The aliases in a file, each with the name of the item that it stands on.
fn aliases(text: &str) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut waiting: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[doc(alias = \"") {
            waiting.extend(rest.split('"').next().map(String::from));
            continue;
        }
        let passed = line.is_empty() || line.starts_with("//") || line.starts_with('#');
        if waiting.is_empty() || passed {
            continue;
        }
        let item = item(line);
        pairs.extend(waiting.drain(..).map(|name| (name, item.clone())));
    }
    pairs
}

/// The name that a line gives to something: what stands behind its keywords.
fn item(line: &str) -> String {
    const KEYWORDS: [&str; 12] = [
        "pub", "const", "unsafe", "extern", "fn", "struct", "enum", "trait", "static", "type",
        "mod", "union",
    ];
    let words = line
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty());
    let mut name =
        words.skip_while(|word| KEYWORDS.contains(word) || *word == "crate" || *word == "super");
    name.next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = r#"
        /// Says.
        #[doc(alias = "one_thing")]
        #[doc(alias = "other_thing")]
        #[must_use]
        pub(crate) const fn ours(self) -> u64 {
        #[doc(alias = "A_FLAG")]
        const FLAG = 1;
    "#;

    #[test]
    fn a_name_belongs_to_the_item_below_it() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            aliases(CODE),
            [
                pair("one_thing", "ours"),
                pair("other_thing", "ours"),
                pair("A_FLAG", "FLAG")
            ]
        );
    }

    #[test]
    fn what_the_map_lacks_and_what_it_has_too_much_is_found() {
        let carried: BTreeSet<Pair> = aliases(CODE).into_iter().collect();
        let map = "| name |\n|---|\n| `one_thing` | `a::B::ours` | 2.1 | all |\n\
                   | `other_thing` | `a::B::ours` | 2.1 | all |\n";
        let wrong = compare(&carried, map);
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].contains("FLAG carries"));
        let whole = format!("{map}| `A_FLAG` | `a::FLAG` | 3 | 7.3 |\n");
        assert!(compare(&carried, &whole).is_empty());
        for bad in [
            "| `gone` | `a::ours` | 2.1 | all |\n",
            "| `A_FLAG` | `a::FLAG` | 3 | 7.3 |\n",
            "| `A_FLAG` | `a::FLAG` | 3 |\n",
        ] {
            assert_eq!(
                compare(&carried, &format!("{whole}{bad}")).len(),
                1,
                "{bad}"
            );
        }
    }
}
