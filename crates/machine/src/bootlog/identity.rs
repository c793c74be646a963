//! Who speaks: kernel, architecture, command line, machine.
//!
//! The banner names the release and, by its compiler, mostly the architecture; lines that only
//! one architecture prints decide where the banner is lost or built natively.

use memmap_core::ZoneKind;

use crate::figures::{FigureKind, PrintedFigures};
use crate::location::Location;
use crate::release::{Architecture, KernelRelease};
use crate::text::scan::Scan;

/// Kernel, architecture, command line, machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The release of the banner.
    pub release: Option<KernelRelease>,
    /// Where the banner is.
    pub release_at: Option<Location>,
    /// The architecture.
    pub architecture: Option<Architecture>,
    /// The line that shows it.
    pub architecture_at: Option<Location>,
    /// What the boot loader handed over.
    pub command_line: Option<String>,
    /// What firmware calls the machine.
    pub machine: Option<String>,
    /// The line that shows a Xen PV domain.
    pub xen_pv: Option<Location>,
    /// The line that shows addresses of 32 bits, whatever the processor.
    pub narrow: Option<Location>,
    /// Whether the release is only what the boot image's name says.
    pub release_by_image: bool,
    /// How sure `architecture` is; a line of one architecture beats a compiler's name.
    weight: u8,
}

/// Beginnings of lines that one architecture alone prints.
const MARKS: [(&str, Architecture); 36] = [
    ("BIOS-e820:", Architecture::Amd64),
    ("x86/", Architecture::Amd64),
    ("MTRR", Architecture::Amd64),
    ("smpboot:", Architecture::Amd64),
    ("radix-mmu:", Architecture::Ppc64),
    ("hash-mmu:", Architecture::Ppc64),
    ("Using pSeries machine", Architecture::Ppc64),
    ("Using PowerNV machine", Architecture::Ppc64),
    ("Using PowerMac machine", Architecture::Ppc),
    ("OPAL: ", Architecture::Ppc64),
    ("numa: Partition configured for", Architecture::Ppc64),
    ("ppc64_pft_size", Architecture::Ppc64),
    ("phys_mem_size", Architecture::Ppc),
    ("  * 0x", Architecture::Ppc),
    ("SBI ", Architecture::Riscv64),
    ("riscv:", Architecture::Riscv64),
    ("setup: Linux is running ", Architecture::S390x),
    ("CPU features: detected:", Architecture::Arm64),
    ("GICv3:", Architecture::Arm64),
    ("GICv2m:", Architecture::Arm64),
    ("CPU: All CPU(s) started at EL", Architecture::Arm64),
    ("Memory policy: ", Architecture::Arm),
    ("CPU: ARMv7", Architecture::Arm),
    ("CPU: div instructions available", Architecture::Arm),
    ("CPU0 revision is:", Architecture::Mips),
    ("Primary data cache", Architecture::Mips),
    ("Primary instruction cache", Architecture::Mips),
    ("PROMLIB: Sun", Architecture::Sparc64),
    ("ARCH: SUN4", Architecture::Sparc64),
    ("SAL ", Architecture::Ia64),
    ("The 64-bit Kernel has started", Architecture::Parisc),
    ("model 0000", Architecture::Parisc),
    ("Booting on Marvel", Architecture::Alpha),
    ("CPU0 supports Loongson", Architecture::Loongarch),
    ("PROMLIB: ARC firmware", Architecture::Mips),
    ("ACPI: NUMA: SRAT: PXM", Architecture::Arm64),
];

/// Parts of a compiler's or release's name, the more special first.
const NAMES: [(&str, Architecture); 24] = [
    ("x86_64", Architecture::Amd64),
    ("amd64", Architecture::Amd64),
    ("i686", Architecture::X86),
    ("i386", Architecture::X86),
    ("aarch64", Architecture::Arm64),
    ("arm64", Architecture::Arm64),
    ("powerpc64", Architecture::Ppc64),
    ("ppc64", Architecture::Ppc64),
    ("PMacG5", Architecture::Ppc64),
    ("powerpc", Architecture::Ppc),
    ("-pmac", Architecture::Ppc),
    ("riscv64", Architecture::Riscv64),
    ("s390x", Architecture::S390x),
    ("mips", Architecture::Mips),
    ("sparc64", Architecture::Sparc64),
    ("ia64", Architecture::Ia64),
    ("hppa", Architecture::Parisc),
    ("alpha", Architecture::Alpha),
    ("loongarch", Architecture::Loongarch),
    ("m68k", Architecture::M68k),
    ("arm-", Architecture::Arm),
    ("armv7", Architecture::Arm),
    ("armhf", Architecture::Arm),
    ("arc-", Architecture::Arc),
];

