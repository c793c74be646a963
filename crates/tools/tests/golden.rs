//! The comparison with captures, on small captures in our own words.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A machine of 128 MiB and its struct pages as a kernel would have left them.
fn capture(change: impl Fn(String) -> String) -> String {
    let text = "\
@@dmesg
[    0.000000] Linux version 6.12.1-test (someone) #1 SMP
[    0.000000] Command line: quiet memblock=debug
[    0.000000] BIOS-provided physical RAM map:
[    0.000000] BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable
[    0.000000] BIOS-e820: [mem 0x0000000000100000-0x0000000007fdffff] usable
[    0.000000] MEMBLOCK configuration:
[    0.000000]  memory size = 0x0000000007f7e000 reserved size = 0x0000000001100000
[    0.000000]  memory.cnt  = 0x2
[    0.000000]  memory[0x0]\t[0x0000000000001000-0x000000000009efff], 0x000000000009e000 bytes on node 0 flags: 0x0
[    0.000000]  memory[0x1]\t[0x0000000000100000-0x0000000007fdffff], 0x0000000007ee0000 bytes on node 0 flags: 0x0
[    0.000000]  reserved.cnt  = 0x2
[    0.000000]  reserved[0x0]\t[0x0000000000000000-0x00000000000fffff], 0x0000000000100000 bytes on node 0 flags: 0x0
[    0.000000]  reserved[0x1]\t[0x0000000001000000-0x0000000001ffffff], 0x0000000001000000 bytes on node 0 flags: 0x0
[    0.000000] Zone ranges:
[    0.000000]   DMA      [mem 0x0000000000001000-0x0000000000ffffff]
[    0.000000]   DMA32    [mem 0x0000000001000000-0x0000000007fdffff]
[    0.000000]   Normal   empty
[    0.000000]   Device   empty
[    0.000000] Early memory node ranges
[    0.000000]   node   0: [mem 0x0000000000001000-0x000000000009efff]
[    0.000000]   node   0: [mem 0x0000000000100000-0x0000000007fdffff]
[    0.000000] On node 0, zone DMA: 1 pages in unavailable ranges
[    0.000000] On node 0, zone DMA: 97 pages in unavailable ranges
[    0.000000] On node 0, zone DMA32: 32 pages in unavailable ranges
[    0.000000] SLUB: HWalign=64, Order=0-3, MinObjects=0, CPUs=1, Nodes=1
[    0.100000] Memory: 100000K/130552K available (1K kernel code, 1K rwdata, 1K rodata, 1K init, 1K bss, 17016K reserved, 0K cma-reserved)
[    0.200000] Freeing initrd memory: 16K
[    0.300000] Run /init as init process
@@zoneinfo
Node 0, zone      DMA
        spanned  4095
        present  3998
        managed  3840
  start_pfn:           1
Node 0, zone    DMA32
        spanned  28640
        present  28640
        managed  24548
  start_pfn:           4096
@@pages
SEG 0-32736
0 256 7ffffc0002000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 1ffffffff 0
256 1 7ffffc0000000 e0e0e0e0e0e0e0e e0e0e0e0e0e0e0e 0 0 8 f0000000 0
257 255 7ffffc0000000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 ffffffff 0
4096 4096 fffffc0002000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 1ffffffff 0
8193 1000 fffffc0000000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 ffffffff 0
9200 20 fffffc0000000 0 dead000000000122 0 0 0 1ffffffff 0
GAP 32736-32768
32736 32 fffffc0002000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 1ffffffff 0
MISC 27108
@@end
";
    change(text.to_owned())
}

fn golden(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_golden"))
        .args(arguments)
        .output()
        .expect("the program was built")
}

/// Exit status and output for a capture.
fn run(text: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("there is room for a file");
    std::fs::write(folder.path().join("small.txt"), text).expect("there is room for a file");
    let output = golden(&[folder.path()]);
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[test]
fn a_capture_that_agrees_is_equal_and_says_what_was_compared() {
    let (code, text) = run(&capture(|text| text));
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains(
            "equal: zone figures 6/6, gaps 3/3; listed 5660, compared 5639 (99.63 %), \
             equal 5639 (0 changed since, as the log says), in use since 20, block heads 1, unequal 0"
        ),
        "{text}"
    );
}

