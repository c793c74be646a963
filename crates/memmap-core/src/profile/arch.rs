//! The architectures and kernel releases that a profile can stand for.

use core::fmt;
use core::str::FromStr;

/// A processor architecture, as far as its memory map differs from the others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// x86, 64 bits.
    #[doc(alias = "x86_64")]
    Amd64,
    /// 64-bit Arm.
    #[doc(alias = "aarch64")]
    Arm64,
    /// 64-bit RISC-V.
    Riscv64,
    /// 64-bit POWER, either byte order.
    #[doc(alias = "powerpc64")]
    Ppc64,
    /// IBM Z.
    S390x,
}

impl Arch {
    /// Debian's word for it: `amd64`, `arm64`, `riscv64`, `ppc64`, `s390x`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::Riscv64 => "riscv64",
            Self::Ppc64 => "ppc64",
            Self::S390x => "s390x",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A kernel release: `6.12` of `6.12.117`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion {
    /// The first number.
    pub major: u16,
    /// The second number.
    pub minor: u16,
}

impl KernelVersion {
    /// Linux 6.1, in the state of its late stable releases.
    pub const V6_1: Self = Self::new(6, 1);
    /// Linux 6.12, in the state of its late stable releases.
    pub const V6_12: Self = Self::new(6, 12);
    /// Linux 6.18.
    pub const V6_18: Self = Self::new(6, 18);
    /// Linux 7.3.
    pub const V7_3: Self = Self::new(7, 3);

    /// Release `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A text that does not begin with `MAJOR.MINOR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a kernel release: it must begin with MAJOR.MINOR, as in 6.12 or 6.12.117+deb12")]
#[non_exhaustive]
pub struct ParseKernelVersionError;

/// Reads `6.12`, `6.12.117`, `6.12.117+deb12-cloud-amd64`, `6.9-rc1`.
impl FromStr for KernelVersion {
    type Err = ParseKernelVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (major, rest) = text.split_once('.').ok_or(ParseKernelVersionError)?;
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number = |digits: &str| digits.parse().map_err(|_| ParseKernelVersionError);
        Ok(Self::new(number(major)?, number(&rest[..digits])?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_from_the_words_that_uname_prints() {
        assert_eq!(
            "6.12.117+deb12-cloud-amd64".parse(),
            Ok(KernelVersion::V6_12)
        );
        assert_eq!("6.9-rc1".parse(), Ok(KernelVersion::new(6, 9)));
        assert_eq!("7.3".parse(), Ok(KernelVersion::V7_3));
        for bad in ["", "6", "6.", "six.one", ".1", "99999999.1"] {
            assert!(bad.parse::<KernelVersion>().is_err(), "{bad:?}");
        }
    }
}
