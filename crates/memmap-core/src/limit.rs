//! The streaming limit: how fast this processor can fill memory with anything at all.
//!
//! A fixed list of fills, each known by name, of which the fastest on the memory at hand is the
//! limit that page writers are held against. All of them write something other than zero: some
//! processors and memories elide lines of zeros, so a zero fill may be twice as fast as any store
//! of data can be.
//!
//! | name | stores |
//! |---|---|
//! | `sse2-nt-2`, `sse2-nt-8` | non-temporal, 16 bytes, 2 or 8 a turn |
//! | `avx2-nt-2`, `avx2-nt-8` | non-temporal, 32 bytes, 2 or 8 a turn |
//! | `movnti-8` | non-temporal, 8 bytes, 8 a turn |
//! | `rep-stosb` | the string instruction |
//! | `stream-constant` | the page writer `stream` with pages that are all equal |
//! | `words` | plain Rust, the only one beside `stream-constant` off x86-64 |

use core::fmt;

use crate::image::{PageImage, StructPageSize};
use crate::writers::{PageWriter, Path, Stream};

/// The byte that fills repeat. Not zero, and not all ones either.
pub const PATTERN: u8 = 0xa7;
const WORD: u64 = u64::from_ne_bytes([PATTERN; 8]);

/// One way of filling memory with [`PATTERN`].
pub struct Fill {
    name: &'static str,
    needs: Path,
    run: fn(&mut [u64]),
}

impl Fill {
    /// The name in the list above.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether this processor can run it.
    pub fn is_available(&self) -> bool {
        self.needs <= Path::detect()
    }

    /// Fills `memory`; where the processor lacks the instructions, with the portable loop.
    pub fn run(&self, memory: &mut [u64]) {
        if self.is_available() {
            (self.run)(memory);
        } else {
            words(memory);
        }
    }
}

impl fmt::Debug for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fill({})", self.name)
    }
}

static FILLS: &[Fill] = &[
    #[cfg(target_arch = "x86_64")]
    Fill {
        name: "sse2-nt-2",
        needs: Path::Sse2,
        run: x86::sse2::<2>,
    },
    #[cfg(target_arch = "x86_64")]
    Fill {
        name: "sse2-nt-8",
        needs: Path::Sse2,
        run: x86::sse2::<8>,
    },
    #[cfg(target_arch = "x86_64")]
    Fill {
        name: "avx2-nt-2",
        needs: Path::Avx2,
        run: x86::avx2::<2>,
    },
    #[cfg(target_arch = "x86_64")]
    Fill {
        name: "avx2-nt-8",
        needs: Path::Avx2,
        run: x86::avx2::<8>,
    },
    #[cfg(target_arch = "x86_64")]
    Fill {
        name: "movnti-8",
        needs: Path::Sse2,
        run: x86::movnti,
    },
    #[cfg(target_arch = "x86_64")]
    Fill {
        name: "rep-stosb",
        needs: Path::Sse2,
        run: x86::rep_stosb,
    },
    Fill {
        name: "stream-constant",
        needs: Path::Portable,
        run: stream_constant,
    },
    Fill {
        name: "words",
        needs: Path::Portable,
        run: words,
    },
];

/// Every fill of this architecture, in a fixed order.
pub fn fills() -> &'static [Fill] {
    FILLS
}

/// The available fill whose middle time over `rounds` rounds is the least.
///
/// All of them take turns. `measure` runs a fill once and returns the time it took, in any unit;
/// the memory should be populated, and several times larger than the caches before any part of it
/// comes round again. At least one and at most [`MAX_ROUNDS`] rounds are run.
pub fn fastest(rounds: usize, measure: &mut dyn FnMut(&Fill) -> u64) -> &'static Fill {
    let rounds = rounds.clamp(1, MAX_ROUNDS);
    let mut times = [[0_u64; MAX_ROUNDS]; FILLS.len()];
    for round in 0..rounds {
        for (fill, times) in FILLS.iter().zip(&mut times) {
            if fill.is_available() {
                times[round] = measure(fill);
            }
        }
    }
    // The portable loop is always available, so there is a best one.
    let mut best = (&FILLS[FILLS.len() - 1], u64::MAX);
    for (fill, times) in FILLS.iter().zip(&mut times) {
        let times = &mut times[..rounds];
        times.sort_unstable();
        let middle = times[rounds / 2];
        if fill.is_available() && middle < best.1 {
            best = (fill, middle);
        }
    }
    best.0
}

/// The most rounds that [`fastest`] runs.
pub const MAX_ROUNDS: usize = 61;

/// The page writer with pages that are all the same. A remainder shorter than a page is filled
/// word by word.
fn stream_constant(memory: &mut [u64]) {
    let image = PageImage::constant(StructPageSize::B64, [WORD; 12]);
    let whole = memory.len() / 8 * 8;
    let (pages, rest) = memory.split_at_mut(whole);
    Stream::DETECT.write(&image, pages);
    words(rest);
}

/// The portable loop.
fn words(memory: &mut [u64]) {
    memory.fill(WORD);
}