#[test]
fn any_unequal_bit_of_a_compared_page_is_found_and_decoded() {
    for (theirs, wrong) in [
        // another zone, another node, another last CPU
        ("4096 4096 fffffc0002000", "4096 4096 7ffffc0002000"),
        ("4096 4096 fffffc0002000", "4096 4096 4fffffc0002000"),
        ("8193 1000 fffffc0000000", "8193 1000 fffff80000000"),
        // free where it was never given back; a gap that was not initialised as one
        (
            "0 256 7ffffc0002000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 1ffffffff 0",
            "0 256 7ffffc0000000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 ffffffff 0",
        ),
        ("32736 32 fffffc0002000", "32736 32 17ffffc0002000"),
        // frames that have no struct page
        ("32736 32 fffffc0002000", "32736 33 fffffc0002000"),
        ("256 1 7ffffc0000000", "256 1 fffffc0000000"),
    ] {
        let (code, text) = run(&capture(|text| {
            assert!(text.contains(theirs), "{theirs}");
            text.replace(theirs, wrong)
        }));
        assert_eq!(code, Some(1), "{wrong}: {text}");
        assert!(text.contains("UNEQUAL"), "{wrong}: {text}");
        assert!(text.contains("ours: "), "{wrong}: {text}");
    }
}

#[test]
fn wrong_figures_and_gaps_are_found() {
    for (theirs, wrong) in [
        ("spanned  28640", "spanned  28641"),
        ("present  3998", "present  3999"),
        ("start_pfn:           4096", "start_pfn:           4095"),
        ("zone DMA: 97 pages", "zone DMA: 98 pages"),
        ("zone DMA32: 32 pages", "zone Normal: 32 pages"),
        (
            "On node 0, zone DMA: 1 pages in unavailable ranges\n",
            "nothing\n",
        ),
    ] {
        let (code, text) = run(&capture(|text| text.replace(theirs, wrong)));
        assert_eq!(code, Some(1), "{wrong}: {text}");
    }
}

/// A region of 4 MiB that is one free block, and what lists it otherwise.
fn with_blocks(listed: &[(u64, u8)], pages: u64) -> (Option<i32>, String) {
    use std::fmt::Write;
    let mut lines = String::new();
    for (pfn, order) in listed {
        let inner = pages / listed.len() as u64 - 1;
        let (next, own) = (pfn + 1, "5e1f5e1f5e1f5e1f");
        writeln!(
            lines,
            "{pfn} 1 fffffc0000000 e0e0e0e0e0e0e0e e0e0e0e0e0e0e0e 0 0 {order:x} f0000000 0\n\
             {next} {inner} fffffc0000000 {own} {own} 0 0 0 ffffffff 0"
        )
        .expect("a string takes it");
    }
    run(&capture(|text| {
        text.replace("GAP 32736", &format!("{lines}GAP 32736"))
    }))
}

#[test]
fn free_blocks_in_memory_that_nothing_has_used_are_ours_in_place_and_order() {
    let (code, text) = with_blocks(&[(10_240, 10)], 1024);
    assert_eq!(code, Some(0), "{text}");
    let wanted = "free blocks: listed 2, in memory not used since hand-over 1, equal in place, \
                  order and type 1, missing 0";
    assert!(text.contains(wanted), "{text}");
    // its halves: same pages free, another order
    let (code, text) = with_blocks(&[(10_240, 9), (10_752, 9)], 1024);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("block 0x2800 of order 9"), "{text}");
    // half of it is not listed: somebody has it, and nothing is compared
    let (code, text) = with_blocks(&[(10_240, 9)], 512);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("not used since hand-over 0"), "{text}");
}

#[test]
fn managed_pages_are_ours_and_those_that_the_log_says_were_freed() {
    let (code, text) = run(&capture(|text| {
        text.replace("managed  24548", "managed  24544")
    }));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("4 were freed since"), "{text}");
}

