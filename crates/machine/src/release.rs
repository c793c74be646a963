//! Which kernel, on which architecture.

use std::fmt;

use memmap_core::{Arch, KernelVersion};

/// A kernel release as the banner names it, such as `6.12.117+deb12-amd64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRelease {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// The whole release, as printed.
    pub text: String,
}

impl KernelRelease {
    /// Reads `text` as a release: two numbers with a dot between, then anything.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, rest) = text.split_once('.')?;
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        Some(Self {
            major: major.parse().ok()?,
            minor: rest[..end].parse().ok()?,
            text: text.to_owned(),
        })
    }

    /// The two numbers.
    pub fn number(&self) -> (u16, u16) {
        (self.major, self.minor)
    }

    /// The two numbers, as profiles want them.
    pub fn version(&self) -> KernelVersion {
        KernelVersion::new(self.major, self.minor)
    }
}

impl fmt::Display for KernelRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An architecture that a log may come from; more than we model, so that the others can be named
/// when they are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Architecture {
    /// x86, 64 bits.
    Amd64,
    /// x86, 32 bits.
    X86,
    /// Arm, 64 bits.
    Arm64,
    /// Arm, 32 bits.
    Arm,
    /// RISC-V, 64 bits.
    Riscv64,
    /// Power, 64 bits.
    Ppc64,
    /// Power, 32 bits.
    Ppc,
    /// IBM Z.
    S390x,
    /// MIPS, either width.
    Mips,
    /// SPARC, 64 bits.
    Sparc64,
    /// Itanium.
    Ia64,
    /// PA-RISC.
    Parisc,
    /// Alpha.
    Alpha,
    /// LoongArch.
    Loongarch,
    /// Motorola 68000.
    M68k,
    /// ARC.
    Arc,
}

impl Architecture {
    /// The name that `uname -m` and package builders use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::X86 => "i386",
            Self::Arm64 => "arm64",
            Self::Arm => "arm",
            Self::Riscv64 => "riscv64",
            Self::Ppc64 => "ppc64",
            Self::Ppc => "ppc",
            Self::S390x => "s390x",
            Self::Mips => "mips",
            Self::Sparc64 => "sparc64",
            Self::Ia64 => "ia64",
            Self::Parisc => "parisc",
            Self::Alpha => "alpha",
            Self::Loongarch => "loongarch64",
            Self::M68k => "m68k",
            Self::Arc => "arc",
        }
    }

    /// The architecture that [`Architecture::name`] names `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        [
            Self::Amd64,
            Self::X86,
            Self::Arm64,
            Self::Arm,
            Self::Riscv64,
            Self::Ppc64,
            Self::Ppc,
            Self::S390x,
            Self::Mips,
            Self::Sparc64,
            Self::Ia64,
            Self::Parisc,
            Self::Alpha,
            Self::Loongarch,
            Self::M68k,
            Self::Arc,
        ]
        .into_iter()
        .find(|arch| arch.name() == name)
    }

    /// The architecture as profiles name it, where there are profiles.
    pub const fn modelled(self) -> Option<Arch> {
        Some(match self {
            Self::Amd64 => Arch::Amd64,
            Self::Arm64 => Arch::Arm64,
            Self::Riscv64 => Arch::Riscv64,
            Self::Ppc64 => Arch::Ppc64,
            Self::S390x => Arch::S390x,
            _ => return None,
        })
    }

    /// The architecture that this library was built for, where it is one of these.
    pub fn of_this_build() -> Option<Self> {
        Some(match std::env::consts::ARCH {
            "x86_64" => Self::Amd64,
            "x86" => Self::X86,
            "aarch64" => Self::Arm64,
            "arm" => Self::Arm,
            "riscv64" => Self::Riscv64,
            "powerpc64" => Self::Ppc64,
            "powerpc" => Self::Ppc,
            "s390x" => Self::S390x,
            "loongarch64" => Self::Loongarch,
            _ => return None,
        })
    }

    /// Page sizes in bytes that kernels of this architecture are built with, usual one first.
    pub const fn page_sizes(self) -> &'static [u64] {
        const K: u64 = 1024;
        match self {
            Self::Arm64 => &[4 * K, 64 * K, 16 * K],
            Self::Ppc64 => &[64 * K, 4 * K],
            Self::Sparc64 | Self::Alpha => &[8 * K],
            Self::Ia64 => &[16 * K, 64 * K, 4 * K, 8 * K],
            Self::Mips => &[4 * K, 16 * K, 64 * K],
            Self::Loongarch => &[16 * K, 4 * K, 64 * K],
            Self::Ppc => &[4 * K, 16 * K],
            _ => &[4 * K],
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_two_numbers_and_anything() {
        for (text, number) in [
            ("6.12.117+deb12-amd64", (6, 12)),
            ("4.7", (4, 7)),
            ("5.10-rc1", (5, 10)),
        ] {
            assert_eq!(KernelRelease::parse(text).unwrap().number(), number);
        }
        for text in ["", "6", "6.", "x.1", "6.x", "99999.1", "6.99999"] {
            assert_eq!(KernelRelease::parse(text), None, "{text}");
        }
    }
}