impl Identity {
    /// Takes one message.
    pub(super) fn feed(&mut self, line: u64, text: &str) {
        if let Some(rest) = text.strip_prefix("Linux version ") {
            self.banner(line, text, rest);
        } else if let Some(rest) = text
            .strip_prefix("Command line:")
            .or_else(|| text.strip_prefix("Kernel command line:"))
        {
            self.command_line
                .get_or_insert_with(|| rest.trim().to_owned());
            if self.release.is_none() {
                // Boot loaders name the image by the release; a later banner replaces it.
                self.release = image_release(rest);
                self.release_by_image = self.release.is_some();
            }
        } else if let Some(rest) = text
            .strip_prefix("DMI: ")
            .or_else(|| text.strip_prefix("Machine model: "))
            .or_else(|| text.strip_prefix("Hardware name: "))
        {
            let name = !rest.starts_with("Memory slots") && !rest.contains("SMBIOS");
            if name {
                self.machine.get_or_insert_with(|| rest.trim().to_owned());
            }
        } else if text.starts_with("Booting Linux on physical CPU 0x") {
            // Arm prints the number alone, or in 8 digits; arm64 in 10, with the processor's id.
            let mut scan = Scan(text);
            let digits = scan
                .eat("Booting Linux on physical CPU 0x")
                .map_or(0, |()| scan.word().len());
            let arch = if digits == 10 {
                Architecture::Arm64
            } else {
                Architecture::Arm
            };
            self.believe(3, arch, line, text);
        } else if text.starts_with("Xen: [mem ")
            || text.starts_with("Booting paravirtualized kernel on Xen")
                && !text.contains("HVM")
                && !text.contains("PVH")
        {
            self.xen_pv.get_or_insert_with(|| Location::new(line, text));
            self.believe(2, Architecture::Amd64, line, text);
        } else if let Some((_, after)) = text.split_once("max_arch_pfn = ") {
            let wide = Scan(after).hex().is_some_and(|pfn| pfn >= 0x2000_0000);
            let arch = if wide {
                Architecture::Amd64
            } else {
                Architecture::X86
            };
            self.believe(4, arch, line, text);
        } else if shows_narrow_addresses(text) {
            self.narrow.get_or_insert_with(|| Location::new(line, text));
        } else if let Some((_, arch)) = MARKS.iter().find(|(mark, _)| text.starts_with(mark)) {
            self.believe(2, *arch, line, text);
        }
    }

    /// Draws what the figures say of the width.
    pub(super) fn settle(&mut self, figures: &PrintedFigures) {
        let highmem = figures.iter().find(|figure| {
            matches!(
                figure.kind,
                FigureKind::ZoneRange {
                    zone: ZoneKind::HighMem,
                    ..
                }
            )
        });
        if self.architecture.is_none() {
            self.guess(figures);
        }
        if let Some(figure) = highmem {
            let narrow = match self.architecture {
                Some(Architecture::Amd64) => Some(Architecture::X86),
                Some(Architecture::Arm64) => Some(Architecture::Arm),
                Some(Architecture::Ppc64) => Some(Architecture::Ppc),
                _ => None,
            };
            if let Some(narrow) = narrow {
                self.architecture = Some(narrow);
                self.architecture_at = Some(figure.at.clone());
            }
        }
    }

    /// Tells x86 by marks that only its memory has: a DMA zone of 16 MiB beside DMA32, or low
    /// memory that stops short of the video memory at 640 KiB.
    fn guess(&mut self, figures: &PrintedFigures) {
        let dma32 = figures
            .zone_ranges()
            .any(|(zone, _)| zone == ZoneKind::Dma32);
        let found = figures.iter().find(|figure| match figure.kind {
            FigureKind::ZoneRange {
                zone: ZoneKind::Dma,
                range: Some(range),
            } => dma32 && range.end().get() == 16 << 20,
            FigureKind::EarlyRange { range, .. } => {
                range.start().get() == 0x1000 && range.end().get() <= 0xa0000
            }
            _ => false,
        });
        if let Some(figure) = found {
            self.architecture = Some(Architecture::Amd64);
            self.architecture_at = Some(figure.at.clone());
        }
    }

    fn banner(&mut self, line: u64, text: &str, rest: &str) {
        if self.release.is_none() || self.release_by_image {
            self.release_by_image = false;
            self.release = KernelRelease::parse(Scan(rest).word());
            self.release_at = Some(Location::new(line, text));
        }
        // The compiler stands in the parentheses; who built it and where does not count.
        let release = Scan(rest).word();
        let compiler = rest.split_once(") (").map_or("", |(_, compiler)| compiler);
        let found = NAMES
            .iter()
            .find(|(name, _)| compiler.contains(name) || release.contains(name));
        if let Some((_, arch)) = found {
            self.believe(1, *arch, line, text);
        }
    }

    fn believe(&mut self, weight: u8, arch: Architecture, line: u64, text: &str) {
        // Power prints some lines on both widths: the wider one, once seen, stays.
        let narrower = arch == Architecture::Ppc && self.architecture == Some(Architecture::Ppc64);
        if weight > self.weight && !narrower
            || arch == Architecture::Ppc64 && self.architecture == Some(Architecture::Ppc)
        {
            self.weight = self.weight.max(weight);
            self.architecture = Some(arch);
            self.architecture_at = Some(Location::new(line, text));
        }
    }
}

/// `vmalloc : 0xa0000000 - 0xc0000000 ( 512 MB)` and the like, where both ends are below 4 GiB: a
/// kernel with addresses of 64 bits has all of its own above.
fn shows_narrow_addresses(text: &str) -> bool {
    let Some((name, rest)) = text.split_once(':') else {
        return false;
    };
    let ours = ["vmalloc", "lowmem", "fixmap", "vmemmap"].contains(&name.trim_end());
    let end = Scan(rest).exclusive("-").map(|range| range.end().get());
    ours && end.is_some_and(|end| end > 0 && end <= 1 << 32)
}

/// The release in `BOOT_IMAGE=…/vmlinuz-RELEASE`.
fn image_release(command_line: &str) -> Option<KernelRelease> {
    let image = command_line
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("BOOT_IMAGE="))?;
    let (_, release) = image.split_once("vmlinuz-")?;
    KernelRelease::parse(release)
}
