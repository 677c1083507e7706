//! `memory "auto"`: what the process may use of the machine's memory.

use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::{Read, read_choice_or};
use crate::table::{Argument, Kind, Place};
use crate::written_line::{Writer, size};
use tidegate_model::Memory;

pub static MEMORY: Directive = Directive {
    name: "memory",
    places: &[Place::Top],
    arguments: &[Argument::one(
        "budget",
        Kind::ChoiceOr(NAMES, "a size from 64MiB on, as in `\"512MiB\"`"),
        "`auto`, a size of at least `64MiB`, or `off`.",
    )],
    summary: "How much memory the process may use.",
    details: "Near the budget new requests are refused with 503 and those on their way are finished, so that the machine does not end the whole \
              process. `auto` takes what the container may use, or what the machine has. `off` refuses no request for want of memory.\n\n\
              What counts is what the process holds itself and, where its control group has a bound, what the whole group uses without its pages of files: sockets of the kernel and other \
              processes of the container count as well. What happens at which share of it is in [operations.md](operations.md#resources).",
    default: "`auto`",
    example: "memory \"512MiB\"",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

const NAMES: &[&str] = &["auto", "off"];
/// Below this, the buffers of a few hundred connections are all there is room for.
const BYTES_MIN: u64 = 64 << 20;
const BYTES_MAX: u64 = 1 << 50;

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let Some(value) = line.argument(0) else { return };
    let size = Kind::Size { min: BYTES_MIN, max: BYTES_MAX };
    match read_choice_or(lowering, value, NAMES, size, "`memory`") {
        Some(Read::Choice("off", _)) => lowering.configuration.memory = Memory::Off,
        Some(Read::Number(bytes, _)) => lowering.configuration.memory = Memory::Bytes(bytes),
        _ => {}
    }
}

pub fn write(line: &mut Writer, memory: Memory) {
    match memory {
        Memory::Auto => line.name("memory").argument("auto"),
        Memory::Bytes(bytes) => line.name("memory").argument(size(&bytes)),
        Memory::Off => line.name("memory").argument("off"),
    };
}