/// The fills of x86-64.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::asm;
    use core::arch::x86_64::{
        __m128i, __m256i, _mm_set1_epi8, _mm_sfence, _mm_stream_si64, _mm_stream_si128,
        _mm256_set1_epi8, _mm256_stream_si256,
    };

    use super::{PATTERN, WORD};

    /// Splits `memory` into what lies before the first multiple of 64 bytes, whole turns of
    /// `turn` words, and the rest.
    fn split(memory: &mut [u64], turn: usize) -> [&mut [u64]; 3] {
        let word = memory.as_ptr().addr() / 8;
        let lead = (word.next_multiple_of(8) - word).min(memory.len());
        let (lead, rest) = memory.split_at_mut(lead);
        let whole = rest.len() / turn * turn;
        let (turns, rest) = rest.split_at_mut(whole);
        [lead, turns, rest]
    }

    fn single(word: &mut u64) {
        // SAFETY: a unique reference: valid, aligned to 8 bytes, ours alone.
        unsafe { _mm_stream_si64(core::ptr::from_mut(word).cast(), WORD.cast_signed()) }
    }

    fn fence() {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { _mm_sfence() }
    }

    pub(super) fn sse2<const UNROLL: usize>(memory: &mut [u64]) {
        let [lead, turns, rest] = split(memory, 2 * UNROLL);
        lead.iter_mut().for_each(single);
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { sse2_turns::<UNROLL>(turns) };
        rest.iter_mut().for_each(single);
        fence();
    }

    #[target_feature(enable = "sse2")]
    fn sse2_turns<const UNROLL: usize>(turns: &mut [u64]) {
        let value = _mm_set1_epi8(PATTERN.cast_signed());
        for turn in turns.chunks_exact_mut(2 * UNROLL) {
            for vector in turn.chunks_exact_mut(2) {
                // SAFETY: a unique slice of 16 bytes, a multiple of 16 bytes after a boundary of 64.
                unsafe { _mm_stream_si128(vector.as_mut_ptr().cast::<__m128i>(), value) }
            }
        }
    }

    pub(super) fn avx2<const UNROLL: usize>(memory: &mut [u64]) {
        let [lead, turns, rest] = split(memory, 4 * UNROLL);
        lead.iter_mut().for_each(single);
        // SAFETY: a fill is run only where the path that it needs was detected.
        unsafe { avx2_turns::<UNROLL>(turns) };
        rest.iter_mut().for_each(single);
        fence();
    }

    #[target_feature(enable = "avx2")]
    fn avx2_turns<const UNROLL: usize>(turns: &mut [u64]) {
        let value = _mm256_set1_epi8(PATTERN.cast_signed());
        for turn in turns.chunks_exact_mut(4 * UNROLL) {
            for vector in turn.chunks_exact_mut(4) {
                // SAFETY: a unique slice of 32 bytes, a multiple of 32 bytes after a boundary of 64.
                unsafe { _mm256_stream_si256(vector.as_mut_ptr().cast::<__m256i>(), value) }
            }
        }
    }

    pub(super) fn movnti(memory: &mut [u64]) {
        let [lead, turns, rest] = split(memory, 8);
        lead.iter_mut().for_each(single);
        for turn in turns.chunks_exact_mut(8) {
            turn.iter_mut().for_each(single);
        }
        rest.iter_mut().for_each(single);
        fence();
    }

    pub(super) fn rep_stosb(memory: &mut [u64]) {
        // SAFETY: 1. the destination is a unique slice of exactly the given number of bytes. 2. the
        //         direction flag is clear on entry, as the calling convention demands.
        unsafe {
            asm!("rep stosb",
                inout("rdi") memory.as_mut_ptr() => _,
                inout("rcx") size_of_val(memory) => _,
                in("al") PATTERN,
                options(nostack, preserves_flags));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fill_fills_all_of_the_memory_and_nothing_else() {
        for fill in fills() {
            if cfg!(miri) && !fill.is_available() {
                continue;
            }
            for offset in 0..9 {
                for length in (0..40).chain([64, 127, 128, 200]) {
                    let mut buffer = [1_u64; 220];
                    fill.run(&mut buffer[offset..offset + length]);
                    for (at, word) in buffer.iter().enumerate() {
                        let found = *word;
                        let inside = (offset..offset + length).contains(&at);
                        let expected = if inside { WORD } else { 1 };
                        assert_eq!(found, expected, "{fill:?}: word {at}, {offset}+{length}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_list_is_the_documented_one() {
        let names: Vec<_> = fills().iter().map(Fill::name).collect();
        #[cfg(target_arch = "x86_64")]
        assert_eq!(
            names[..6],
            [
                "sse2-nt-2",
                "sse2-nt-8",
                "avx2-nt-2",
                "avx2-nt-8",
                "movnti-8",
                "rep-stosb"
            ]
        );
        assert_eq!(names[names.len() - 2..], ["stream-constant", "words"]);
    }

    #[test]
    fn the_fill_with_the_smallest_median_time_is_chosen() {
        // One fill is fast in all rounds but one, every other slow in all but one: a mean or a
        // minimum would choose differently.
        for chosen in fills().iter().filter(|fill| fill.is_available()) {
            let available = fills().iter().filter(|fill| fill.is_available()).count();
            let mut calls = 0;
            let mut measure = |fill: &Fill| {
                let third = calls / available == 2;
                calls += 1;
                match (fill.name() == chosen.name(), third) {
                    (true, false) => 1000,
                    (false, false) => 6000,
                    (true, true) => 1_000_000,
                    (false, true) => 10,
                }
            };
            assert_eq!(fastest(5, &mut measure).name(), chosen.name());
            assert_eq!(calls, 5 * available);
        }
    }
}
