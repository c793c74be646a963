//! Device memory of a capture beside ours.
//!
//! A capture of a machine with persistent memory lists every struct page of its devices, and says
//! what a namespace was made into. From the latter alone we build our own struct pages and compare
//! all of them, word by word. The one word that cannot be known is the address of the kernel's
//! description of the device: it may be anything, but the same throughout a device.

use std::io::BufRead;

use memblock::{NodeId, Pfn, PfnRange};
use memmap_core::{PageImage, Profile, StructPageSize};
use serde_json::Value;
use zone_device::{Altmap, DevPagemap, DeviceError, DeviceRuns, MemoryType, Site};

/// Stands for the address of the description; no kernel has it there.
const DESCRIPTION: u64 = 0x5afe_5afe_5afe_5af8;
/// Words of a listed struct page.
const WORDS: usize = 8;
/// "The address of this page's own word 1".
const OWN_LIST: u64 = 0x5e1f_5e1f_5e1f_5e1f;
/// Top byte of "so many bytes from the start of the memory map".
const DISTANCE: u64 = 0xad;
/// Unequal runs that are told.
const SHOWN: usize = 10;

/// What became of the device memory of one capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceOutcome {
    /// The frames of each device, as the capture lists them.
    pub devices: Vec<PfnRange>,
    /// Struct pages that were compared.
    pub compared: u64,
    /// Those that are equal.
    pub equal: u64,
    /// Struct pages that nobody writes, and that may hold anything.
    pub unwritten: u64,
    /// What is wrong, for people.
    pub notes: Vec<String>,
}

impl DeviceOutcome {
    /// Whether all is equal; so it is where there is no device.
    pub fn is_equal(&self) -> bool {
        self.equal == self.compared && self.notes.is_empty()
    }
}

/// Why a capture cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceGoldenError {
    /// It cannot be read.
    #[error("the capture cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// A namespace of a kind that is not known here.
    #[error("a namespace of mode {mode} with its map in {map} is not known here")]
    Namespace {
        /// `raw`, `fsdax`, `devdax`, …
        mode: String,
        /// `mem` or `dev`.
        map: String,
    },
    /// Our side refuses the device.
    #[error("the device at {pfns} is refused: {error}")]
    Refused {
        /// The device's frames.
        pfns: PfnRange,
        /// Why.
        error: DeviceError,
    },
}

/// A run of equal struct pages as it is listed.
#[derive(Clone, Copy, Debug)]
struct Listed {
    pfns: PfnRange,
    words: [u64; WORDS],
}

/// What the capture says of devices.
#[derive(Debug, Default)]
struct Devices {
    namespace: String,
    /// Each device's frames and runs.
    segments: Vec<(PfnRange, Vec<Listed>)>,
    broken: Vec<String>,
}

/// What a namespace was made into.
#[derive(Debug)]
struct Namespace {
    mode: String,
    map: String,
    bytes: u64,
    align: u64,
}

/// Compares the `@@pages.device` part of `capture` with ours under `profile`.
///
/// `node_of` says on which node a device at some frame is, and `boot_sections` are the frames whose
/// sections have had a memory map since boot.
///
/// # Errors
/// [`DeviceGoldenError`] where there is nothing to compare with.
pub fn compare(
    capture: impl BufRead,
    profile: &Profile,
    node_of: impl Fn(Pfn) -> NodeId,
    boot_sections: &[PfnRange],
) -> Result<DeviceOutcome, DeviceGoldenError> {
    let devices = Devices::read(capture)?;
    let namespace = Namespace::parse(&devices.namespace);
    let mut outcome = DeviceOutcome {
        notes: devices.broken,
        ..DeviceOutcome::default()
    };
    for (index, (pfns, listed)) in devices.segments.iter().enumerate() {
        // a namespace is made of the first device; the others stay as they were found
        let namespace = namespace.as_ref().filter(|_| index == 0);
        let pagemap = pagemap(profile, *pfns, namespace)?;
        let site = Site::on_node(node_of(pfns.start())).with_boot_sections(boot_sections.to_vec());
        let runs = DeviceRuns::new(profile, &pagemap, &site)
            .map_err(|error| DeviceGoldenError::Refused { pfns: *pfns, error })?;
        outcome.devices.push(*pfns);
        compare_device(profile, &runs, listed, &mut outcome);
    }
    Ok(outcome)
}

