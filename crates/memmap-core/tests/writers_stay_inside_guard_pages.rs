//! Every writer on a run whose first or last byte touches memory that must not be touched at all.
//! One byte too far and the test process is killed by the fault.
#![cfg(all(feature = "std", not(miri)))]

use memmap_core::writers::{self, PageWriter};
use memmap_core::{PageImage, StructPageSize, limit};
use sys::{Mapping, page_size};

#[test]
fn no_writer_and_no_fill_reaches_beyond_either_end_of_its_run() {
    let page = page_size();
    // committed memory with a page on either side that nothing may touch
    let mut map = Mapping::reserve(6 * page).unwrap();
    let inside = page..5 * page;
    map.commit(inside.clone()).unwrap();
    for size in StructPageSize::ALL {
        let image = PageImage::linked(size, 0x17, 0xffff_ea00_0000_0000, !0, 1);
        let most = inside.len() / size.bytes();
        for count in (0..12).chain([most]) {
            let bytes = count * size.bytes();
            for range in [
                inside.start..inside.start + bytes,
                inside.end - bytes..inside.end,
            ] {
                for writer in writers::all().iter().chain(writers::forced()) {
                    let words = map.words_mut(range.clone()).unwrap();
                    writer.write(&image, words);
                    check(*writer, &image, words);
                }
                for fill in limit::fills() {
                    fill.run(map.words_mut(range.clone()).unwrap());
                }
            }
        }
    }
}

/// Looks at the ends of the run: what lies between them is another test's.
fn check(writer: &dyn PageWriter, image: &PageImage, words: &[u64]) {
    let per_page = image.size().words();
    for at in [0, words.len().wrapping_sub(1)] {
        if let Some(word) = words.get(at) {
            let found = *word;
            let expected = image.word((at / per_page) as u64, at % per_page);
            assert_eq!(found, expected, "{} word {at}", writer.name());
        }
    }
}
