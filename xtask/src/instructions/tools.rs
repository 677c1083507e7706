//! Which tools made and count the instructions. Figures of other compilers, C libraries or emulators are other figures.

use crate::process::Invocation;
use std::path::Path;

/// Valgrind shows the program a processor with these where the machine has them, and none with AVX-512, whatever it
/// has. So machines that have all of them count alike: the libraries choose their code by what the processor says it
/// can.
const PROCESSOR: [&str; 5] = ["aes", "avx2", "bmi2", "fma", "pclmulqdq"];

/// One line, the same wherever the figures can be compared.
pub fn describe(root: &Path) -> Result<String, String> {
    check_processor()?;
    let last_word = |program: &str, arguments: &[&str], word: fn(&str) -> Option<&str>| {
        let invocation = Invocation::new(program, arguments);
        let output = invocation.capture(root)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let found = text.lines().next().and_then(word).filter(|_| output.status.success());
        found.map(str::to_owned).ok_or(format!("`{}` says no version: {text}", invocation.line()))
    };
    let rustc = last_word("rustc", &["--version"], |line| line.split(' ').nth(1))?;
    let cc = last_word("cc", &["--version"], |line| line.split(' ').next_back())?;
    let libc = last_word("getconf", &["GNU_LIBC_VERSION"], |line| line.split(' ').next_back())?;
    let valgrind = last_word("valgrind", &["--version"], |line| line.strip_prefix("valgrind-"))?;
    Ok(format!("{}, rustc {rustc}, cc {cc}, glibc {libc}, valgrind {valgrind}", std::env::consts::ARCH))
}

fn check_processor() -> Result<(), String> {
    let text =
        std::fs::read_to_string("/proc/cpuinfo").map_err(|error| format!("instructions are counted on Linux only: {error}"))?;
    let missing = missing_features(&text);
    if missing.is_empty() { Ok(()) } else { Err(format!("instructions: this processor has no {}", missing.join(", no "))) }
}

fn missing_features(cpuinfo: &str) -> Vec<&'static str> {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    PROCESSOR.into_iter().filter(|feature| line.split_whitespace().all(|word| word != *feature)).collect()
}

#[cfg(test)]
mod tests {
    use super::missing_features;

    #[test]
    fn what_a_processor_lacks() {
        let check = |cpuinfo: &str, expected: &[&str]| assert_eq!(missing_features(cpuinfo), expected, "for {cpuinfo}");
        check("processor\t: 0\nflags\t\t: fpu fma aes avx avx2 bmi2 pclmulqdq avx512f\n\nprocessor\t: 1\n", &[]);
        check("flags\t\t: fma aes avx bmi2 pclmulqdq\n", &["avx2"]);
        check("Features\t: fp asimd aes\n", &["aes", "avx2", "bmi2", "fma", "pclmulqdq"]);
    }
}
