//! The program: what there is one of in a process. What its command line can say is in `commands`.

use std::process::ExitCode;

/// Memory that is free is given back to the system: what the process uses is what its budget is compared with.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tidegate_commands::run()
}
