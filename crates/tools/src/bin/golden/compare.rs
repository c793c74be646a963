//! Our memory map beside a capture's.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use machine::{Capture, MachineLayout};
use memblock::{Pfn, PfnRange};
use memmap_core::{
    BackingOptions, BootOptions, ByteOrder, Geometry, MemoryMap, PageFlag, PageKind, Profile,
    StructPage, StructPageSize, ZoneKind, writers,
};

use tools::blocks::{BlocksOutcome, CapturedBlocks};
use tools::device_golden;

use crate::classify::{Words, classify};
use crate::later::{Later, Since};
use crate::pages::{OWN_LIST, Pages, Run, WORDS};

/// Unequal pages that are shown of a capture.
const SHOWN: u64 = 10;

/// What became of one capture.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Zone figures: equal, compared.
    pub(crate) zones: (u64, u64),
    /// Lines of unavailable ranges: equal, compared.
    pub(crate) gaps: (u64, u64),
    pub(crate) listed: u64,
    pub(crate) compared: u64,
    pub(crate) equal: u64,
    /// Of the equal ones, given back or reserved since hand-over, as the log tells.
    pub(crate) explained: u64,
    pub(crate) in_use: u64,
    pub(crate) heads: u64,
    /// Reserved at hand-over and free now, where the log ends before it could say so: neither
    /// compared nor equal.
    pub(crate) unexplained: u64,
    pub(crate) unequal: u64,
    /// Struct pages of devices: equal, compared.
    pub(crate) device: (u64, u64),
    /// Free blocks and figures of the page allocator.
    pub(crate) blocks: BlocksOutcome,
    /// What is wrong, for people.
    pub(crate) notes: Vec<String>,
    /// What the capture lacks without which nothing can be called equal.
    pub(crate) missing: Vec<String>,
    pub(crate) arch: &'static str,
}

impl Outcome {
    pub(crate) fn is_equal(&self) -> bool {
        self.unequal == 0
            && self.zones.0 == self.zones.1
            && self.gaps.0 == self.gaps.1
            && self.blocks.is_equal()
    }

    /// Per cent of the listed pages that are compared.
    pub(crate) fn share(&self) -> f64 {
        100.0 * self.compared as f64 / self.listed.max(1) as f64
    }
}

/// Compares the capture in `path`.
pub(crate) fn capture(path: &Path) -> Result<Outcome, Box<dyn std::error::Error>> {
    let pages = Pages::open(path)?;
    let capture = Capture::open(path)?;
    let whole = capture.whole == Some(true);
    // a heading alone says nothing of zones
    let zoneinfo = capture.zoneinfo.clone();
    let zoneinfo = zoneinfo.filter(|info| !info.zones().is_empty());
    let layout = MachineLayout::from_capture(capture)?;
    let memblock = layout.memblock()?;
    let command_line = layout.command_line.as_deref().unwrap_or_default();
    let mut options = BootOptions::from_command_line(command_line)?;
    options.memoryless = layout.memoryless.clone();
    let profile = layout.profile();
    let geometry = Geometry::new(&profile, &memblock, &options)?;

    let mut outcome = Outcome {
        arch: profile.arch.name(),
        ..Outcome::default()
    };
    for line in &pages.broken {
        outcome
            .notes
            .push(format!("line {line} is no run of struct pages"));
        outcome.unequal += 1;
    }
    if let Some(zoneinfo) = &zoneinfo {
        compare_zones(&geometry, zoneinfo, &mut outcome);
    }
    compare_devices(path, &geometry, zoneinfo.as_ref(), &mut outcome)?;
    compare_gaps(&geometry, &layout, &mut outcome);

    let mut backing = BackingOptions::default();
    backing.poison = true;
    let map = MemoryMap::new(geometry, backing)?;
    let writer = writers::by_name("template").ok_or("there is a page writer \"template\"")?;
    for section in map.geometry().sections().iter() {
        let mut claim = map.claim(section).ok_or("nobody else claims sections")?;
        claim.write(writer);
        claim.publish();
    }
    let report = map.check();
    if !report.is_clean() {
        outcome.unequal += report.count;
        outcome
            .notes
            .push(format!("our own map is wrong: {report}"));
    }
    let mut later = Later::read(path, &profile, &pages)?;
    for run in &pages.runs {
        compare_run(&map, run, &mut later, &mut outcome);
    }
    outcome.notes.extend(later.notes());
    let blocks = CapturedBlocks::read(BufReader::new(File::open(path)?))?;
    outcome.blocks = blocks.compare(map);
    outcome.missing = missing(zoneinfo.is_some(), whole, &pages, &outcome);
    Ok(outcome)
}

