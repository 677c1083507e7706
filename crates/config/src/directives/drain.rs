//! `drain "30s" delay="5s"`: how long a stop waits for requests in flight, and for those who still send some.

use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::{Writer, duration};
use std::time::Duration;

pub static DRAIN: Directive = Directive {
    name: "drain",
    places: &[Place::Top],
    arguments: &[Argument::one(
        "time",
        Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(86_400) },
        "How long; `0s` stops at once.",
    )],
    properties: &[Property::once(
        "delay",
        Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(3600) },
        "How long connections are taken as before after a stop was asked for; `5s` in Kubernetes, Nomad and Amazon ECS and `0s` elsewhere when it is left out.",
    )],
    summary: "How long requests in flight may go on after a stop was asked for.",
    details: "With a `delay`, `/readyz` says 503 from SIGTERM on while everything else goes on as before; when the delay is over, listeners close and the time begins. \
              That is for whoever is told late: a load balancer that asks `/readyz`, or the nodes of a cluster, which go on sending new connections to a process that was told to end a moment before. \
              Both times together belong below the one after which whoever stops the process kills it (`terminationGracePeriodSeconds`, `TimeoutStopSec=`). \
              An upgrade waits for no delay, since the successor takes connections by then. A second signal ends the process at once.",
    default: "`30s`",
    example: "drain \"30s\" delay=\"5s\"",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    if let Some(time) = line.read_argument(lowering, 0).map(Read::duration) {
        lowering.configuration.drain = time;
    }
    lowering.configuration.drain_delay = line.duration(lowering, "delay");
}

pub fn write(line: &mut Writer, drain: Duration, delay: Option<Duration>) {
    line.name("drain").argument(duration(&drain)).optional("delay", delay.map(|delay| duration(&delay)));
}
