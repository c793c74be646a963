//! Writes what is generated and checked in: the header of the C interface.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cbindgen::{Builder, Config, DocumentationLength, ExportConfig, Language, SortKey, Style};
use clap::Parser;

/// Generated files.
#[derive(Debug, Parser)]
#[command(name = "codegen")]
struct Args {
    /// Changes nothing, and fails where a file is not what would be written.
    #[arg(long)]
    check: bool,
}

const HEAD: &str = "\
/* deferred-init: memory maps of whole machines, for C and C++.
 *
 * Generated from crates/capi by `cargo xtask codegen`; do not edit. See the documentation of that
 * crate for conventions: status codes, `di_last_error`, structures that begin with `size`, threads.
 */";

fn main() -> ExitCode {
    let args = Args::parse();
    let capi = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../capi");
    let header = capi.join("include/deferred_init.h");
    let wanted = match generate(&capi) {
        Ok(wanted) => wanted,
        Err(error) => {
            eprintln!("codegen: {error}");
            return ExitCode::from(2);
        }
    };
    let found = std::fs::read_to_string(&header).unwrap_or_default();
    if found == wanted {
        println!("{} is up to date", header.display());
        return ExitCode::SUCCESS;
    }
    if args.check {
        let at = found.lines().zip(wanted.lines());
        let line = at.take_while(|(found, wanted)| found == wanted).count() + 1;
        eprintln!(
            "codegen: {} is out of date from line {line} on: run `cargo xtask codegen`",
            header.display()
        );
        return ExitCode::FAILURE;
    }
    if let Err(error) = std::fs::write(&header, wanted) {
        eprintln!("codegen: {}: {error}", header.display());
        return ExitCode::from(2);
    }
    println!("{} written", header.display());
    ExitCode::SUCCESS
}

/// The header's text.
fn generate(capi: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let inline = std::fs::read_to_string(capi.join("src/view.h"))?;
    let config = Config {
        language: Language::C,
        cpp_compat: true,
        documentation: true,
        documentation_length: DocumentationLength::Full,
        header: Some(HEAD.into()),
        include_guard: Some("DEFERRED_INIT_H".into()),
        no_includes: true,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"]
            .map(String::from)
            .into(),
        // the others are parameters of functions, and found there
        export: ExportConfig {
            include: vec!["di_dump_kind".into()],
            ..ExportConfig::default()
        },
        style: Style::Both,
        usize_is_size_t: true,
        sort_by: SortKey::None,
        trailer: Some(inline),
        ..Config::default()
    };
    let mut builder = Builder::new().with_config(config);
    for file in [
        "status",
        "layout",
        "profile",
        "machine_handle",
        "boot",
        "pages",
        "plug",
        "inspect",
    ] {
        builder = builder.with_src(capi.join(format!("src/{file}.rs")));
    }
    let mut text = Vec::new();
    builder.generate()?.write(&mut text);
    Ok(String::from_utf8(text)?)
}
