//! Field lines up to the empty line (RFC 9112 section 5), for heads and for trailer sections.
//! What single fields mean is elsewhere; here is only which bytes may be where.

use super::Stop;
use crate::error::HeadError;
use crate::head::{Fields, HeaderId, Span};
use crate::scan::{token_end, value_end};

/// Indexes the field lines from `at` on and says where the empty line ends. The spans count from the start of `window`.
#[inline]
pub(crate) fn parse_fields(window: &[u8], mut at: usize, fields_max: usize, fields: &mut Fields) -> Result<usize, Stop> {
    loop {
        let name_end = token_end(window, at);
        match window.get(name_end) {
            Some(b':') if name_end > at => {}
            _ => return no_name(window, at, name_end),
        }
        if fields.list.len() == fields_max {
            return Err(HeadError::TooManyFields.into());
        }
        let mut value_start = name_end + 1;
        while let Some(b' ' | b'\t') = window.get(value_start) {
            value_start += 1;
        }
        let stop = value_end(window, value_start);
        match window.get(stop..).unwrap_or_default() {
            [b'\r', b'\n', ..] => {}
            [] | [b'\r'] => return Err(Stop::NeedMore),
            [b'\n', ..] => return Err(HeadError::BareLf.into()),
            _ => return Err(HeadError::BadFieldValue.into()),
        }
        let mut value_end = stop;
        while value_end > value_start && matches!(window[value_end - 1], b' ' | b'\t') {
            value_end -= 1;
        }
        let id = HeaderId::of(&window[at..name_end]);
        let is_line = value_start == name_end + 2 && window[name_end + 1] == b' ' && value_end == stop;
        fields.index(Span::new(at, name_end), Span::new(value_start, value_end), id, is_line);
        at = stop + 2;
    }
}

/// A line that does not start with a name and a colon: the empty line, or something that is refused.
fn no_name(window: &[u8], line_start: usize, stop: usize) -> Result<usize, Stop> {
    let at_line_start = stop == line_start;
    match window.get(stop..).unwrap_or_default() {
        [] => Err(Stop::NeedMore),
        [b'\r', b'\n', ..] if at_line_start => Ok(stop + 2),
        [b'\r'] if at_line_start => Err(Stop::NeedMore),
        [b'\n', ..] => Err(HeadError::BareLf.into()),
        [b' ' | b'\t', ..] if at_line_start => Err(HeadError::ObsFold.into()),
        [b' ' | b'\t', ..] => Err(HeadError::SpaceBeforeColon.into()),
        _ => Err(HeadError::BadFieldName.into()),
    }
}
