//! Programs in C and C++ over the header: compiled without a warning, run, and run under valgrind.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo put the libraries that this test was built with.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().into()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a program that links the static library needs beside it.
const SYSTEM: [&str; 4] = ["-lpthread", "-ldl", "-lm", "-lgcc_s"];

/// What links libhwloc where it is here: other crates of one build may have asked for it.
fn hwloc() -> Vec<String> {
    let asked = Command::new("pkg-config")
        .args(["--libs", "hwloc"])
        .output();
    let libs = asked.ok().filter(|output| output.status.success());
    let libs = libs.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let libs = libs.unwrap_or_default();
    let as_needed = std::iter::once("-Wl,--as-needed");
    as_needed
        .chain(libs.split_whitespace())
        .map(String::from)
        .collect()
}

/// Compiles `source`, from the root of the workspace; `None`, said aloud, where there is no such compiler.
fn compile(compiler: &str, standard: &str, source: &str, to: &Path) -> Option<PathBuf> {
    if Command::new(compiler).arg("--version").output().is_err() {
        captures::skipped(&format!("there is no {compiler}"));
        return None;
    }
    let program = to.join("program");
    let library = libraries().join("libdeferred_init_c.a");
    assert!(library.is_file(), "{}", library.display());
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", standard, "-I"])
        .arg(root().join("crates/capi/include"))
        .arg("-o")
        .arg(&program)
        .arg(root().join(source))
        .arg(library)
        .args(SYSTEM)
        .args(hwloc())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(program)
}

/// A boot log of 512 MiB.
const LOG: &str = "[    0.000000] Linux version 6.12.0-amd64 (x@y) (gcc 13) #1 SMP PREEMPT_DYNAMIC x\n\
     [    0.000000] Command line: quiet\n\
     [    0.000000] BIOS-provided physical RAM map:\n\
     [    0.000000] BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable\n\
     [    0.000000] BIOS-e820: [mem 0x0000000000100000-0x000000001fffffff] usable\n";

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{wrong}");
    said
}

#[test]
fn a_simulator_in_c_runs_whole_lives_of_machines_and_valgrind_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile("gcc", "-std=c11", "examples/c/machines.c", folder.path()) else {
        return;
    };
    let log = folder.path().join("log.txt");
    std::fs::write(&log, LOG).unwrap();
    let said = run(Command::new(&program).arg(&log));
    assert!(
        said.contains("ten machines at once are what each is alone"),
        "{said}"
    );
    assert!(said.contains("zone DMA32: "), "{said}");

    let valgrind = Command::new("valgrind").arg("--version").output();
    if valgrind.is_err() {
        captures::skipped("there is no valgrind");
        return;
    }
    run(Command::new("valgrind")
        .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
        .args(["--show-leak-kinds=definite,indirect,possible"])
        .args(["--errors-for-leak-kinds=definite,indirect,possible"])
        .arg(format!(
            "--suppressions={}",
            root().join("examples/c/valgrind.supp").display()
        ))
        .arg(&program));
}

#[test]
fn the_fast_path_of_the_header_is_what_the_calls_say() {
    let folder = tempfile::tempdir().unwrap();
    let source = "crates/capi/tests/c/view.c";
    if let Some(program) = compile("gcc", "-std=c11", source, folder.path()) {
        let said = run(&mut Command::new(program));
        assert!(said.contains("10 kernels: "), "{said}");
    }
}

/// The lines of the README's example in C, as a whole program.
fn readme_program() -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let snippets: Vec<&str> = readme
        .split("```c\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert_eq!(snippets.len(), 1, "which one is the program?");
    let (includes, body): (Vec<&str>, Vec<&str>) = snippets[0]
        .lines()
        .partition(|line| line.starts_with("#include"));
    let (includes, body) = (includes.join("\n"), body.join("\n"));
    format!(
        "{includes}\nint main(void)\n{{\n{body}\nint wrong = page == NULL || \
         di_page_to_pfn(machine, page) != pfn;\ndi_machine_free(machine);\n\
         di_layout_free(layout);\nreturn wrong;\n}}\n"
    )
}

#[test]
fn the_readmes_example_in_c_boots_a_machine() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("readme.c");
    std::fs::write(&source, readme_program()).unwrap();
    std::fs::write(folder.path().join("dmesg.txt"), LOG).unwrap();
    let source = source.to_str().unwrap();
    if let Some(program) = compile("gcc", "-std=c11", source, folder.path()) {
        run(Command::new(program).current_dir(folder.path()));
    }
}

#[test]
fn the_header_is_c_plus_plus_too() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(program) = compile("g++", "-std=c++17", "examples/c/header.cc", folder.path()) {
        run(&mut Command::new(program));
    }
}
