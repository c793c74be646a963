//! Struct pages of a small machine in one table, all published.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::sync::atomic::{AtomicU64, Ordering};

use memblock::Pfn;
use memmap_core::buddy::StructPages;
use memmap_core::{Geometry, PageFlag, PageKind};

/// Struct pages of frames `[0, end)`.
#[derive(Debug)]
pub(crate) struct Table {
    words: Vec<AtomicU64>,
    valid: Vec<bool>,
    base: u64,
}

impl Table {
    /// Every struct page as boot leaves it, free pages not yet in blocks. Little-endian.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let profile = geometry.profile();
        let end = geometry
            .sections()
            .valid_ranges()
            .last()
            .expect("memory")
            .end()
            .get();
        let table = Self {
            words: (0..end * 8).map(|_| AtomicU64::new(u64::MAX)).collect(),
            valid: (0..end)
                .map(|pfn| geometry.sections().is_valid(Pfn::new(pfn)))
                .collect(),
            base: profile.vmemmap_base,
        };
        for run in geometry.page_runs() {
            let layout = profile.flags_layout();
            let mut flags = layout.links(run.node, run.zone, 0);
            let references = u64::from(run.kind != PageKind::Free);
            if !matches!(run.kind, PageKind::Free | PageKind::Initialised) {
                flags |= layout.numbers().mask(PageFlag::Reserved);
            }
            for pfn in run.pfns.start().get()..run.pfns.end().get() {
                let own = table.base + pfn * 64 + 8;
                let page = [flags, own, own, 0, 0, 0, references << 32 | 0xffff_ffff, 0];
                for (i, word) in page.into_iter().enumerate() {
                    table.store(Pfn::new(pfn), i, word);
                }
            }
        }
        table
    }

    /// Every word.
    pub(crate) fn words(&self) -> Vec<u64> {
        self.words
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect()
    }
}

impl StructPages for Table {
    fn load(&self, pfn: Pfn, word: usize) -> Option<u64> {
        let pfn = pfn.get() as usize;
        self.valid
            .get(pfn)?
            .then(|| self.words[pfn * 8 + word].load(Ordering::Relaxed))
    }

    fn store(&self, pfn: Pfn, word: usize, value: u64) {
        self.words[pfn.get() as usize * 8 + word].store(value, Ordering::Relaxed);
    }

    fn address(&self, pfn: Pfn) -> Option<u64> {
        self.valid
            .get(pfn.get() as usize)?
            .then_some(self.base + pfn.get() * 64)
    }

    fn at(&self, address: u64) -> Option<Pfn> {
        let offset = address.checked_sub(self.base)?;
        let pfn = offset / 64;
        (offset % 64 == 0 && *self.valid.get(pfn as usize)?).then_some(Pfn::new(pfn))
    }
}
