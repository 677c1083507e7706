//! What a start takes that the process does not need for its work, in counts that are exact: pages of the program that
//! stay, and what the cryptography does to seed itself.

use memchr::memmem;
use std::time::{Duration, Instant};
use tidegate_testkit::Proxy;

const CONFIG: &str =
    "admin \"127.0.0.1:{admin}\"\naccess-log \"off\"\nthreads 1\nsite \"http://:{port}\" { respond 200 body=\"a\" }\n";
/// Of the code, when the process has come to rest after its start: 0.27 without optimisation. Let go once, when workers
/// began, 0.54: what the rest of the start touches brings in 64 KiB around each page. Without letting go 0.73.
const CODE_SHARE_MAX: f64 = 0.4;

/// Seeding from the jitter of the processor's clock takes 30 ms of a core, at every start.
#[test]
fn the_program_seeds_itself_from_the_kernel() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_tidegate")).expect("it is there");
    assert!(memmem::find(&program, b"aws_lc_").is_some(), "the program has its symbols");
    assert!(memmem::find(&program, b"jent_entropy").is_none(), "the program has a collector of jitter (.cargo/config.toml)");
}

#[test]
fn what_only_the_start_needed_does_not_stay_resident() {
    let _only = crate::only_count();
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_tidegate"), CONFIG).expect("the proxy starts");
    // Listening is a moment before.
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let (code, resident) = code_kib(proxy.program.id());
        println!("{resident} of {code} KiB of the program's code are resident");
        assert!(code > 1000, "the program's own mapping was not found");
        if (resident as f64) < CODE_SHARE_MAX * code as f64 {
            return;
        }
        assert!(Instant::now() < until, "{resident} of {code} KiB of the program's code stay resident");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The size of the program's own code in memory, and how much of it is resident.
fn code_kib(id: u32) -> (u64, u64) {
    let mappings = std::fs::read_to_string(format!("/proc/{id}/smaps")).expect("it runs");
    let code = mappings.lines().skip_while(|line| !(line.contains(" r-xp ") && line.ends_with("/tidegate")));
    let value = |name: &str| {
        let line = code.clone().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
    };
    (value("Size:"), value("Rss:"))
}
