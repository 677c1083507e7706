//! `failures=`: how many log-ins may fail, of `basic-auth` and `api-key`.

use super::rate_limit::read_rate;
use crate::language::Line;
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::Kind;
use crate::written_line::Writer;
use tidegate_model::Rate;

pub const NAME: &str = "failures";
pub const KIND: Kind = Kind::ChoiceOr(&["off"], "a rate, as in `\"10/10m\"`");

/// `None`: none is counted.
pub fn read(lowering: &mut Lowering<'_>, line: &Line<'_>, default: Rate) -> Option<Rate> {
    match line.read(lowering, NAME) {
        None => Some(default),
        Some(Read::Text(text)) => read_rate(lowering, &text),
        Some(_) => None,
    }
}

pub fn write(line: &mut Writer, failures: Option<Rate>, default: Rate) {
    let show = |failures: &Option<Rate>| failures.map_or_else(|| "off".to_owned(), |rate| rate.to_string());
    line.unless(&Some(default), NAME, &failures, show);
}
