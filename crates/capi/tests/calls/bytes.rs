//! Decisions, out of the bytes of a script.

/// As many bytes as a decision needs; zeroes when there are no more.
pub(super) struct Bytes<'d>(&'d [u8]);

/// Numbers at which something ends.
const EDGES: [u64; 12] = [
    0,
    1,
    u64::MAX,
    u64::MAX - 1,
    1 << 63,
    1 << 52,
    (1 << 46) - 4096,
    1 << 32,
    u32::MAX as u64,
    0xffff,
    0x1_0000,
    4095,
];

impl<'d> Bytes<'d> {
    pub(super) fn new(data: &'d [u8]) -> Self {
        Self(data)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// A number below `limit`, which is at most 256.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        u64::from(self.byte()) % limit
    }

    /// Once in `times`.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == times - 1
    }

    pub(super) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// Any number: one at which something ends, or eight bytes.
    pub(super) fn any(&mut self) -> u64 {
        let which = self.below(16) as usize;
        match EDGES.get(which) {
            Some(&edge) => edge,
            None => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    /// Mostly a small number, now and then any.
    pub(super) fn small(&mut self, limit: u64) -> u32 {
        if self.once_in(16) {
            return self.any() as u32;
        }
        self.below(limit) as u32
    }

    /// Mostly a number of units below `limit`, most often multiples of eight of them; now and then
    /// any number.
    pub(super) fn address(&mut self, limit: u64, unit: u64) -> u64 {
        let units = self.below(limit);
        match self.below(16) {
            0 => self.any(),
            1 => units * unit + 4096,
            2..=5 => units * unit,
            _ => units.next_multiple_of(8) * unit,
        }
    }

    /// At most `most` of the bytes that are left.
    pub(super) fn take(&mut self, most: usize) -> &'d [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
