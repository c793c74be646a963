//! The progression in vector registers, for x86-64.
//!
//! A block is the fewest whole pages that fill whole vectors: one page of 64 bytes is two 32-byte
//! vectors, four pages of 56 bytes are seven. The vectors of one block live in registers; after
//! each store a vector is advanced by the strides of its lanes times the pages in a block. Where
//! in a page a block starts is free, which is how the aligned variants deal with runs that do not
//! start on a vector's boundary: up to three words are stored one by one, and the progression
//! continues from there.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_add_epi64, _mm_loadu_si128, _mm_setzero_si128, _mm_storeu_si128,
    _mm_stream_si64, _mm_stream_si128, _mm256_add_epi64, _mm256_loadu_si256, _mm256_setzero_si256,
    _mm256_storeu_si256, _mm256_stream_si256,
};

use crate::image::PageImage;

/// Generates one loop: `$lanes` words a vector; `$streaming` says whether its stores are
/// non-temporal, and so need alignment, and a fence after the last run.
macro_rules! path {
    ($(#[$doc:meta])* $name:ident, $feature:literal, $vector:ty, $lanes:literal,
     $zero:ident, $load:ident, $add:ident, $store:ident, $streaming:literal) => {
        $(#[$doc])*
        ///
        /// `W` is the number of words in a page, `V` the number of vectors in a block.
        #[target_feature(enable = $feature)]
        pub(super) fn $name<const W: usize, const V: usize>(
            image: &PageImage,
            pages: &mut [u64],
        ) {
            const LANES: usize = $lanes;
            let block = const {
                assert!((V * LANES).is_multiple_of(W), "a block is a whole number of pages");
                V * LANES
            };

            let lead = if $streaming { words_to_boundary(pages, LANES) } else { 0 };
            let (head, rest) = pages.split_at_mut(lead);
            singles::<$streaming>(head, image, 0);

            let mut values = [$zero(); V];
            let mut steps = [$zero(); V];
            if lead == 0 && block == W {
                // Most runs, and all short ones that matter: a page is whole vectors, and its words
                // are vectors already.
                let (words, strides) = image.arrays_ref::<W>();
                for (v, value) in words.chunks_exact(LANES).enumerate() {
                    // SAFETY: `value` is as large as the vector; the load needs no alignment.
                    values[v] = unsafe { $load(value.as_ptr().cast()) };
                }
                for (v, step) in strides.chunks_exact(LANES).enumerate() {
                    // SAFETY: as above, of `step`.
                    steps[v] = unsafe { $load(step.as_ptr().cast()) };
                }
            } else {
                for v in 0..V {
                    let mut value = [0; LANES];
                    let mut step = [0; LANES];
                    for l in 0..LANES {
                        let j = lead + v * LANES + l;
                        // `W` is a constant, so that a short run costs no division.
                        value[l] = image.word((j / W) as u64, j % W);
                        step[l] = image.strides()[j % W].wrapping_mul((block / W) as u64);
                    }
                    // SAFETY: `value` is as large as the vector; the load needs no alignment.
                    values[v] = unsafe { $load(value.as_ptr().cast()) };
                    // SAFETY: as above, of `step`.
                    steps[v] = unsafe { $load(step.as_ptr().cast()) };
                }
            }

            let whole = rest.len() / block * block;
            let (blocks, tail) = rest.split_at_mut(whole);
            for words in blocks.chunks_exact_mut(block) {
                for (v, vector) in words.chunks_exact_mut(LANES).enumerate() {
                    // SAFETY: 1. `vector` is a unique slice as large as the vector. 2. where the
                    //         store needs alignment, `rest` starts at a multiple of the vector's
                    //         size, and everything before `vector` in it is whole vectors.
                    unsafe { $store(vector.as_mut_ptr().cast::<$vector>(), values[v]) };
                    values[v] = $add(values[v], steps[v]);
                }
            }
            singles::<$streaming>(tail, image, lead + whole);
        }
    };
}

path!(
    /// Ordinary stores of 16 bytes.
    copy_sse2, "sse2", __m128i, 2,
    _mm_setzero_si128, _mm_loadu_si128, _mm_add_epi64, _mm_storeu_si128, false
);
path!(
    /// Ordinary stores of 32 bytes.
    copy_avx2, "avx2", __m256i, 4,
    _mm256_setzero_si256, _mm256_loadu_si256, _mm256_add_epi64, _mm256_storeu_si256, false
);
path!(
    /// Non-temporal stores of 16 bytes, without the fence.
    stream_sse2, "sse2", __m128i, 2,
    _mm_setzero_si128, _mm_loadu_si128, _mm_add_epi64, _mm_stream_si128, true
);
path!(
    /// Non-temporal stores of 32 bytes, without the fence.
    stream_avx2, "avx2", __m256i, 4,
    _mm256_setzero_si256, _mm256_loadu_si256, _mm256_add_epi64, _mm256_stream_si256, true
);

/// Words from the start of `pages` to the next multiple of `lanes` words, at most all of them.
fn words_to_boundary(pages: &[u64], lanes: usize) -> usize {
    let word = pages.as_ptr().addr() / size_of::<u64>();
    (word.next_multiple_of(lanes) - word).min(pages.len())
}

/// Stores the words of a run from its `first` on, one by one.
fn singles<const STREAMING: bool>(words: &mut [u64], image: &PageImage, first: usize) {
    for (j, word) in words.iter_mut().enumerate() {
        let value = image.flat(first + j);
        if STREAMING {
            // SAFETY: `word` is a unique reference: valid, aligned to its 8 bytes, ours alone.
            unsafe { _mm_stream_si64(core::ptr::from_mut(word).cast(), value.cast_signed()) }
        } else {
            *word = value;
        }
    }
}

/// Calls one of the loops with the words and the vectors of a block that the run's size asks for.
macro_rules! by_block {
    ($image:expr, $lanes:literal, $function:ident ( $($argument:expr),* )) => {{
        use $crate::image::StructPageSize as Size;
        /// Vectors that `lcm(words, lanes)` words fill.
        const fn vectors(words: usize) -> usize {
            let mut vectors = 1;
            while vectors * $lanes % words != 0 {
                vectors += 1;
            }
            vectors
        }
        match $image.size() {
            Size::B56 => $function::<7, { vectors(7) }>($($argument),*),
            Size::B64 => $function::<8, { vectors(8) }>($($argument),*),
            Size::B72 => $function::<9, { vectors(9) }>($($argument),*),
            Size::B80 => $function::<10, { vectors(10) }>($($argument),*),
            Size::B88 => $function::<11, { vectors(11) }>($($argument),*),
            Size::B96 => $function::<12, { vectors(12) }>($($argument),*),
        }
    }};
}
pub(super) use by_block;
