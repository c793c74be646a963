//! Builds the baselines in C.

fn main() {
    kernel_writers();
    kernel_memblock();
    c_interface();
}

/// Page initialisation in C, once per size of a struct page, with the kind of options that a
/// kernel is compiled with: no vector registers, no strict aliasing, no vectoriser.
fn kernel_writers() {
    const SOURCES: [&str; 4] = ["c/zero.c", "c/memset.c", "c/template.c", "c/device.c"];
    const HEADER: &str = "c/page.h";
    let x86_64 = std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    for words in 7..=12 {
        let mut build = as_a_kernel(x86_64);
        build
            .files(SOURCES)
            .define("PAGE_WORDS", words.to_string().as_str());
        if x86_64 {
            build.file("c/movnti.c");
        }
        build.compile(&format!("kernel_writers_{words}"));
    }
    as_a_kernel(x86_64)
        .file("c/clear.c")
        .compile("kernel_clear");
    for file in SOURCES
        .into_iter()
        .chain([HEADER, "c/movnti.c", "c/clear.c"])
    {
        println!("cargo::rerun-if-changed={file}");
    }
}

fn as_a_kernel(x86_64: bool) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .opt_level(2)
        .debug(false)
        .std("gnu11")
        .warnings(true)
        .flag("-fno-strict-aliasing")
        .flag("-ffreestanding")
        // the word loops stay loops, of words
        .flag_if_supported("-fno-tree-vectorize")
        .flag_if_supported("-fno-tree-slp-vectorize")
        .flag_if_supported("-fno-tree-loop-distribute-patterns");
    if x86_64 {
        for flag in [
            "-mno-sse",
            "-mno-mmx",
            "-mno-sse2",
            "-mno-avx",
            "-mno-80387",
        ] {
            build.flag(flag);
        }
        build.flag("-mno-red-zone");
    } else {
        build.flag_if_supported("-mgeneral-regs-only");
    }
    build
}

/// A program over the C interface, as anybody compiles it.
fn c_interface() {
    const HEADERS: &str = "../crates/capi/include";
    cc::Build::new()
        .opt_level(2)
        .debug(false)
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .include(HEADERS)
        .file("c/capi.c")
        .compile("c_interface");
    println!("cargo::rerun-if-changed=c/capi.c");
    println!("cargo::rerun-if-changed={HEADERS}");
}

/// Regions in a flat array; an ordinary memmove, since a kernel has a fast one of its own.
fn kernel_memblock() {
    const SOURCE: &str = "c/memblock.c";
    cc::Build::new()
        .opt_level(2)
        .debug(false)
        .std("gnu11")
        .warnings(true)
        .flag("-fno-strict-aliasing")
        .file(SOURCE)
        .compile("kernel_memblock");
    println!("cargo::rerun-if-changed={SOURCE}");
}
