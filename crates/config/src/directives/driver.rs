//! `driver "auto"`: how the bytes of connections are moved.

use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place};
use crate::written_line::{Writer, name_of};
use tidegate_model::DriverChoice;

pub static DRIVER: Directive = Directive {
    name: "driver",
    places: &[Place::Top],
    arguments: &[Argument::one(
        "driver",
        Kind::Choice(&["auto", "epoll", "io-uring"]),
        "`epoll` asks the kernel which sockets are ready and reads and writes each by a call; `io-uring` hands it the reads and writes of many at once.",
    )],
    summary: "How the bytes of connections are moved.",
    details: "`io-uring` needs Linux 6.1 and a process that may use it: the seccomp profiles of container engines forbid it unless they allow io_uring_setup, io_uring_enter \
              and io_uring_register. Where it is asked for and cannot be had, the process does not start and says why; `tidegate status` says which driver runs. `auto` is `epoll` in this version. \
              A change takes effect at a reload: new threads accept, and those of before end with their last connection.",
    default: "`auto`",
    example: "driver \"io-uring\"",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let Some(wanted) = line.read_argument(lowering, 0).map(Read::choice) else { return };
    if let Some((_, choice)) = DriverChoice::NAMES.iter().find(|(name, _)| *name == wanted) {
        lowering.configuration.driver = *choice;
        lowering.spans.driver = line.argument(0).map(|value| value.location.clone());
    }
}

pub fn write(line: &mut Writer, driver: DriverChoice) {
    line.name("driver").argument(name_of(DriverChoice::NAMES, &driver));
}