#[test]
fn memory_that_was_given_back_is_explained_up_to_what_the_log_says() {
    let freed = |pages: u64| {
        let lines = format!(
            "4096 {} fffffc0002000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 1ffffffff 0\n\
             {} {pages} fffffc0000000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 ffffffff 0\n",
            4096 - pages,
            8192 - pages
        );
        run(&capture(|text| {
            let old =
                "4096 4096 fffffc0002000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 1ffffffff 0\n";
            assert!(text.contains(old));
            text.replace(old, &lines)
        }))
    };
    // 16 KiB are four pages
    let (code, text) = freed(4);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("(4 changed since, as the log says)"),
        "{text}"
    );
    let (code, text) = freed(5);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("unequal 1"), "{text}");
}

#[test]
fn memory_that_was_reserved_later_is_explained_up_to_the_memory_line() {
    // the line says 512 KiB more than memblock had: 128 pages
    let line = |kib: &str, pages: u64| {
        run(&capture(|text| {
            let old = "8193 1000 fffffc0000000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 ffffffff 0";
            let new = format!(
                "8193 {pages} fffffc0002000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 1ffffffff 0\n\
                 {} {} fffffc0000000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 ffffffff 0",
                8193 + pages,
                1000 - pages
            );
            assert!(text.contains(old));
            let late = if kib.starts_with("17528") { 128 } else { 0 };
            text.replace(old, &new)
                .replace("17016K reserved", kib)
                .replace("managed  24548", &format!("managed  {}", 24_548 - late))
        }))
    };
    let (code, text) = line("17528K reserved", 127);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(line("17528K reserved", 129).0, Some(1));
    assert_eq!(line("17016K reserved", 4).0, Some(1));
}

#[test]
fn what_cannot_be_read_is_said_and_fails() {
    for garbage in ["@@dmesg\nhello\n@@end\n", "", "\0\0\0\0\0\0\0\0"] {
        let (code, text) = run(garbage);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("1 not read"), "{text}");
    }
    let nothing = golden(&[Path::new("/dev/null")]);
    assert_eq!(nothing.status.code(), Some(2));
    let text = String::from_utf8_lossy(&nothing.stdout);
    assert!(text.contains("is no regular file"), "{text}");
    let (code, text) = run(&capture(|text| text.replace("9200 20 ", "9200 many ")));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("is no run of struct pages"), "{text}");
    let folder = tempfile::tempdir().expect("there is room for a folder");
    assert_eq!(golden(&[folder.path()]).status.code(), Some(2));
    assert_eq!(
        golden(&[&folder.path().join("missing")]).status.code(),
        Some(2)
    );
}

#[test]
fn too_few_compared_pages_fail_where_that_was_asked_for() {
    let folder = tempfile::tempdir().expect("there is room for a file");
    let file = folder.path().join("small.txt");
    std::fs::write(&file, capture(|text| text)).expect("there is room for a file");
    let at_least = |percent: &str| {
        golden(&[Path::new("--at-least"), Path::new(percent), &file])
            .status
            .code()
    };
    assert_eq!(at_least("99.6"), Some(0));
    assert_eq!(at_least("99.7"), Some(1));
}

#[test]
fn a_share_is_a_number_from_0_to_100_for_both_programs() {
    let corpus = env!("CARGO_BIN_EXE_corpus");
    for (program, option) in [
        (env!("CARGO_BIN_EXE_golden"), "--at-least"),
        (corpus, "--least"),
    ] {
        for share in ["-1", "100.5", "NaN", "inf", "many"] {
            let output = Command::new(program).args([option, share, "/"]).output();
            let output = output.expect("the program was built");
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{option} {share}: {text}");
            assert!(text.contains(option), "{option} {share}: {text}");
        }
    }
}

#[test]
fn a_folder_without_logs_is_no_folder_of_equal_logs() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let corpus = || {
        let output = Command::new(env!("CARGO_BIN_EXE_corpus"))
            .arg(folder.path())
            .args(["--least", "0"])
            .output()
            .expect("the program was built");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    let (code, text) = corpus();
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("there is no log"), "{text}");
    std::fs::write(folder.path().join("a.txt"), "\0\0\0").expect("there is room for a file");
    let (code, text) = corpus();
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("none of 1 files is a boot log"), "{text}");
}

