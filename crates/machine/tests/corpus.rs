//! Boot logs of real machines, where they lie beside the project.

use std::path::Path;

use machine::check::{self, Tally};
use machine::{Architecture, BootLog, LayoutError, MachineLayout};

/// The logs of the corpus with the architecture that its index names.
fn logs() -> Vec<(std::path::PathBuf, String)> {
    let folder = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/dmesg"
    ));
    let Ok(index) = std::fs::read_to_string(folder.join("INDEX.tsv")) else {
        eprintln!("SKIPPED: {} is not there", folder.display());
        return Vec::new();
    };
    let row = |line: &str| {
        let mut columns = line.split('\t');
        let file = columns.next().filter(|file| file.ends_with(".txt"))?;
        Some((folder.join(file), columns.nth(1)?.to_owned()))
    };
    index.lines().filter_map(row).collect()
}

#[test]
fn the_architecture_of_every_machine_is_the_one_that_the_index_names_or_unknown() {
    for (file, named) in logs() {
        let Ok(log) = BootLog::open(&file) else {
            eprintln!("no boot log: {}", file.display());
            continue;
        };
        let Some(found) = log.identity.architecture else {
            eprintln!("unknown: {} ({named})", file.display());
            continue;
        };
        let expected: &[Architecture] = match named.as_str() {
            "x86_64" => &[Architecture::Amd64],
            "x86_32" => &[Architecture::X86],
            "arm64" => &[Architecture::Arm64],
            "arm32" => &[Architecture::Arm],
            "ppc64" => &[Architecture::Ppc64],
            "ppc32" => &[Architecture::Ppc],
            "riscv" => &[Architecture::Riscv64],
            "mips" | "mips64" => &[Architecture::Mips, Architecture::Loongarch],
            "sparc64" => &[Architecture::Sparc64],
            "ia64" => &[Architecture::Ia64],
            "parisc" => &[Architecture::Parisc],
            "alpha" => &[Architecture::Alpha],
            other => panic!("the index names {other}"),
        };
        assert!(
            expected.contains(&found),
            "{}: {found}, not {named}",
            file.display()
        );
    }
}

#[test]
fn at_least_95_percent_of_the_figures_of_all_machines_agree() {
    let mut sum = Tally::default();
    let logs = logs();
    for (file, _) in &logs {
        let Ok(log) = BootLog::open(file) else {
            continue;
        };
        let layout = match MachineLayout::from_log(&log) {
            Ok(layout) => layout,
            Err(error @ (LayoutError::NotModelled { .. } | LayoutError::FrontLost { .. })) => {
                eprintln!("SKIPPED: {error}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let tally = check::check(&layout).tally();
        eprintln!("{}: {tally}", file.display());
        sum.add(tally);
    }
    eprintln!("all: {sum}");
    let compared = sum.equal + sum.differs;
    assert!(
        logs.is_empty() || compared > 0,
        "nothing was compared: {sum}"
    );
    assert!(sum.equal * 100 >= compared * 95, "{sum}");
}
