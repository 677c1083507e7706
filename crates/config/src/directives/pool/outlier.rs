//! `outlier` and `slow-start`: a server that fails requests gets none for a while, and one that comes into use gets
//! them little by little.

use super::PoolDraft;
use crate::diagnostics::Diagnostic;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::{Writer, duration};
use std::time::Duration;
use tidegate_model::Outlier;

const EJECT: Kind = Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(86_400) };

pub static OUTLIER: Directive = Directive {
    name: "outlier",
    places: &[Place::Pool],
    arguments: &[super::OFF],
    properties: &[
        Property::once(
            "failures",
            Kind::Integer { min: 1, max: 1000 },
            "Failures in a row after which a server is out; `5` when left out.",
        ),
        Property::once("eject", EJECT, "How long it is out the first time, doubled each time in a row; `10s` when left out."),
        Property::once("eject-max", EJECT, "How long it is out at most; `5m` when left out, and never less than `eject=`."),
        Property::once(
            "max-ejected",
            Kind::Percent { min: 1, max: 100 },
            "Share of the servers that may be out at once, one always; `50%` when left out.",
        ),
        Property::once(
            "success-rate",
            Kind::Switch,
            "Whether a server is out as well when its share of good answers within ten seconds is far below that of the others; `#true` when \
             left out.",
        ),
    ],
    summary: "When a server that fails requests gets none for a while.",
    details: "A failure is a connection that is refused or breaks, a timeout, or an answer of 500, 502, 503 or 504. Servers beyond \
              `max-ejected=` go on in spite of their failures, so a fault that all of them have does not take the pool away. `outlier \"off\"` holds nothing \
              against a server.",
    default: "`failures=5 eject=\"10s\" eject-max=\"5m\" max-ejected=\"50%\" success-rate=#true`",
    example: "outlier failures=3 eject=\"5s\" max-ejected=\"30%\"",
    lower: Lower::Pool(lower_outlier),
    ..Directive::PLAIN
};

pub static SLOW_START: Directive = Directive {
    name: "slow-start",
    places: &[Place::Pool],
    arguments: &[Argument::one(
        "time",
        Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(3600) },
        "From its first request to its full share; `0s` is at once.",
    )],
    summary: "How long a server that comes into use takes to its full share of the traffic.",
    details: "It concerns servers that are added, or come back after they were out or down; those that are there at the start have their \
              full share at once.",
    default: "`0s`",
    example: "slow-start \"30s\"",
    lower: Lower::Pool(lower_slow_start),
    ..Directive::PLAIN
};

fn lower_outlier(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    if super::is_off(lowering, line) {
        draft.pool.outlier = None;
        return;
    }
    super::expect_settings(lowering, line);
    let defaults = Outlier::default();
    let eject = line.duration(lowering, "eject").unwrap_or(defaults.eject);
    let eject_max = line.duration(lowering, "eject-max");
    if let (Some(most), Some(at)) = (eject_max, line.property("eject-max"))
        && most < eject
    {
        let message = format!("`eject-max=` is shorter than the first time out, {}", crate::units::show_duration(eject));
        let diagnostic = Diagnostic::error("conflicting-times", at.location.clone(), message);
        lowering.report(diagnostic.help("raise `eject-max=` or lower `eject=`"));
    }
    draft.pool.outlier = Some(Outlier {
        failures: line.number(lowering, "failures").map_or(defaults.failures, |failures| failures as u32),
        eject,
        eject_max: eject_max.unwrap_or(defaults.eject_max.max(eject)),
        ejected_percent_max: line.number(lowering, "max-ejected").map_or(defaults.ejected_percent_max, |percent| percent as u8),
        success_rate: line.switch(lowering, "success-rate").unwrap_or(defaults.success_rate),
    });
}

fn lower_slow_start(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    if let Some(time) = line.read_argument(lowering, 0).map(Read::duration) {
        draft.pool.slow_start = time;
    }
}

pub fn write(line: &mut Writer, outlier: Option<&Outlier>) {
    let Some(Outlier { failures, eject, eject_max, ejected_percent_max, success_rate }) = outlier else {
        return line.off("outlier");
    };
    line.name("outlier").number("failures", failures).property("eject", duration(eject));
    line.property("eject-max", duration(eject_max)).property("max-ejected", format_args!("{ejected_percent_max}%"));
    line.switch("success-rate", *success_rate);
}

/// Nothing where there is none.
pub fn write_slow_start(line: &mut Writer, time: Duration) {
    if !time.is_zero() {
        line.name("slow-start").argument(duration(&time));
    }
}
