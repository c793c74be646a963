//! Every writer against the field-by-field oracle, in every size, on every path, at every
//! alignment, between canaries.

use memmap_core::writers::{self, Auto, Job, PageWriter, ReadBack};
use memmap_core::{MAX_WORDS, PageImage, StructPageSize};
use proptest::prelude::*;

const CANARY: u64 = 0xa5a5_5a5a_c3c3_3c3c;
/// Words on either side of a run that must stay as they are.
const MARGIN: usize = 16;

fn writers() -> impl Iterator<Item = &'static dyn PageWriter> {
    writers::all().iter().chain(writers::forced()).copied()
}

/// Writes `count` pages `offset` words into a buffer of canaries and compares every word.
fn check(writer: &dyn PageWriter, image: &PageImage, count: usize, offset: usize) {
    let words = image.size().words();
    let start = MARGIN + offset;
    let end = start + count * words;
    let mut buffer = vec![CANARY; end + MARGIN];
    writer.write(image, &mut buffer[start..end]);
    for (at, word) in buffer.iter().enumerate() {
        let found = *word;
        let (expected, place) = if (start..end).contains(&at) {
            let (k, i) = ((at - start) / words, (at - start) % words);
            (image.word(k as u64, i), format!("word {i} of page {k}"))
        } else {
            (CANARY, format!("canary {at} of run {start}..{end}"))
        };
        assert_eq!(
            found,
            expected,
            "{}: {place} of {count} pages of {:?}: {found:#x}, not {expected:#x}",
            writer.name(),
            image.size(),
        );
    }
}

/// Images of the shapes that occur, and one in which every word moves.
fn images(size: StructPageSize) -> [PageImage; 5] {
    let linked = PageImage::linked(size, 0x17_ffff_c000_2000, 0xffff_ea00_0400_0000, !0, 1);
    let every = std::array::from_fn(|i| 0x0101_0101_0101_0101 * (i as u64 + 1));
    [
        linked,
        // free page in its final form, links that wrap around the end of the address space
        PageImage::linked(size, 1, u64::MAX - 1000, 0xf000_0000, 0),
        // a `virtual` field beside the links
        linked.with_word(8, 0xffff_8880_0000_0000, 4096),
        PageImage::constant(size, every),
        PageImage::new(
            size,
            every,
            std::array::from_fn(|i| u64::MAX / (i as u64 + 3)),
        ),
    ]
}

#[test]
fn every_writer_writes_what_the_oracle_says_at_every_alignment() {
    for writer in writers() {
        for size in StructPageSize::ALL {
            for image in images(size) {
                for count in 0..10 {
                    for offset in 0..8 {
                        check(writer, &image, count, offset);
                    }
                }
            }
        }
    }
}

#[test]
fn a_run_long_enough_to_be_streamed_by_auto_is_right_too() {
    let count = if cfg!(miri) { 70 } else { 5001 };
    for read_back in [ReadBack::Soon, ReadBack::Later] {
        for bytes in [0, u64::MAX] {
            let auto = Auto::for_job(Job { bytes, read_back });
            check(&auto, &images(StructPageSize::B64)[0], count, 1);
        }
    }
}

#[test]
fn every_writer_is_found_by_its_name_and_no_name_occurs_twice() {
    let names: Vec<_> = writers().map(|w| w.name()).collect();
    for (i, name) in names.iter().enumerate() {
        assert_eq!(names.iter().position(|n| n == name), Some(i));
        assert_eq!(writers::by_name(name).map(|w| w.name()), Some(*name));
    }
    let of_all: Vec<_> = writers::all().iter().map(|w| w.name()).collect();
    for name in ["memset", "zero", "template", "stream", "auto"] {
        assert!(of_all.contains(&name), "{name} is used by name");
    }
    assert!(writers::by_name("Stream").is_none());
}

#[test]
fn a_run_that_is_not_whole_pages_is_refused_by_every_writer() {
    let image = images(StructPageSize::B64)[0];
    for writer in writers() {
        let mut words = [0; 9];
        let attempt = std::panic::AssertUnwindSafe(|| writer.write(&image, &mut words));
        assert!(
            std::panic::catch_unwind(attempt).is_err(),
            "{}",
            writer.name()
        );
    }
}

#[test]
fn a_series_that_ends_early_or_overruns_is_refused_by_every_writer() {
    let image = images(StructPageSize::B64)[0];
    for writer in writers() {
        for counts in [[1, 1], [1, 3]] {
            let mut words = [0; 24];
            let runs = counts.map(|count| (image, count));
            let attempt = std::panic::AssertUnwindSafe(|| {
                writer.write_series(&mut runs.iter(), &mut words);
            });
            let refused = std::panic::catch_unwind(attempt).is_err();
            assert!(refused, "{}", writer.name());
        }
    }
}

fn any_image() -> impl Strategy<Value = PageImage> {
    (
        proptest::sample::select(StructPageSize::ALL.to_vec()),
        any::<[u64; MAX_WORDS]>(),
        any::<[u64; MAX_WORDS]>(),
        any::<u16>(),
    )
        .prop_map(|(size, words, strides, mask)| {
            let masked = |i: usize| if mask >> i & 1 == 1 { strides[i] } else { 0 };
            PageImage::new(size, words, std::array::from_fn(masked))
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_progression_of_any_length_anywhere_equals_the_oracle(
        image in any_image(),
        count in 0_usize..200,
        offset in 0_usize..8,
    ) {
        for writer in writers() {
            check(writer, &image, count, offset);
        }
    }

    #[test]
    fn a_series_of_runs_equals_the_runs_one_by_one(
        runs in proptest::collection::vec((any_image(), 1_usize..20), 1..8),
        size in proptest::sample::select(StructPageSize::ALL.to_vec()),
        offset in 0_usize..4,
    ) {
        // runs of one series are of one size, as struct pages of one map are
        let runs: Vec<_> = runs
            .into_iter()
            .map(|(image, count)| {
                let at = |k, i| image.word(k, i);
                let words = std::array::from_fn(|i| at(0, i));
                let strides = std::array::from_fn(|i| at(1, i).wrapping_sub(at(0, i)));
                (PageImage::new(size, words, strides), count)
            })
            .collect();
        let total: usize = runs.iter().map(|(_, count)| count * size.words()).sum();
        for writer in writers() {
            let mut apart = vec![CANARY; MARGIN + total + MARGIN];
            let mut series = apart.clone();
            let (start, end) = (MARGIN / 2 + offset, MARGIN / 2 + offset + total);
            let mut at = start;
            for (image, count) in &runs {
                let next = at + count * size.words();
                writer.write(image, &mut apart[at..next]);
                at = next;
            }
            writer.write_series(&mut runs.iter(), &mut series[start..end]);
            let value = |word: &u64| *word;
            prop_assert!(apart.iter().map(value).eq(series.iter().map(value)), "{}", writer.name());
        }
    }

    #[test]
    fn a_run_cut_in_two_equals_the_whole(
        image in any_image(),
        first in 0_usize..20,
        second in 0_usize..20,
    ) {
        let words = image.size().words();
        for writer in writers() {
            let mut whole = vec![0_u64; (first + second) * words];
            let mut parts = whole.clone();
            writer.write(&image, &mut whole);
            let (left, right) = parts.split_at_mut(first * words);
            writer.write(&image, left);
            writer.write(&image.advance(first as u64), right);
            let value = |word: &u64| *word;
            let same = whole.iter().map(value).eq(parts.iter().map(value));
            prop_assert!(same, "{}", writer.name());
        }
    }
}
