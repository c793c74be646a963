//! Logs of several boots: one of them is read, and which is told.

use machine::check;
use machine::{BootLog, MachineLayout, Note, ReadError};

/// A boot of a made-up amd64 machine with memory up to `end` MiB, 17 lines.
fn boot(release: &str, end: u64) -> String {
    let last = (end << 20) - 1;
    let messages = format!(
        "Linux version {release} (x@y) (x86_64-linux-gnu-gcc 12) #1 SMP\n\
         Command line: quiet\n\
         BIOS-provided physical RAM map:\n\
         BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable\n\
         BIOS-e820: [mem 0x0000000000100000-{last:#018x}] usable\n\
         e820: update [mem 0x00000000-0x00000fff] usable ==> reserved\n\
         e820: remove [mem 0x000a0000-0x000fffff] usable\n\
         last_pfn = {pfn:#x} max_arch_pfn = 0x400000000\n\
         Zone ranges:\n\
         \x20 DMA      [mem 0x0000000000001000-0x0000000000ffffff]\n\
         \x20 DMA32    [mem 0x0000000001000000-{last:#018x}]\n\
         \x20 Normal   empty\n\
         Early memory node ranges\n\
         \x20 node   0: [mem 0x0000000000001000-0x000000000009efff]\n\
         \x20 node   0: [mem 0x0000000000100000-{last:#018x}]\n\
         Initmem setup node 0 [mem 0x0000000000001000-{last:#018x}]\n\
         Memory: 1000K/2000K available (1K kernel code, 1000K reserved, 0K cma-reserved)\n",
        pfn = end << 8,
    );
    let stamped = messages.lines().enumerate();
    let stamped = stamped.map(|(at, line)| format!("[    0.{:06}] {line}\n", 10 * at));
    stamped.collect()
}

/// `text` without its time stamps.
fn plain(text: &str) -> String {
    let lines = text.lines();
    lines.map(|line| format!("{}\n", &line[15..])).collect()
}

fn log(text: &str) -> BootLog {
    BootLog::read("log", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// Asserts that of `text` what `boot` alone says is read, with `others` left out and told.
#[track_caller]
fn is_read(text: &str, boot: &str, others: &[(u64, u64)]) {
    let (read, alone) = (log(text), log(boot));
    assert_eq!(read.other_boots.lines(), others);
    assert_eq!(read.identity.release, alone.identity.release);
    let [read, alone] = [&read, &alone].map(|log| MachineLayout::from_log(log).unwrap());
    let ranges = |layout: &MachineLayout| -> Vec<_> {
        let memory = layout.memory.iter();
        memory.map(|memory| memory.range).collect()
    };
    assert_eq!(ranges(&read), ranges(&alone));
    let [tally, expected] = [&read, &alone].map(|layout| check::check(layout).tally());
    assert_eq!(tally, expected);
    let told = read.provenance.to_string();
    for (first, last) in others {
        assert!(told.contains(&format!("{first} to {last}")), "{told}");
    }
    assert_eq!(read.provenance.notes.is_empty(), others.is_empty());
}

#[test]
fn of_two_boots_the_last_one_is_read_and_the_lines_of_both_are_told() {
    let (first, second) = (boot("6.12.1", 1024), boot("6.1.9", 2048));
    is_read(&format!("{first}{second}"), &second, &[(1, 17)]);
    is_read(&format!("{second}{first}"), &first, &[(1, 17)]);
    is_read(&format!("{first}{first}"), &first, &[(1, 17)]);
    is_read(&first, &first, &[]);
    let both = format!("{first}[   12.000000] later\n{second}[   99.000000] panic\n");
    let layout = MachineLayout::from_log(&log(&both)).unwrap();
    let [Note::OtherBoots { taken, others }] = &layout.provenance.notes[..] else {
        panic!("{:?}", layout.provenance.notes);
    };
    assert_eq!((*taken, others.lines()), ((19, 36), &[(1, 18)][..]));
    let told = layout.provenance.to_string();
    assert!(
        told.contains("begins anew 1 time: lines 19 to 36 were read"),
        "{told}"
    );
}

#[test]
fn boots_without_time_stamps_are_told_apart_by_their_banners() {
    let (first, second) = (plain(&boot("6.12.1", 1024)), plain(&boot("6.1.9", 2048)));
    is_read(&format!("{first}{second}"), &second, &[(1, 17)]);
}

#[test]
fn a_boot_that_a_journal_tells_without_time_stamps_is_another_than_the_one_with_them() {
    let (first, second) = (boot("6.12.1", 1024), plain(&boot("6.1.9", 2048)));
    let journal: String = second
        .lines()
        .map(|line| format!("Nov 27 15:36:51 host kernel: {line}\n"))
        .collect();
    is_read(&format!("{first}{journal}"), &journal, &[(1, 17)]);
    is_read(&format!("{journal}{first}"), &first, &[(1, 17)]);
}

#[test]
fn a_boot_whose_end_is_not_in_the_log_gives_way_to_the_whole_one_before_it() {
    let (first, second) = (boot("6.12.1", 1024), boot("6.1.9", 2048));
    let begun: String = second
        .lines()
        .take(12)
        .map(|line| format!("{line}\n"))
        .collect();
    is_read(&format!("{first}{begun}"), &first, &[(18, 29)]);
    is_read(
        &format!("{second}{first}{begun}"),
        &first,
        &[(1, 17), (35, 46)],
    );
}

#[test]
fn a_boot_whose_front_is_lost_is_not_mixed_with_the_next() {
    let (first, second) = (boot("6.12.1", 1024), boot("6.1.9", 2048));
    let tail: String = first
        .lines()
        .skip(8)
        .map(|line| format!("{line}\n"))
        .collect();
    is_read(&format!("{tail}{second}"), &second, &[(1, 9)]);
    let no_banner: String = second
        .lines()
        .skip(1)
        .map(|line| format!("{line}\n"))
        .collect();
    let read = log(&format!("{no_banner}{first}"));
    assert_eq!(read.other_boots.lines(), [(1, 16)]);
    let read = log(&format!("{first}{no_banner}"));
    assert_eq!(
        (read.boot_lines, read.other_boots.lines()),
        ((1, 17), &[(18, 33)][..])
    );
}

#[test]
fn a_banner_that_a_report_quotes_or_a_program_prints_begins_no_boot() {
    let boot = boot("6.12.1", 1024);
    let quoted = "Linux version 6.12.1 (x@y) (x86_64-linux-gnu-gcc 12) #1 SMP\n";
    is_read(&format!("{quoted}{boot}"), &boot, &[]);
    is_read(&format!("{boot}{quoted}"), &boot, &[]);
    is_read(&format!("{boot}[   50.000000] {quoted}"), &boot, &[]);
    is_read(&format!("{quoted}{}", plain(&boot)), &boot, &[]);
}

#[test]
fn more_boots_than_anyone_reads_are_counted() {
    let text = boot("6.12.1", 1024).repeat(150);
    let read = log(&text);
    assert_eq!(read.other_boots.count(), 149);
    assert_eq!(read.boot_lines, (149 * 17 + 1, 150 * 17));
    let told = MachineLayout::from_log(&read)
        .unwrap()
        .provenance
        .to_string();
    assert!(told.contains("and 141 more"), "{told}");
}

#[test]
fn banners_alone_are_no_boot_log() {
    let text = "[    0.000000] Linux version 6.12.1 (x@y)\n".repeat(3);
    let error = BootLog::read("log", text.as_bytes()).unwrap_err();
    assert!(
        matches!(error, ReadError::NotABootLog { lines: 3, .. }),
        "{error}"
    );
}
