//! Everything that is measured, by name.

use std::fmt;

use benches::kernel::{self, LinkedRun};
use memmap_core::limit::Fill;
use memmap_core::writers::fused::{self, FreeBlocks};
use memmap_core::writers::{self, PageWriter, Stream};
use memmap_core::{PageImage, StructPageSize};

/// Who wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The streaming fill that was fastest.
    Limit,
    /// A page writer of ours.
    Rust,
    /// One of Linux's ways in C.
    C,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Rust => "rust",
            Self::C => "c",
        }
    }
}

/// Writes all of the memory it is given.
type Run = dyn Fn(&mut [u64]) + Send + Sync;

/// Something that writes struct pages, or fills their memory.
pub(super) struct Contestant {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    run: Box<Run>,
}

impl fmt::Debug for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.name)
    }
}

impl Contestant {
    fn new(
        name: &'static str,
        kind: Kind,
        run: impl Fn(&mut [u64]) + Send + Sync + 'static,
    ) -> Self {
        let run = Box::new(run);
        Self { name, kind, run }
    }

    /// A streaming fill.
    pub(super) fn fill(fill: &'static Fill) -> Self {
        Self::new(fill.name(), Kind::Limit, |pages| fill.run(pages))
    }

    /// Writes all of `pages`.
    pub(super) fn run(&self, pages: &mut [u64]) {
        (self.run)(pages);
    }
}

/// Name of write and hand-over block by block.
pub(super) const FUSED: &str = "stream+handover";
/// Name of its twin that writes all and hands over afterwards.
pub(super) const APART: &str = "stream,handover";

/// A free normal page in its final form, as on amd64 since 6.12.
pub(super) fn free_pages(size: StructPageSize) -> LinkedRun {
    LinkedRun::new(size, 0x0017_ffff_c000_0000, 0xffff_ea00_0000_0000, !0, 0)
}

/// Free blocks of the largest order at the tail of one list.
fn free_blocks() -> FreeBlocks {
    let list = 0xffff_8880_bffd_9d40;
    FreeBlocks {
        order: 10,
        page_type: 0xf000_0000,
        before: list,
        after: list,
    }
}

/// The limit, every writer, hand-over, and every way in C.
pub(super) fn all(limit: &'static Fill, size: StructPageSize) -> Vec<Contestant> {
    let run = free_pages(size);
    let image: PageImage = run.image(size);
    let blocks = free_blocks();
    let mut all = vec![Contestant::fill(limit)];
    for writer in writers::all() {
        all.push(Contestant::new(writer.name(), Kind::Rust, move |pages| {
            writer.write(&image, pages);
        }));
    }
    all.push(Contestant::new(FUSED, Kind::Rust, move |pages| {
        fused::write_and_hand_over(&Stream::DETECT, &image, &blocks, pages);
    }));
    all.push(Contestant::new(APART, Kind::Rust, move |pages| {
        Stream::DETECT.write(&image, pages);
        fused::hand_over(&image, &blocks, pages);
    }));
    for way in kernel::all() {
        all.push(Contestant::new(way.name(), Kind::C, move |pages| {
            way.write(size, &run, pages);
        }));
    }
    all
}
