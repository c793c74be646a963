//! Page writers: the code that writes runs of struct pages.
//!
//! One trait, one file a way of doing it, one list. All of them write the same bytes; they differ
//! in how they reach memory. A writer is called once for a run of pages (a section or a part of
//! one) through `dyn PageWriter`, picks its inner loop by the size of the struct page with one
//! `match`, and runs that.
//!
//! | name | what it does | stands for |
//! |---|---|---|
//! | `memset` | a real call to `memset` a page, then the fields | Linux before 5.2 |
//! | `zero` | one word store per word, zeroing merged with the fields | `mm_zero_struct_page` |
//! | `template` | copies a finished page, what depends on the pfn is refreshed in registers | the template series of 2026 |
//! | `stream` | the same with non-temporal stores and one fence a run | its non-temporal step |
//! | `auto` | `template` or `stream`, by the size of the job and by what is read back soon | – |
//!
//! # Adding a writer
//! Write one file beside these and add it to [`all`]. It then takes part in every test, sweep and
//! benchmark.
//!
//! # Implementation
//! `template` and `stream` share the loop in `vector`: the words of as many pages as fill whole
//! vectors are held in vector registers, stored, and advanced by one vector addition each. No word
//! is stored to a template in memory and loaded again as part of a vector: the load would wait for
//! the store at every page, since a narrow store cannot be forwarded to a wider load.

use core::fmt::Debug;

use crate::image::PageImage;

mod auto;
pub mod fused;
mod memset;
mod path;
mod stream;
mod template;
#[cfg(target_arch = "x86_64")]
mod vector;
mod zero;

pub use auto::{Auto, Job, ReadBack};
pub use memset::Memset;
pub use path::{Path, last_level_cache};
pub use stream::Stream;
pub use template::Template;
pub use zero::Zero;

/// Writes runs of struct pages.
pub trait PageWriter: Send + Sync + Debug {
    /// The name by which users choose this writer.
    fn name(&self) -> &'static str;

    /// Writes `pages.len() / (size / 8)` struct pages, page `k` holding `image.word(k, ..)`.
    ///
    /// Every word of `pages` is initialised on return, and visible to whoever synchronises with
    /// the caller by the usual means: a writer that uses weakly ordered stores ends with a fence.
    ///
    /// # Panics
    /// Where `pages` is not a whole number of struct pages.
    fn write(&self, image: &PageImage, pages: &mut [u64]);

    /// Writes runs that follow each other until `pages` is full: what compounds consist of is many
    /// short runs, and a writer that ends with a fence needs only one for all of them.
    ///
    /// What is said of [`write`](Self::write) holds on return.
    ///
    /// # Panics
    /// Where the series ends before `pages` is full, or its last run does not fit.
    fn write_series(&self, series: &mut dyn Series, pages: &mut [u64]) {
        each_run(series, pages, |image, run| self.write(image, run));
    }
}

/// Runs that follow each other, made up one by one.
pub trait Series {
    /// What the next run holds, and of how many pages it is; `None` after the last one.
    ///
    /// The image is lent and not given: it is larger than many a run's own work.
    fn next_run(&mut self) -> Option<(&PageImage, usize)>;
}

/// Runs that `next` makes up, each with its number of pages.
pub fn from_fn<F: FnMut() -> Option<(PageImage, usize)>>(next: F) -> FromFn<F> {
    FromFn { next, run: None }
}

/// The series that [`from_fn`] makes.
#[derive(Clone, Debug)]
pub struct FromFn<F> {
    next: F,
    /// What is lent.
    run: Option<PageImage>,
}

impl<F: FnMut() -> Option<(PageImage, usize)>> Series for FromFn<F> {
    fn next_run(&mut self) -> Option<(&PageImage, usize)> {
        let (image, count) = (self.next)()?;
        Some((self.run.insert(image), count))
    }
}

/// Runs that are there already.
impl Series for core::slice::Iter<'_, (PageImage, usize)> {
    fn next_run(&mut self) -> Option<(&PageImage, usize)> {
        self.next().map(|(image, count)| (image, *count))
    }
}

/// Cuts `pages` into the runs of `series`.
///
/// # Panics
/// Where they do not fill it exactly.
fn each_run(
    series: &mut dyn Series,
    mut pages: &mut [u64],
    mut write: impl FnMut(&PageImage, &mut [u64]),
) {
    while !pages.is_empty() {
        let Some((image, count)) = series.next_run() else {
            panic!("the series ends {} words early", pages.len());
        };
        let (run, rest) = pages.split_at_mut(count * image.size().words());
        write(image, run);
        pages = rest;
    }
}

static ALL: [&dyn PageWriter; 5] = [
    &Memset,
    &Zero,
    &Template::DETECT,
    &Stream::DETECT,
    &Auto::DETECT,
];

/// Every writer, in the order in which tables show them.
pub fn all() -> &'static [&'static dyn PageWriter] {
    &ALL
}

static FORCED: [&dyn PageWriter; 6] = [
    &Template::forced(Path::Portable),
    &Template::forced(Path::Sse2),
    &Template::forced(Path::Avx2),
    &Stream::forced(Path::Portable),
    &Stream::forced(Path::Sse2),
    &Stream::forced(Path::Avx2),
];

/// The writers of [`all`] that choose an instruction set, once with each one forced.
///
/// A set that this processor lacks is replaced by the best one that it has. For tests and
/// measurements.
pub fn forced() -> &'static [&'static dyn PageWriter] {
    &FORCED
}

/// The writer called `name`, of [`all`] or [`forced`], or `None`.
pub fn by_name(name: &str) -> Option<&'static dyn PageWriter> {
    all()
        .iter()
        .chain(forced())
        .copied()
        .find(|writer| writer.name() == name)
}

/// Checks the length of `pages` and returns it in pages.
///
/// # Panics
/// Where `pages` is not a whole number of struct pages.
fn whole_pages(image: &PageImage, pages: &[u64]) -> usize {
    let words = image.size().words();
    assert!(
        pages.len().is_multiple_of(words),
        "a run of {} words is not a whole number of struct pages of {words} words",
        pages.len(),
    );
    pages.len() / words
}

/// Calls a function that is generic over the words of a struct page with the run's own number.
macro_rules! by_size {
    ($image:expr, $function:ident ( $($argument:expr),* )) => {{
        use $crate::image::StructPageSize as Size;
        match $image.size() {
            Size::B56 => $function::<7>($($argument),*),
            Size::B64 => $function::<8>($($argument),*),
            Size::B72 => $function::<9>($($argument),*),
            Size::B80 => $function::<10>($($argument),*),
            Size::B88 => $function::<11>($($argument),*),
            Size::B96 => $function::<12>($($argument),*),
        }
    }};
}
use by_size;

/// The progression in plain Rust: what runs where there are no vectors that we know of.
fn portable<const W: usize>(image: &PageImage, pages: &mut [u64]) {
    let (mut words, steps) = image.arrays::<W>();
    let (pages, _) = pages.as_chunks_mut::<W>();
    for page in pages {
        for i in 0..W {
            page[i] = words[i];
            words[i] = words[i].wrapping_add(steps[i]);
        }
    }
}