fn pagemap(
    profile: &Profile,
    pfns: PfnRange,
    namespace: Option<&Namespace>,
) -> Result<DevPagemap, DeviceGoldenError> {
    let device = |memory_type| {
        DevPagemap::new(memory_type, DESCRIPTION).with_range(pfns.phys(profile.page_shift))
    };
    let Some(namespace) = namespace else {
        return Ok(device(MemoryType::FsDax));
    };
    let unknown = || DeviceGoldenError::Namespace {
        mode: namespace.mode.clone(),
        map: namespace.map.clone(),
    };
    let pagemap = match namespace.mode.as_str() {
        "raw" | "fsdax" => device(MemoryType::FsDax),
        "devdax" => {
            let pages = (namespace.align >> profile.page_shift).max(1);
            device(MemoryType::Generic).with_vmemmap_shift(pages.ilog2())
        }
        _ => return Err(unknown()),
    };
    match namespace.map.as_str() {
        "" | "mem" => Ok(pagemap),
        "dev" => {
            // what the namespace lacks of the device lies before its data
            let own = pfns.len() << profile.page_shift;
            let before = own.saturating_sub(namespace.bytes) >> profile.page_shift;
            let reserve = Altmap::of_namespace(pfns, profile).reserve();
            let free = before.saturating_sub(reserve);
            Ok(pagemap.with_altmap(Altmap::new(pfns.start(), reserve, free)))
        }
        _ => Err(unknown()),
    }
}

fn compare_device(
    profile: &Profile,
    runs: &DeviceRuns,
    listed: &[Listed],
    outcome: &mut DeviceOutcome,
) {
    let mut description = None;
    let mut unequal = 0;
    for run in listed {
        let mut at = run.pfns.start();
        while at < run.pfns.end() {
            let part = runs.run_at(at).and_then(|ours| ours.part_at(at));
            let end = part.map_or(run.pfns.end(), |part| part.pfns.end().min(run.pfns.end()));
            let pfns = PfnRange::new(at, end);
            at = end;
            let Some(ours) = part.and_then(|part| part.image) else {
                outcome.unwritten += pfns.len();
                continue;
            };
            let theirs = theirs(profile, run, pfns.start());
            let ours = with_description(ours, &theirs, &mut description);
            outcome.compared += pfns.len();
            if is_equal(&ours, &theirs, pfns.len()) {
                outcome.equal += pfns.len();
            } else {
                unequal += 1;
                if unequal <= SHOWN {
                    let note = format!("{pfns}: theirs {theirs:?}, ours {ours:?}");
                    outcome.notes.push(note);
                }
            }
        }
    }
    if unequal > SHOWN {
        outcome
            .notes
            .push(format!("and {} more runs", unequal - SHOWN));
    }
    let pages: u64 = runs.ranges().iter().map(|range| range.len()).sum();
    let seen: u64 = listed.iter().map(|run| run.pfns.len()).sum();
    if pages != seen {
        let note = format!("{seen} struct pages are listed of a device of {pages}");
        outcome.notes.push(note);
    }
}

/// The listed run from `pfn` on, with addresses in place of what stands for them.
fn theirs(profile: &Profile, run: &Listed, pfn: Pfn) -> PageImage {
    let size = StructPageSize::B64;
    let base = profile.vmemmap_base;
    let own = base.wrapping_add(pfn.get() * size.bytes() as u64);
    let mut image = PageImage::constant(size, [0; 12]);
    for (i, &word) in run.words.iter().enumerate() {
        image = match word {
            OWN_LIST if i > 0 => image.with_word(i, own.wrapping_add(8), size.bytes() as u64),
            _ if i > 0 && word >> 56 == DISTANCE => {
                image.with_word(i, base.wrapping_add(word & (u64::MAX >> 8)), 0)
            }
            _ => image.with_word(i, word, 0),
        };
    }
    image
}

/// Our image with the address of the description that the capture has: the first one that we come
/// across.
fn with_description(
    ours: PageImage,
    theirs: &PageImage,
    description: &mut Option<u64>,
) -> PageImage {
    if ours.word(0, 1) != DESCRIPTION {
        return ours;
    }
    let address = *description.get_or_insert(theirs.word(0, 1));
    ours.with_word(1, address, 0)
}

fn is_equal(ours: &PageImage, theirs: &PageImage, pages: u64) -> bool {
    let same = ours.words() == theirs.words();
    same && (pages == 1 || ours.strides() == theirs.strides())
}

impl Devices {
    fn read(input: impl BufRead) -> Result<Self, std::io::Error> {
        let mut devices = Self::default();
        let mut part = String::new();
        for (number, line) in input.split(b'\n').enumerate() {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            if let Some(name) = line.strip_prefix("@@") {
                part = name.to_owned();
                continue;
            }
            match part.as_str() {
                "ndctl" => {
                    devices.namespace.push_str(line);
                    devices.namespace.push('\n');
                }
                "pages.device" if !devices.push(line) => {
                    let note = format!("line {}: {line:?} is no run of struct pages", number + 1);
                    devices.broken.push(note);
                }
                _ => {}
            }
        }
        Ok(devices)
    }

