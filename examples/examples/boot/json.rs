//! One machine as a JSON object: the same facts as the text, for programs.

use machine::check::Verdict;
use serde_json::{Value, json};

use super::Boot;
use super::whatif::Changed;

/// The object. Addresses and frames are numbers, sizes are bytes, times are ms.
pub(super) fn object(boot: &Boot, changes: &[Changed]) -> Value {
    let (layout, report, geometry) = (&boot.layout, &boot.report, &boot.geometry);
    let memory = layout.memory.iter().map(|memory| {
        json!({
            "start": memory.range.start().get(),
            "end": memory.range.end().get(),
            "node": memory.node.map(|node| node.get()),
            "flags": memory.flags,
            "line": memory.line,
        })
    });
    let zones = geometry.populated_zones().map(|(node, zone)| {
        json!({
            "node": node.id.get(),
            "zone": zone.kind.to_string(),
            "start_pfn": zone.start.get(),
            "spanned": zone.spanned,
            "present": zone.present,
        })
    });
    let figures = report.figures.iter().map(|figure| {
        let (ours, reason, rule) = match &figure.verdict {
            Verdict::Differs { ours } => (ours.clone(), None, None),
            Verdict::CannotKnow(reason) => (None, Some(reason.to_string()), Some(reason.rule())),
            _ => (None, None, None),
        };
        json!({
            "line": figure.at.line,
            "text": figure.at.text,
            "figure": figure.what,
            "verdict": figure.verdict.name(),
            "ours": ours,
            "reason": reason,
            "rule": rule,
        })
    });
    let tally = report.tally();
    let profile = &report.profile;
    let sections = geometry.sections();
    let text = |list: Vec<String>| list;
    json!({
        "file": layout.file,
        "release": layout.release.as_ref().map(|release| &release.text),
        "arch": layout.architecture.map(|arch| arch.name()),
        "machine": layout.machine,
        "command_line": layout.command_line,
        "model": profile.to_string(),
        "nearest": report.choice.nearest().to_string(),
        "provenance": layout.provenance.to_string(),
        "contradictions": text(layout.provenance.contradictions.iter().map(ToString::to_string).collect()),
        "missing": text(layout.provenance.missing.iter().map(|part| part.name().to_owned()).collect()),
        "unreadable": text(layout.problems.iter().map(ToString::to_string).collect()),
        "warnings": text(boot.warnings.iter().map(ToString::to_string).collect()),
        "memory": memory.collect::<Vec<_>>(),
        "memoryless": layout.memoryless.iter().map(|node| node.get()).collect::<Vec<_>>(),
        "zones": zones.collect::<Vec<_>>(),
        "memmap": {
            "bytes": boot.memmap_bytes(),
            "sections": sections.count(),
            "pages_per_section": sections.pages_per_section(),
            "struct_page_bytes": profile.struct_page_bytes,
        },
        "expected": boot.expectation.as_ref().map(|expectation| {
            let writers = expectation.writers.iter().flat_map(|(name, times)| {
                expectation.threads.iter().zip(times).map(move |(threads, ns)| {
                    json!({
                        "writer": name,
                        "threads": threads,
                        "ms": ns * expectation.pages as f64 / 1e6,
                    })
                })
            });
            writers.collect::<Vec<_>>()
        }),
        "inferred": text(report.inferences.iter().map(ToString::to_string).collect()),
        "figures": figures.collect::<Vec<_>>(),
        "tally": {
            "equal": tally.equal,
            "differs": tally.differs,
            "input": tally.input,
            "cannot_know": tally.cannot_know,
        },
        "verdict": boot.verdict().0,
        "changes": changes.iter().map(|changed| json!({
            "with": changed.name,
            "differences": changed.lines,
        })).collect::<Vec<_>>(),
    })
}
