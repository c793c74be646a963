//! One machine as text, no wider than a terminal.

use std::io::{self, Write};

use machine::check::{Checked, Verdict};
use machine::size::ByteSize;
use study::table::{Align, Table};

use super::Boot;
use super::whatif::Changed;

/// Columns of a terminal.
const WIDTH: usize = 100;

/// Ranges and zones that are shown one by one.
const MOST: usize = 60;

/// Prints everything about `boot` but what would change.
pub(super) fn machine(out: &mut impl Write, boot: &Boot) -> io::Result<()> {
    head(out, boot)?;
    layout(out, boot)?;
    zones(out, boot)?;
    memmap(out, boot)?;
    writeln!(out, "\ninferred")?;
    for inference in &boot.report.inferences {
        wrapped(out, 2, &inference.to_string())?;
    }
    writeln!(out, "\nfigures of the kernel's beside ours")?;
    figures(out, &boot.report.figures)
}

fn head(out: &mut impl Write, boot: &Boot) -> io::Result<()> {
    let (layout, choice) = (&boot.layout, &boot.report.choice);
    writeln!(out, "{}", layout.file)?;
    let release = layout
        .release
        .as_ref()
        .map_or("not told", |release| &release.text);
    let arch = layout.architecture.map_or("not told", |arch| arch.name());
    wrapped(out, 2, &format!("kernel {release}, architecture {arch}"))?;
    let guessed = match (choice.version.1, choice.arch.1) {
        (true, true) => "",
        (false, true) => "; the release is a guess",
        (true, false) => "; the architecture is a guess",
        (false, false) => "; release and architecture are guesses",
    };
    wrapped(
        out,
        2,
        &format!("modelled as {}{guessed}", boot.report.profile),
    )?;
    if let Some(machine) = &layout.machine {
        wrapped(out, 2, machine)?;
    }
    wrapped(out, 2, &layout.provenance.to_string())?;
    for contradiction in &layout.provenance.contradictions {
        wrapped(out, 2, &format!("contradiction: {contradiction}"))?;
    }
    for problem in layout.problems.iter() {
        wrapped(out, 2, &format!("unreadable: {problem}"))?;
    }
    for warning in &boot.warnings {
        wrapped(out, 2, &format!("warning: {warning}"))?;
    }
    Ok(())
}

fn layout(out: &mut impl Write, boot: &Boot) -> io::Result<()> {
    let mut table = Table::new([
        ("node", Align::Right),
        ("memory from", Align::Right),
        ("to", Align::Right),
        ("size", Align::Right),
        ("flags", Align::Left),
    ]);
    for memory in boot.layout.memory.iter().take(MOST) {
        let flags = memblock::MemblockFlags::from_bits_retain(memory.flags);
        let names: Vec<_> = flags
            .iter_names()
            .map(|(name, _)| name.to_lowercase())
            .collect();
        table.row([
            memory.node.map_or("-".to_owned(), |node| node.to_string()),
            format!("{:#x}", memory.range.start().get()),
            format!("{:#x}", memory.range.end().get()),
            ByteSize(memory.range.len()).to_string(),
            names.join(" "),
        ]);
    }
    write!(out, "\n{table}")?;
    more(out, boot.layout.memory.len())
}

fn zones(out: &mut impl Write, boot: &Boot) -> io::Result<()> {
    let mut table = Table::new([
        ("node", Align::Right),
        ("zone", Align::Left),
        ("start pfn", Align::Right),
        ("spanned", Align::Right),
        ("present", Align::Right),
    ]);
    let zones: Vec<_> = boot.geometry.populated_zones().collect();
    for (node, zone) in zones.iter().take(MOST) {
        table.row([
            node.id.to_string(),
            zone.kind.to_string(),
            format!("{:#x}", zone.start.get()),
            zone.spanned.to_string(),
            zone.present.to_string(),
        ]);
    }
    write!(out, "\n{table}")?;
    more(out, zones.len())
}

fn more(out: &mut impl Write, rows: usize) -> io::Result<()> {
    match rows.checked_sub(MOST) {
        Some(more) if more > 0 => writeln!(out, "  … and {more} more"),
        _ => Ok(()),
    }
}

fn memmap(out: &mut impl Write, boot: &Boot) -> io::Result<()> {
    let sections = boot.geometry.sections();
    let (count, pages) = (sections.count(), sections.pages_per_section());
    writeln!(
        out,
        "\nmemory map: {}, {count} sections of {pages} struct pages of {} bytes",
        ByteSize(boot.memmap_bytes()),
        boot.geometry.profile().struct_page_bytes,
    )?;
    for node in boot.geometry.nodes() {
        if let Some(pfn) = boot.geometry.first_deferred(node.id) {
            writeln!(
                out,
                "  node {}: written late from pfn {:#x} on",
                node.id,
                pfn.get()
            )?;
        }
    }
    match &boot.expectation {
        Some(expectation) => write!(out, "{expectation}"),
        None => Ok(()),
    }
}

/// Our verdict on every line of the kernel's, and our own line where it is another.
fn figures(out: &mut impl Write, figures: &[Checked]) -> io::Result<()> {
    let line = |verdict: &str, number: &str, what: &str, text: &str| {
        let row = format!("  {verdict:11} {number:>5}  {what:19} {text}");
        cut(row.trim_end(), WIDTH)
    };
    writeln!(
        out,
        "{}",
        line("ours", "line", "figure", "the kernel printed")
    )?;
    let mut before = 0;
    for figure in figures {
        let (number, text) = match figure.at.line {
            0 => (String::new(), "(no such line)".to_owned()),
            // A line with several figures is shown once.
            line if line == before => (String::new(), String::new()),
            line => (line.to_string(), figure.at.text.trim().to_owned()),
        };
        before = figure.at.line;
        let verdict = figure.verdict.name();
        writeln!(out, "{}", line(verdict, &number, figure.what, &text))?;
        let remark = match &figure.verdict {
            Verdict::Differs { ours: Some(ours) } => format!("we print: {ours}"),
            Verdict::Differs { ours: None } => "we print no such line".to_owned(),
            Verdict::CannotKnow(reason) => reason.to_string(),
            _ => continue,
        };
        writeln!(out, "{:40}{}", "", cut(&remark, WIDTH - 40))?;
    }
    Ok(())
}

/// Prints what would change.
pub(super) fn changes(out: &mut impl Write, changes: &[Changed]) -> io::Result<()> {
    for changed in changes {
        writeln!(out, "\nwith {}", changed.name)?;
        if changed.lines.is_empty() {
            writeln!(out, "  nothing of the memory map would change")?;
        }
        for line in changed.lines.iter().take(MOST) {
            wrapped(out, 2, line)?;
        }
        more(out, changed.lines.len())?;
    }
    Ok(())
}

fn cut(text: &str, width: usize) -> String {
    let mut shown: String = text.chars().take(width).collect();
    if shown.len() < text.len() {
        shown.pop();
        shown.push('…');
    }
    shown
}

/// `text` in lines of at most [`WIDTH`] columns, the first indented by `indent`.
fn wrapped(out: &mut impl Write, indent: usize, text: &str) -> io::Result<()> {
    let mut line = " ".repeat(indent);
    let mut empty = true;
    for word in text.split_whitespace() {
        let fits = line.chars().count() + 1 + word.chars().count() <= WIDTH;
        if !empty && !fits {
            writeln!(out, "{line}")?;
            line = " ".repeat(indent + 2);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{line}")
}