/// The text from `from` to before `to`, or to the end, taken out.
fn without(text: &str, from: &str, to: &str) -> String {
    let start = text.find(from).expect("it is there");
    let end = text[start..].find(to).map_or(text.len(), |at| start + at);
    format!("{}{}", &text[..start], &text[end..])
}

#[test]
fn a_capture_that_lacks_a_part_is_incomplete_whatever_share_is_asked_for() {
    let folder = tempfile::tempdir().expect("there is room for a file");
    let file = folder.path().join("small.txt");
    let whole = capture(|text| text);
    let cut = whole.find("GAP 32736").expect("it is there");
    let mid_line = whole.find(" 1ffffffff 0\nMISC").expect("it is there");
    for (text, missing) in [
        (
            without(&whole, "@@zoneinfo", "nowhere"),
            "zones (@@zoneinfo), struct pages (@@pages), its end (@@end)",
        ),
        (
            without(&whole, "@@zoneinfo", "@@pages"),
            "zones (@@zoneinfo)",
        ),
        (
            without(&whole, "Node 0, zone      DMA", "@@pages"),
            "zones (@@zoneinfo)",
        ),
        (
            without(&whole, "@@pages", "@@end"),
            "struct pages (@@pages)",
        ),
        (without(&whole, "SEG", "@@end"), "struct pages (@@pages)"),
        (without(&whole, "@@end", "nowhere"), "its end (@@end)"),
        // cut between lines, within one, and somewhere in the middle
        (
            whole[..cut].to_owned(),
            "27108 struct pages of 32736 in its segments, its end (@@end)",
        ),
        (
            whole[..mid_line].to_owned(),
            "27140 struct pages of 32768 in its segments, its end (@@end)",
        ),
        (
            without(&whole, "4096 4096 ", "8193"),
            "4096 struct pages of 32768 in its segments",
        ),
    ] {
        std::fs::write(&file, text).expect("there is room for a file");
        for at_least in ["0", "96"] {
            let output = golden(&[Path::new("--at-least"), Path::new(at_least), &file]);
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(1), "{text}");
            let verdict = format!(" incomplete: {missing} missing: zone figures");
            assert!(text.contains(&verdict), "{missing}: {text}");
        }
    }
}

#[test]
fn a_capture_of_pages_in_use_alone_has_nothing_to_be_equal() {
    let (code, text) = run(&capture(|text| {
        let pages = without(&text, "0 256 ", "9200 20 ");
        let pages = without(&pages, "32736 32 ", "MISC");
        pages.replace("MISC 27108", "MISC 32748")
    }));
    assert_eq!(code, Some(1), "{text}");
    let verdict = "incomplete: struct pages that show their initialisation missing";
    assert!(text.contains(verdict), "{text}");
}

#[test]
fn a_zone_that_only_we_have_is_reported() {
    let (code, text) = run(&capture(|text| {
        without(&text, "Node 0, zone    DMA32", "@@pages")
    }));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("UNEQUAL: zone figures 3/6"), "{text}");
    let note = "node 0 zone DMA32: not listed, ours has 28640 pages present of 28640 spanned";
    assert!(text.contains(note), "{text}");
}

#[test]
fn free_pages_are_unexplained_and_not_equal_where_the_log_ends_early() {
    let early = |reserved: &str| {
        run(&capture(|text| {
            let old =
                "4096 4096 fffffc0002000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 1ffffffff 0\n";
            let new = format!(
                "4096 4000 fffffc0002000 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 1ffffffff 0\n\
                 8096 96 {reserved} 5e1f5e1f5e1f5e1f 5e1f5e1f5e1f5e1f 0 0 0 ffffffff 0\n"
            );
            assert!(text.contains(old));
            let text = text.replace(old, &new);
            text.replace("[    0.300000] Run /init as init process\n", "")
        }))
    };
    let (code, text) = early("fffffc0000000");
    assert_eq!(code, Some(0), "{text}");
    // four of the 96 are the initial ramdisk's
    assert!(
        text.contains(
            "listed 5660, compared 5547 (98.00 %), equal 5547 (4 changed since, as the log says), \
             in use since 20, block heads 1, unexplained (log ends early) 92, unequal 0"
        ),
        "{text}"
    );
    // freeing does not move a page to another node
    let (code, text) = early("4fffffc0000000");
    assert_eq!(code, Some(1), "{text}");
    assert!(
        !text.contains("unexplained") && text.contains("unequal 96"),
        "{text}"
    );
}

