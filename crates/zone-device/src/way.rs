//! The four ways of initialising a device's struct pages.

use core::fmt;

use memmap_core::writers::{PageWriter, Stream, Template, Zero};

/// How struct pages come to hold what they hold. The outcome is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// Every page in full, word by word, as Linux does it.
    Slow,
    /// The first page of each kind in full, then copies of it.
    Template,
    /// Such copies past the caches, with one fence where somebody else may look.
    Stream,
    /// Nothing is written: the whole range becomes copies, made when they are written to, of one
    /// block of finished pages. For single pages on mapped memory.
    Cow,
}

impl Way {
    /// Every way, in the order in which tables show them.
    pub const ALL: [Self; 4] = [Self::Slow, Self::Template, Self::Stream, Self::Cow];

    /// The name by which users choose it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Template => "template",
            Self::Stream => "stream",
            Self::Cow => "cow",
        }
    }

    /// The way called `name`.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }

    /// What writes the pages; of [`Way::Cow`], those that cannot be left unwritten.
    pub const fn writer(self) -> &'static dyn PageWriter {
        match self {
            Self::Slow => &Zero,
            Self::Template => &Template::DETECT,
            Self::Stream | Self::Cow => &Stream::DETECT,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_found_by_its_name() {
        for way in Way::ALL {
            assert_eq!(Way::by_name(way.name()), Some(way));
        }
        assert_eq!(Way::by_name("Slow"), None);
        assert_eq!(Way::Slow.writer().name(), "zero");
    }
}
