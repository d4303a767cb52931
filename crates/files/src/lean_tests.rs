use pretty_assertions::assert_eq;

use super::*;

#[test]
fn only_files_that_nothing_was_written_to_are_given_back() {
    let smaps = "\
55e0a0000000-55e0a0ad0000 r--p 00000000 fe:00 1234   /usr/bin/threadline
Rss:                1920 kB
Anonymous:             0 kB
VmFlags: rd mr mw me sd
55e0a0ad0000-55e0a2670000 r-xp 00acc000 fe:00 1234   /usr/bin/threadline
Anonymous:             0 kB
55e0a2670000-55e0a2720000 r--p 0266c000 fe:00 1234   /usr/bin/threadline
Anonymous:           708 kB
55e0a2720000-55e0a2727000 rw-p 0271c000 fe:00 1234   /usr/bin/threadline
Anonymous:             0 kB
55e0a3000000-55e0a3040000 rw-p 00000000 00:00 0      [heap]
Anonymous:             0 kB
7f0000000000-7f0000001000 r--p 00000000 00:00 0
Anonymous:             0 kB
7f0000002000-7f0000003000 r--s 00000000 fe:00 99     /shared
Anonymous:             0 kB
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0      [vdso]
Anonymous:             0 kB
";
    let mapping = |from, to: usize| Mapping {
        from,
        length: to - from,
    };
    assert_eq!(
        clean(smaps.as_bytes()).unwrap(),
        [
            mapping(0x55e0_a000_0000, 0x55e0_a0ad_0000),
            mapping(0x55e0_a0ad_0000, 0x55e0_a267_0000),
        ]
    );
}

#[test]
fn a_process_that_gave_back_its_start_goes_on_as_before() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssFile:"));
        let kb = line.unwrap().split_ascii_whitespace().nth(1).unwrap();
        kb.parse::<u64>().unwrap()
    };
    let before = resident();
    give_back_start().unwrap();
    assert!(
        resident() < before,
        "nothing was given back of {before} kB of files"
    );
    // Code and constants that were given back are there again.
    let sorted = {
        let mut words = "read again from the file".split(' ').collect::<Vec<_>>();
        words.sort_unstable();
        words.join(" ")
    };
    assert_eq!(sorted, "again file from read the");
}
