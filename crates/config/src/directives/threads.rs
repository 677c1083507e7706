//! `threads "auto"`: how many cores serve requests.

use crate::lowering::{Line, Lowering, Read};
use crate::table::{Argument, Block, Count, Directive, Kind, Lower, Place, Repeat};
use tidegate_model::Threads;

pub static THREADS: Directive = Directive {
    name: "threads",
    places: &[Place::Top],
    repeat: Repeat::Once,
    arguments: &[Argument {
        name: "count",
        kind: Kind::AutoOrInteger { min: 1, max: 1024 },
        count: Count::One,
        summary: "`auto`, or how many.",
    }],
    properties: &[],
    block: Block::None,
    summary: "How many threads serve requests; each has a processor core to itself.",
    details: "`auto` takes the CPU quota of the container, or the cores that the process may use.",
    default: "`auto`",
    example: "threads 4",
    lower: Lower::Top(lower),
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    match line.read_argument(lowering, 0) {
        Some(Read::Number(count, _)) => lowering.configuration.threads = Threads::Count(count as u16),
        Some(Read::Choice(..)) => lowering.configuration.threads = Threads::Auto,
        _ => {}
    }
}
