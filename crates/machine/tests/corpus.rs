//! Boot logs of real machines, where they lie beside the project.

use std::path::PathBuf;

use machine::check::{self, Tally, Verdict};
use machine::{Architecture, BootLog, LayoutError, MachineLayout};

/// The logs of the corpus with the architecture that its index names.
fn logs() -> Vec<(PathBuf, String)> {
    let Some(path) = captures::file("dmesg", "INDEX.tsv") else {
        return Vec::new();
    };
    let index = std::fs::read_to_string(&path).expect("the index is text");
    let row = |line: &str| {
        let mut columns = line.split('\t');
        let file = columns.next().filter(|file| file.ends_with(".txt"))?;
        Some((captures::file("dmesg", file)?, columns.nth(1)?.to_owned()))
    };
    let logs: Vec<_> = index.lines().filter_map(row).collect();
    assert!(!logs.is_empty(), "{} names no log", path.display());
    logs
}

#[test]
fn the_architecture_of_every_machine_is_the_one_that_the_index_names_or_unknown() {
    let (logs, mut named_alike) = (logs(), 0);
    for (file, named) in &logs {
        let Ok(log) = BootLog::open(file) else {
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
        named_alike += 1;
    }
    // an excerpt may not say what it is an excerpt of; most logs are whole
    assert!(2 * named_alike >= logs.len(), "{named_alike}");
}

/// Every machine of the corpus that is modelled.
fn machines() -> Vec<MachineLayout> {
    let mut out = Vec::new();
    let logs = logs();
    for (file, _) in &logs {
        let Ok(log) = BootLog::open(file) else {
            continue;
        };
        match MachineLayout::from_log(&log) {
            Ok(layout) => out.push(layout),
            Err(error @ (LayoutError::NotModelled { .. } | LayoutError::FrontLost { .. })) => {
                captures::skipped(&format!("{error}"));
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(logs.is_empty() || !out.is_empty(), "no machine is modelled");
    out
}

fn is_modelled(layout: &MachineLayout) -> bool {
    layout
        .architecture
        .and_then(Architecture::modelled)
        .is_some()
}

/// The sum over machines of a release that `of` names.
fn sum(machines: &[MachineLayout], of: impl Fn((u16, u16)) -> bool) -> Tally {
    let mut sum = Tally::default();
    for layout in machines.iter().filter(|layout| is_modelled(layout)) {
        let number = layout.release.as_ref().map(|release| release.number());
        if number.is_some_and(&of) {
            let tally = check::check(layout).tally();
            eprintln!("{}: {tally}", layout.file);
            sum.add(tally);
        }
    }
    eprintln!("all: {sum}");
    sum
}

#[test]
fn at_least_95_percent_of_the_figures_of_5_12_and_later_are_equal_and_the_rest_is_excused() {
    let machines = machines();
    if machines.is_empty() {
        return;
    }
    let sum = sum(&machines, |number| number >= (5, 12));
    assert!(sum.equal > 0, "nothing was compared: {sum}");
    assert!(sum.equal_share() >= 95.0, "{sum}");
    assert_eq!(sum.differs, 0, "what differs has no rule: {sum}");
    let not_input = sum.equal + sum.differs + sum.cannot_know;
    assert!(
        sum.equal * 100 >= 95 * not_input,
        "rules excuse too much: {sum}"
    );
}

#[test]
fn ranges_totals_memmap_pages_and_batches_of_4_0_to_5_11_are_equal() {
    let machines = machines();
    let mut counted = std::collections::BTreeMap::new();
    for layout in machines.iter().filter(|layout| is_modelled(layout)) {
        let number = layout.release.as_ref().map(|release| release.number());
        if !number.is_some_and(|number| ((4, 0)..(5, 12)).contains(&number)) {
            continue;
        }
        for figure in check::check(layout).figures {
            if [
                "zone range",
                "early node range",
                "totalpages",
                "memmap pages",
                "LIFO batch",
                "zone pages",
            ]
            .contains(&figure.what)
            {
                let differs = matches!(figure.verdict, Verdict::Differs { .. });
                assert!(!differs, "{}: {figure:?}", layout.file);
                if figure.verdict == Verdict::Equal {
                    *counted.entry(figure.what).or_insert(0) += 1;
                }
            }
        }
    }
    eprintln!("{counted:?}");
    assert!(machines.is_empty() || counted.len() == 6, "{counted:?}");
}

#[test]
fn every_rule_that_excuses_a_figure_is_written_down() {
    let rules = include_str!("../../../docs/checks.md");
    for layout in machines() {
        for figure in check::check(&layout).figures {
            if let Verdict::CannotKnow(reason) = figure.verdict {
                let row = format!("| `{}` |", reason.rule());
                assert!(
                    rules.contains(&row),
                    "{}: {figure:?}: no {row}",
                    layout.file
                );
            }
        }
    }
}