    /// Takes a line of the list of struct pages.
    fn push(&mut self, line: &str) -> bool {
        const OTHERS: [&str; 4] = ["HOLE", "GAP", "vmemmap", "VMEMMAP"];
        if line.is_empty() || OTHERS.iter().any(|other| line.starts_with(other)) {
            return true;
        }
        if let Some(range) = line.strip_prefix("SEG ") {
            let bound = |text: &str| text.trim().parse().ok().map(Pfn::new);
            let Some((Some(start), Some(end))) =
                range.split_once('-').map(|(a, b)| (bound(a), bound(b)))
            else {
                return false;
            };
            self.segments.push((PfnRange::new(start, end), Vec::new()));
            return true;
        }
        let Some((_, runs)) = self.segments.last_mut() else {
            return false;
        };
        let mut fields = line.split(' ');
        let mut decimal = || fields.next()?.parse::<u64>().ok();
        let (Some(first), Some(count)) = (decimal(), decimal()) else {
            return false;
        };
        let mut words = [0; WORDS];
        for word in &mut words {
            match fields
                .next()
                .and_then(|text| u64::from_str_radix(text, 16).ok())
            {
                Some(value) => *word = value,
                None => return false,
            }
        }
        let start = Pfn::new(first);
        let pfns = PfnRange::new(start, start.saturating_add(count));
        runs.push(Listed { pfns, words });
        fields.next().is_none()
    }
}

impl Namespace {
    /// The first value of what the namespace's tool reported; nothing where it was not run.
    fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::Deserializer::from_str(text)
            .into_iter()
            .next()?
            .ok()?;
        let word = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| value[name].as_u64().unwrap_or_default();
        Some(Self {
            mode: word("mode"),
            map: word("map"),
            bytes: number("size"),
            align: number("align"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memmap_core::KernelVersion;

    const DEVDAX: &str = r#"@@ndctl
{ "dev":"namespace0.0", "mode":"devdax", "map":"mem", "size":4194304, "align":2097152 }
lrwxrwxrwx driver
@@dmesg
nothing
@@pages.device
SEG 1048576-1049088
1048576 1 27ffffc0002040 ffff888140cd6780 0 0 0 0 1ffffffff 0
1048577 1 27ffffc0002009 ad00000004000001 ffffffffffffffff 0 200 0 ffffffff 0
1048578 510 27ffffc0002000 ad00000004000001 0 dead000000000400 0 0 ffffffff 0
@@end
"#;

    fn outcome(text: &str, version: KernelVersion) -> DeviceOutcome {
        let profile = Profile::amd64(version);
        compare(text.as_bytes(), &profile, |_| NodeId::new(0), &[]).unwrap()
    }

    #[test]
    fn equal_pages_are_found_equal_whatever_the_descriptions_address() {
        let found = outcome(DEVDAX, KernelVersion::V6_12);
        assert!(found.is_equal(), "{found:?}");
        assert_eq!((found.compared, found.unwritten), (512, 0));
        let moved = DEVDAX.replace("ffff888140cd6780", "ffff888140000000");
        assert!(outcome(&moved, KernelVersion::V6_12).is_equal());
    }

    #[test]
    fn another_release_a_changed_word_or_a_missing_page_is_found() {
        assert!(!outcome(DEVDAX, KernelVersion::V6_18).is_equal());
        for (from, to) in [
            ("0 200 0", "0 201 0"),
            ("1048578 510", "1048578 509"),
            ("ad00000004000001 0", "ad00000004000041 0"),
            ("1048576 1 ", "1048576 x "),
            ("27ffffc0002040", "67ffffc0002040"),
        ] {
            let changed = DEVDAX.replacen(from, to, 1);
            assert_ne!(changed, DEVDAX);
            let found = outcome(&changed, KernelVersion::V6_12);
            assert!(!found.is_equal() && !found.notes.is_empty(), "{from} {to}");
        }
    }

    #[test]
    fn a_description_that_moves_within_a_device_is_found() {
        let two = DEVDAX.replace("1049088\n", "1049600\n").replace(
            "@@end",
            "1049088 1 27ffffc0002040 ffff888140cd6781 0 0 0 0 1ffffffff 0\n\
             1049089 1 27ffffc0002009 ad00000004008001 ffffffffffffffff 0 200 0 ffffffff 0\n\
             1049090 510 27ffffc0002000 ad00000004008001 0 dead000000000400 0 0 ffffffff 0\n\
             @@end",
        );
        let found = outcome(&two, KernelVersion::V6_12);
        assert_eq!(found.compared - found.equal, 1);
    }

    #[test]
    fn what_is_no_capture_has_no_devices_and_what_is_unknown_is_refused() {
        assert_eq!(outcome("", KernelVersion::V7_3), DeviceOutcome::default());
        let sector = DEVDAX.replace("devdax", "sector");
        let profile = Profile::amd64(KernelVersion::V7_3);
        let refused = compare(sector.as_bytes(), &profile, |_| NodeId::new(0), &[]);
        assert!(matches!(refused, Err(DeviceGoldenError::Namespace { .. })));
    }
}
