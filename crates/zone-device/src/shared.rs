//! Struct pages of compounds in as little memory as Linux gives them.
//!
//! Of each compound two pages of memory map are kept; every struct page beyond them is found in the
//! second. What one of such tails holds, all of them hold, and a write to one is a write to all, as
//! it is in Linux.
//!
//! A struct page here has no address of its own: links and heads inside the words are those of the
//! modelled memory map and cannot be walked. Look pages up by pfn.

use alloc::vec;
use alloc::vec::Vec;

use memblock::{Pfn, PfnRange};
use memmap_core::{KernelConfig, MAX_WORDS};

use crate::runs::DeviceRuns;
use crate::vmemmap::unshared_struct_pages;
use crate::{DeviceKind, DeviceRun};

/// A view of a device's struct pages in which equal tails share memory.
#[derive(Clone, Debug)]
pub struct SharedVmemmap {
    stores: Vec<Store>,
    /// Words of a struct page.
    words: usize,
}

/// The struct pages of one run.
#[derive(Clone, Debug)]
struct Store {
    pfns: PfnRange,
    order: u32,
    /// Struct pages kept of each compound.
    kept: u64,
    /// Of the kept ones, the first that others share.
    first_shared: u64,
    pages: Vec<u64>,
}

impl SharedVmemmap {
    /// The struct pages of `runs`. Those that nobody writes are zero; those of altmaps, of single
    /// pages and of sections with a boot-time map are kept whole.
    ///
    /// `config` is what the runs were made for.
    pub fn new(runs: &DeviceRuns, config: &KernelConfig) -> Self {
        let words = runs.runs().first().map_or(0, |run| run.page_size().words());
        Self {
            stores: runs
                .runs()
                .iter()
                .map(|run| Store::new(run, config))
                .collect(),
            words,
        }
    }

    /// Bytes that the struct pages take.
    pub fn bytes(&self) -> usize {
        self.stores
            .iter()
            .map(|store| size_of_val(&*store.pages))
            .sum()
    }

    /// The words of the struct page of `pfn`, zero beyond its size; `None` where it is no page of
    /// the device.
    pub fn read(&self, pfn: Pfn) -> Option<[u64; MAX_WORDS]> {
        let (store, at) = self.find(pfn)?;
        let mut words = [0; MAX_WORDS];
        words[..self.words].copy_from_slice(store.pages.get(at..at + self.words)?);
        Some(words)
    }

    /// Stores `value` as word `word` of the struct page of `pfn`, and so of all that share its
    /// memory. `false` where there is no such word.
    #[must_use = "a word that is not there was not stored"]
    pub fn write(&mut self, pfn: Pfn, word: usize, value: u64) -> bool {
        if word >= self.words {
            return false;
        }
        let words = self.words;
        let Some(store) = self.stores.iter_mut().find(|s| s.pfns.contains(pfn)) else {
            return false;
        };
        let at = store.index(pfn) * words + word;
        match store.pages.get_mut(at) {
            Some(stored) => *stored = value,
            None => return false,
        }
        true
    }

    fn find(&self, pfn: Pfn) -> Option<(&Store, usize)> {
        let above = self.stores.partition_point(|store| store.pfns.end() <= pfn);
        let store = self.stores.get(above).filter(|s| s.pfns.contains(pfn))?;
        Some((store, store.index(pfn) * self.words))
    }
}

impl Store {
    fn new(run: &DeviceRun, config: &KernelConfig) -> Self {
        let (order, compound) = match run.kind() {
            DeviceKind::Compounds { order } => (order, 1 << order),
            _ => (0, 1),
        };
        let unshared = unshared_struct_pages(config);
        let shares = compound > 1 && run.shares();
        let kept = if shares { unshared } else { compound };
        let words = run.page_size().words();
        let compounds = run.pfns().len() / compound;
        let mut pages = vec![0; (compounds * kept) as usize * words];
        for (k, page) in pages.chunks_exact_mut(words).enumerate() {
            let (number, within) = (k as u64 / kept, k as u64 % kept);
            let pfn = run
                .pfns()
                .start()
                .saturating_add(number * compound + within);
            if let Some(image) = run.part_at(pfn).and_then(|part| part.image) {
                page.copy_from_slice(image.words());
            }
        }
        Self {
            pfns: run.pfns(),
            order,
            kept,
            first_shared: if shares { unshared / 2 } else { 0 },
            pages,
        }
    }

    /// Where the struct page of `pfn` is kept, in struct pages.
    fn index(&self, pfn: Pfn) -> usize {
        let at = pfn.get() - self.pfns.start().get();
        let (compound, k) = (at >> self.order, at & ((1 << self.order) - 1));
        let k = if k < self.kept {
            k
        } else {
            // the second page of memory map, again and again
            self.first_shared + k % (self.kept - self.first_shared)
        };
        (compound * self.kept + k) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DevPagemap, MemoryType, Site};
    use memblock::{PhysAddr, PhysRange};
    use memmap_core::{KernelVersion, Profile};

    fn runs(profile: &Profile, order: u32, boot: Vec<PfnRange>) -> DeviceRuns {
        let range = PhysRange::from_size(PhysAddr::new(4 << 30), 64 << 20);
        let pagemap = DevPagemap::new(MemoryType::Generic, 8)
            .with_range(range)
            .with_vmemmap_shift(order);
        let site = Site::default().with_boot_sections(boot);
        DeviceRuns::new(profile, &pagemap, &site).unwrap()
    }

    #[test]
    fn a_shared_view_reads_as_the_unshared_pages_in_a_quarter_of_the_memory() {
        for version in [
            KernelVersion::V6_12,
            KernelVersion::V6_18,
            KernelVersion::V7_3,
        ] {
            let profile = Profile::amd64(version);
            let runs = runs(&profile, 9, Vec::new());
            let view = SharedVmemmap::new(&runs, &profile);
            assert_eq!(view.bytes(), 32 * 128 * 64);
            for pfn in runs.ranges()[0].iter() {
                let image = runs.page(pfn).unwrap();
                assert_eq!(view.read(pfn).unwrap()[..8], *image.words(), "{pfn}");
            }
            assert_eq!(view.read(Pfn::new(0x10_4000)), None);
        }
    }

    #[test]
    fn a_write_to_a_shared_tail_changes_every_tail_that_lies_in_its_memory() {
        let profile = Profile::amd64(KernelVersion::V7_3);
        let runs = runs(&profile, 9, Vec::new());
        let mut view = SharedVmemmap::new(&runs, &profile);
        let head = 0x10_0200;
        assert!(view.write(Pfn::new(head + 200), 5, 77));
        for k in 0..512 {
            let word = view.read(Pfn::new(head + k)).unwrap()[5];
            let aliased = k >= 64 && k % 64 == 200 % 64;
            assert_eq!(word, if aliased { 77 } else { 0 }, "page {k}");
        }
        assert!(!view.write(Pfn::new(head), 8, 1));
        assert!(!view.write(Pfn::new(0), 0, 1));
    }

    #[test]
    fn a_section_with_a_boot_time_map_shares_nothing() {
        let profile = Profile::amd64(KernelVersion::V7_3);
        let section = PfnRange::new(Pfn::new(0x10_0000), Pfn::new(0x10_8000));
        let runs = runs(&profile, 9, vec![section]);
        assert_eq!(SharedVmemmap::new(&runs, &profile).bytes(), 64 << 14);
    }
}
