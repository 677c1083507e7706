//! `unsafe` stands only in files that the allow list names with a reason. The lint `unsafe_code` refuses it first, but
//! a file can switch that lint off for itself; it cannot switch this off.

use super::allow::{AllowList, UNSAFE};
use super::source::Source;
use crate::finding::Finding;

pub fn check(source: &Source, allow: &AllowList) -> Vec<Finding> {
    if source.unsafe_lines.is_empty() || allow.permits(UNSAFE, source.path) {
        return Vec::new();
    }
    let finding = |line: &usize| Finding::at(source.path, *line, UNSAFE, "this file is not on the list of those that may");
    source.unsafe_lines.iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::{AllowList, Source, check};

    fn check_file(text: &str, allowed: &str, expected_lines: &[usize]) {
        let source = Source::parse("a.rs", text).expect("valid Rust");
        let (allow, _) = AllowList::parse("allow.txt", allowed);
        let seen: Vec<usize> = check(&source, &allow).iter().filter_map(|finding| finding.line).collect();
        assert_eq!(seen, expected_lines, "for {text:?}");
    }

    #[test]
    fn each_use_outside_the_list_is_found() {
        check_file("fn f() {}\n", "", &[]);
        check_file("fn f() {\n    unsafe { g() }\n}\nunsafe fn g() {}\n", "", &[2, 4]);
        check_file("unsafe impl Send for A {}\n", "unsafe a.rs it is a counting allocator", &[]);
        check_file("unsafe impl Send for A {}\n", "unsafe b.rs it is a counting allocator", &[1]);
    }
}
