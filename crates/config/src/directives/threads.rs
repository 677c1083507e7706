//! `threads "auto"`: how many cores serve requests.

use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place};
use crate::written_line::Writer;
use tidegate_model::Threads;

pub static THREADS: Directive = Directive {
    name: "threads",
    places: &[Place::Top],
    arguments: &[Argument::one("count", Kind::AutoOrInteger { min: 1, max: 1024 }, "`auto`, or how many.")],
    summary: "How many threads serve requests; each has a processor core to itself.",
    details: "`auto` takes the CPU quota of the container, or the cores that the process may use.",
    default: "`auto`",
    example: "threads 4",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    match line.read_argument(lowering, 0) {
        Some(Read::Number(count, _)) => lowering.configuration.threads = Threads::Count(count as u16),
        Some(Read::Choice(..)) => lowering.configuration.threads = Threads::Auto,
        _ => {}
    }
}

pub fn write(line: &mut Writer, threads: Threads) {
    match threads {
        Threads::Auto => line.name("threads").argument("auto"),
        Threads::Count(count) => line.name("threads").name(count),
    };
}