#[test]
fn a_run_of_any_length_is_compared_with_what_we_have() {
    let (code, text) = run(&capture(|text| {
        text.replace(
            "32736 32 fffffc0002000",
            &format!("32736 {} fffffc0002000", u64::MAX - 32736),
        )
    }));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("UNEQUAL"), "{text}");
    let absent = u64::MAX - 32768;
    assert!(text.contains(&format!("unequal {absent}\n")), "{text}");
    assert_eq!(text.matches("no struct page").count(), 10, "{text}");
}

#[test]
fn runs_that_overlap_or_end_beyond_the_last_number_are_refused_with_their_line() {
    let line_of = |text: &str, what: &str| {
        let before = text.lines().position(|line| line.starts_with(what));
        before.expect("it is there") + 1
    };
    for (theirs, wrong) in [
        ("257 255 ", "250 255 "),
        ("8193 1000 ", "8193 1008 "),
        ("0 256 7", "0 18446744073709551615 7"),
    ] {
        let hostile = capture(|text| text.replacen(theirs, wrong, 1));
        let (code, text) = run(&hostile);
        assert_eq!(code, Some(2), "{wrong}: {text}");
        assert!(
            text.contains("not read: line ") && text.contains("overlap"),
            "{text}"
        );
    }
    let hostile = capture(|text| text.replace("257 255 ", "250 255 "));
    let (late, early) = (line_of(&hostile, "250 255 "), line_of(&hostile, "0 256 "));
    let message = format!("line {late}: frames 250 to 505 overlap those of line {early};");
    let (_, text) = run(&hostile);
    assert!(text.contains(&message), "{text}");
    let hostile = capture(|text| text.replace("32736 32 ", "32736 18446744073709551615 "));
    let (code, text) = run(&hostile);
    assert_eq!(code, Some(2), "{text}");
    let late = line_of(&hostile, "32736 18446744073709551615 ");
    let message =
        format!("not read: line {late}: 18446744073709551615 frames from 32736 on end beyond 2^64");
    assert!(text.contains(&message), "{text}");
}

#[test]
fn a_reader_that_went_away_and_a_full_disk_are_no_panic() {
    let folder = tempfile::tempdir().expect("there is room for a file");
    std::fs::write(folder.path().join("small.txt"), capture(|text| text))
        .expect("there is room for a file");
    for program in [env!("CARGO_BIN_EXE_golden"), env!("CARGO_BIN_EXE_corpus")] {
        let with_output = |out: Stdio| {
            let mut command = Command::new(program);
            let output = command.arg(folder.path()).stdout(out).output();
            let output = output.expect("the program was built");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            (output.status.code(), text)
        };
        let (reader, writer) = std::io::pipe().expect("there is room for a pipe");
        drop(reader);
        assert_eq!(with_output(writer.into()), (Some(141), String::new()));
        let Ok(full) = File::options().write(true).open("/dev/full") else {
            captures::skipped("there is no /dev/full here");
            continue;
        };
        let (code, text) = with_output(full.into());
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("output cannot be written"), "{text}");
    }
}

/// The captures themselves take a release build; here only that they are where they are expected.
#[test]
fn captures_of_real_kernels_agree_where_they_are_at_hand() {
    let small = ["k612-1n-2g.txt", "a73-16k-1n-1g.txt"];
    let Some(small) = small
        .into_iter()
        .map(|name| captures::file("golden", name))
        .collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let output = golden(&[&small[0], &small[1]]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
