//! Pages of the program that only the start or a change needed: reading the configuration, certificates, the command
//! line. They are let go when the process has come to rest, and come back from the page cache when something uses them
//! again.

use rustix::mm::{Advice, madvise};
use std::ffi::c_void;

/// Lets go what the process has mapped of its own file. The kernel maps 64 KiB around each page that is touched, so
/// that a start has most of the program resident, and a process that serves uses a third of it.
pub fn let_go() {
    let Ok(mappings) = std::fs::read_to_string("/proc/self/smaps") else { return };
    for (start, end) in untouched(&mappings, let_go as *const () as usize) {
        release(start, end);
    }
}

/// Mappings of the file that `inside` is mapped from, by their bounds, of which the process has changed nothing: what
/// is relocated, or has a debugger's breakpoints in it, is a copy that no file has.
fn untouched(mappings: &str, inside: usize) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    for line in mappings.lines() {
        if let Some(mapping) = Mapping::parse(line) {
            parts.push((mapping, false));
        } else if let (Some((_, is_untouched)), Some(own)) = (parts.last_mut(), line.strip_prefix("Anonymous:")) {
            *is_untouched = own.trim() == "0 kB";
        }
    }
    let Some(own) = parts.iter().find(|(mapping, _)| (mapping.start..mapping.end).contains(&inside)) else { return Vec::new() };
    let file = own.0.file;
    let is_wanted = |(mapping, is_untouched): &&(Mapping<'_>, bool)| {
        *is_untouched && mapping.file == file && matches!(mapping.permissions, "r-xp" | "r--p")
    };
    parts.iter().filter(is_wanted).map(|(mapping, _)| (mapping.start, mapping.end)).collect()
}

struct Mapping<'a> {
    start: usize,
    end: usize,
    permissions: &'a str,
    /// Device and inode.
    file: (&'a str, &'a str),
}

impl Mapping<'_> {
    /// `55d6d797e000-55d6d7ee1000 r-xp 00563000 fe:00 1234 /usr/bin/tidegate`, as proc(5) has it.
    fn parse(line: &str) -> Option<Mapping<'_>> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let permissions = words.next()?;
        let (device, inode) = (words.nth(1)?, words.next()?);
        let address = |text| usize::from_str_radix(text, 16).ok();
        // What belongs to no file has the inode 0.
        (inode != "0").then_some(())?;
        Some(Mapping { start: address(start)?, end: address(end)?, permissions, file: (device, inode) })
    }
}

#[allow(unsafe_code)]
fn release(start: usize, end: usize) {
    let at = std::ptr::with_exposed_provenance_mut::<c_void>(start);
    // SAFETY: the range is a private mapping of the program's own file that nobody can write to and of which no page
    // was changed, so whoever uses it next gets the same bytes from the file (madvise(2), MADV_DONTNEED).
    let _ = unsafe { madvise(at, end - start, Advice::LinuxDontNeed) };
}

#[cfg(test)]
mod tests {
    use super::untouched;

    const MAPPINGS: &str = "\
1000-3000 r--p 00000000 fe:00 77                         /usr/bin/tidegate
Rss:                   8 kB
Anonymous:             0 kB
VmFlags: rd mr mw me sd
3000-9000 r-xp 00002000 fe:00 77                         /usr/bin/tidegate
Anonymous:             0 kB
9000-a000 r--p 00008000 fe:00 77                         /usr/bin/tidegate
Anonymous:             4 kB
a000-b000 rw-p 00009000 fe:00 77                         /usr/bin/tidegate
Anonymous:             0 kB
b000-c000 rw-p 00000000 00:00 0                          [heap]
Anonymous:             0 kB
f000-10000 r-xp 00000000 fe:00 78                        /lib/libc.so.6
Anonymous:             0 kB
";

    #[test]
    fn only_what_is_the_file_and_nothing_else_is_let_go() {
        let check = |mappings: &str, inside: usize, expected: &[(usize, usize)]| {
            assert_eq!(untouched(mappings, inside), expected, "{mappings}");
        };
        check(MAPPINGS, 0x4000, &[(0x1000, 0x3000), (0x3000, 0x9000)]);
        // With a breakpoint in it.
        let traced = MAPPINGS.replacen("0 kB\n9000", "4 kB\n9000", 1);
        check(&traced, 0x4000, &[(0x1000, 0x3000)]);
        // In none of them, in what belongs to no file, and what is no list of mappings.
        check(MAPPINGS, 0x20000, &[]);
        check(MAPPINGS, 0xb800, &[]);
        check("", 0x4000, &[]);
        check("Anonymous: 0 kB\n1-2-3 4\n", 1, &[]);
    }
}