/// What a capture has to have, and this one has not.
fn missing(zoneinfo: bool, whole: bool, pages: &Pages, outcome: &Outcome) -> Vec<String> {
    let mut missing = Vec::new();
    if !zoneinfo {
        missing.push("zones (@@zoneinfo)".to_owned());
    }
    match pages.lost() {
        _ if pages.runs.is_empty() => missing.push("struct pages (@@pages)".to_owned()),
        (0, _) => {}
        (lost, all) => missing.push(format!("{lost} struct pages of {all} in its segments")),
    }
    if outcome.listed > 0 && outcome.compared == 0 && outcome.unequal == 0 {
        missing.push("struct pages that show their initialisation".to_owned());
    }
    if !whole {
        missing.push("its end (@@end)".to_owned());
    }
    missing
}

/// Compares struct pages of devices, and the zones that span them.
fn compare_devices(
    path: &Path,
    geometry: &Geometry,
    zoneinfo: Option<&machine::ZoneInfo>,
    outcome: &mut Outcome,
) -> Result<(), Box<dyn std::error::Error>> {
    let profile = geometry.profile();
    let section = profile.pages_per_section();
    let boot: Vec<PfnRange> = geometry
        .sections()
        .iter()
        .map(|number| number.pfns(section))
        .collect();
    // a device lies on the node whose memory is around it
    let node_of = |pfn| {
        let around = geometry
            .nodes()
            .iter()
            .filter(|node| node.span.contains(pfn));
        around.map(|node| node.id).next_back().unwrap_or_default()
    };
    let capture = BufReader::new(File::open(path)?);
    let found = device_golden::compare(capture, profile, node_of, &boot)?;
    outcome.device = (found.equal, found.compared);
    outcome.unequal += found.compared - found.equal;
    if !found.is_equal() && found.compared == found.equal {
        outcome.unequal += 1;
    }
    outcome.notes.extend(found.notes);

    let zones = zoneinfo.map(|info| info.zones()).into_iter().flatten();
    for zone in zones.filter(|zone| zone.zone == ZoneKind::Device) {
        let own = found
            .devices
            .iter()
            .filter(|pfns| node_of(pfns.start()) == zone.node);
        let first = own
            .clone()
            .map(|pfns| pfns.start().get())
            .min()
            .unwrap_or(0);
        let end = own.map(|pfns| pfns.end().get()).max().unwrap_or(0);
        // a zone without present pages is listed without its start
        let start = zone
            .start_pfn
            .map(|start| ("start_pfn", start.get(), first));
        let figures = [
            ("spanned", zone.spanned, end - first),
            ("present", zone.present, 0),
        ];
        for (name, theirs, ours) in figures.into_iter().chain(start) {
            outcome.zones.1 += 1;
            if theirs == ours {
                outcome.zones.0 += 1;
            } else {
                let node = zone.node;
                let note = format!("node {node} zone Device: {name} is {theirs}, ours {ours}");
                outcome.notes.push(note);
            }
        }
    }
    for pfns in &found.devices {
        let node = node_of(pfns.start());
        if zoneinfo.is_some_and(|info| info.zone(node, ZoneKind::Device).is_none()) {
            outcome.zones.1 += 1;
            let note = format!("node {node} zone Device: not listed, ours has frames {pfns}");
            outcome.notes.push(note);
        }
    }
    Ok(())
}

fn compare_zones(geometry: &Geometry, theirs: &machine::ZoneInfo, outcome: &mut Outcome) {
    for zone in theirs.zones() {
        if zone.zone == ZoneKind::Device {
            continue;
        }
        let ours = geometry
            .zone_figures()
            .find(|ours| (ours.node, ours.zone) == (zone.node, zone.zone));
        let figures = [
            ("spanned", Some(zone.spanned), ours.map(|z| z.spanned)),
            ("present", Some(zone.present), ours.map(|z| z.present)),
            (
                "start_pfn",
                zone.start_pfn.map(Pfn::get),
                ours.and_then(|z| z.start_pfn).map(Pfn::get),
            ),
        ];
        for (name, theirs, ours) in figures {
            outcome.zones.1 += 1;
            if theirs == ours {
                outcome.zones.0 += 1;
            } else {
                outcome.notes.push(format!(
                    "node {} zone {}: {name} is {theirs:?}, ours {ours:?}",
                    zone.node, zone.zone
                ));
            }
        }
    }
    // What only we have: as many figures as would have been compared, none of them equal.
    for ours in geometry.zone_figures().filter(|zone| zone.present > 0) {
        if theirs.zone(ours.node, ours.zone).is_none() {
            outcome.zones.1 += 3;
            outcome.notes.push(format!(
                "node {} zone {}: not listed, ours has {} pages present of {} spanned",
                ours.node, ours.zone, ours.present, ours.spanned
            ));
        }
    }
}

fn compare_gaps(geometry: &Geometry, layout: &MachineLayout, outcome: &mut Outcome) {
    let theirs: Vec<_> = layout.figures.unavailable().collect();
    let ours: Vec<_> = geometry
        .holes()
        .iter()
        .map(|hole| {
            (
                hole.node,
                geometry.profile().zones.kind(hole.zone),
                hole.pages,
            )
        })
        .collect();
    outcome.gaps.1 = theirs.len().max(ours.len()) as u64;
    for at in 0..theirs.len().max(ours.len()) {
        let (theirs, ours) = (theirs.get(at), ours.get(at));
        let same = matches!((theirs, ours), (Some(theirs), Some(ours))
            if theirs.0 == Some(ours.0) && Some(theirs.1) == ours.1 && theirs.2 == ours.2);
        if same {
            outcome.gaps.0 += 1;
        } else {
            outcome
                .notes
                .push(format!("unavailable range {at}: {theirs:?}, ours {ours:?}"));
        }
    }
}

