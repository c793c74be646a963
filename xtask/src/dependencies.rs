//! `docs/dependencies.md` against the root `Cargo.toml`.

use std::collections::BTreeSet;

/// What the page lacks, and what it has too much.
pub(crate) fn compare(manifest: &str, page: &str) -> Vec<String> {
    let declared = declared(manifest);
    let listed = listed(page);
    let missing = declared
        .difference(&listed)
        .map(|name| format!("docs/dependencies.md: {name} is declared in Cargo.toml: add a row"));
    let gone = listed.difference(&declared).map(|name| {
        format!("docs/dependencies.md: {name} is not declared in Cargo.toml: take it out")
    });
    missing.chain(gone).collect()
}

/// The crates of others that the workspace declares.
fn declared(manifest: &str) -> BTreeSet<&str> {
    manifest
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#') && !line.contains("path = "))
        .filter_map(|line| Some(line.split_once('=')?.0.trim()))
        .collect()
}

/// The crates that the first cells of the page's table name.
fn listed(page: &str) -> BTreeSet<&str> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .skip(1)
        .flat_map(|names| names.split(", "))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "\
[workspace]
[workspace.dependencies]
own = { path = \"crates/own\" }
# what for
rayon = \"1\"
serde = { version = \"1\", features = [\"derive\"] }

[profile.dev]
debug = 1
";

    #[test]
    fn a_page_that_names_what_is_declared_is_in_order() {
        let page = "| crate | what |\n|---|---|\n| rayon, serde | both |\n";
        assert_eq!(compare(MANIFEST, page), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_and_what_is_gone_are_named() {
        let page = "| crate | what |\n|---|---|\n| rayon | one |\n| clap | gone |\n";
        let wrong = compare(MANIFEST, page);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("serde is declared"));
        assert!(wrong[1].contains("clap is not declared"));
    }
}