fn compare_run(map: &MemoryMap, run: &Run, later: &mut Later, outcome: &mut Outcome) {
    outcome.listed += run.pfns.len();
    let words = classify(map.profile(), &run.words);
    if words == Words::InUse {
        outcome.in_use += run.pfns.len();
        return;
    }
    // By our own runs, so that frames that we do not have cost nothing, however many are listed.
    let mut next = run.pfns.start();
    for ours in map.geometry().page_runs_within(run.pfns) {
        compare_absent(map, run, PfnRange::new(next, ours.pfns.start()), outcome);
        for pfn in ours.pfns.iter() {
            compare_page(map, run, (pfn, ours.kind), words, later, outcome);
        }
        next = ours.pfns.end();
    }
    compare_absent(map, run, PfnRange::new(next, run.pfns.end()), outcome);
}

/// Counts frames of `run` that have no struct page of ours.
fn compare_absent(map: &MemoryMap, run: &Run, pfns: PfnRange, outcome: &mut Outcome) {
    outcome.compared += pfns.len();
    for pfn in pfns.iter().take(SHOWN as usize) {
        unequal(map, run, pfn, outcome);
    }
    let rest = pfns.len().saturating_sub(SHOWN);
    outcome.unequal = outcome.unequal.saturating_add(rest);
}

fn compare_page(
    map: &MemoryMap,
    run: &Run,
    (pfn, kind): (Pfn, PageKind),
    words: Words,
    later: &mut Later,
    outcome: &mut Outcome,
) {
    let Some(mut ours) = our_words(map, pfn) else {
        return compare_absent(map, run, PfnRange::new(pfn, pfn.saturating_add(1)), outcome);
    };
    let since = match (kind, words) {
        (PageKind::Reserved, Words::Free | Words::BlockHead) => later.given_back(pfn),
        (PageKind::Free, Words::Reserved) => later.reserved(pfn),
        _ => Since::Unchanged,
    };
    if since != Since::Unchanged {
        // What freeing and reserving make of a page: the mark and the reference change.
        ours[0] ^= map
            .geometry()
            .flags_layout()
            .numbers()
            .mask(PageFlag::Reserved);
        ours[6] = counts(map.profile(), u32::from(words == Words::Reserved));
    }
    let same = match words {
        // Links, order and type depend on what is free around it.
        Words::BlockHead => ours[0] == run.words[0] && ours[6] == counts(map.profile(), 0),
        _ => ours == run.words,
    };
    if same && since == Since::LogEndsEarly {
        outcome.unexplained += 1;
        return;
    }
    match words {
        Words::BlockHead => outcome.heads += 1,
        _ => outcome.compared += 1,
    }
    if !same {
        unequal(map, run, pfn, outcome);
    } else if words != Words::BlockHead {
        outcome.equal += 1;
        outcome.explained += u64::from(since == Since::Changed);
    }
}

/// The words of our struct page as a capture would list them.
fn our_words(map: &MemoryMap, pfn: Pfn) -> Option<[u64; WORDS]> {
    let page = map.read(pfn).ok()?;
    let own_list = map.pfn_to_page(pfn)?.wrapping_add(8);
    let mut words = [0; WORDS];
    for (i, (to, from)) in words.iter_mut().zip(page.words()).enumerate() {
        *to = if i > 0 && *from == own_list {
            OWN_LIST
        } else {
            *from
        };
    }
    Some(words)
}

/// Word 6 of a page without a type.
fn counts(profile: &Profile, references: u32) -> u64 {
    let (mapcount, references) = (u64::from(u32::MAX), u64::from(references));
    match profile.byte_order {
        ByteOrder::Big => mapcount << 32 | references,
        ByteOrder::Little => references << 32 | mapcount,
    }
}

fn unequal(map: &MemoryMap, run: &Run, pfn: Pfn, outcome: &mut Outcome) {
    outcome.unequal = outcome.unequal.saturating_add(1);
    if outcome.unequal > SHOWN {
        return;
    }
    let profile = map.profile();
    let theirs = StructPage::new(StructPageSize::B64, profile.byte_order, &run.words);
    // As if its own address were the placeholder's.
    let theirs = theirs.display(profile, OWN_LIST.wrapping_sub(8));
    let ours = match (map.read(pfn), map.pfn_to_page(pfn)) {
        (Ok(page), Some(address)) => page.display(profile, address).to_string(),
        _ => "no struct page".to_owned(),
    };
    let line = run.line;
    outcome.notes.push(format!(
        "line {line}, frame {pfn}: {theirs}\n      ours: {ours}"
    ));
}
