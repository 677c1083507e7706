//! Field lines up to the empty line (RFC 9112 section 5), for heads and for trailer sections.
//! What single fields mean is elsewhere; here is only which bytes may be where.

use super::Stop;
use crate::error::HeadError;
use crate::head::{Fields, HeaderId, Span};
use crate::scan::{colon, is_token, token_end, value_end};

/// Indexes the field lines from `at` on and says where the empty line ends. The spans count from the start of `window`.
#[inline]
pub(crate) fn parse_fields(window: &[u8], mut at: usize, fields_max: usize, fields: &mut Fields) -> Result<usize, Stop> {
    loop {
        let name_end = colon(window, at);
        let Some((name, [b':', ..])) = window.get(at..).unwrap_or_default().split_at_checked(name_end - at) else {
            return no_name(window, at);
        };
        // A well-known name is a token: there is no control byte in it that could look like one of its letters.
        let id = HeaderId::of(name);
        if id == HeaderId::Other && (name.is_empty() || !name.iter().all(|byte| is_token(*byte))) {
            return no_name(window, at);
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
        let is_line = value_start == name_end + 2 && window[name_end + 1] == b' ' && value_end == stop;
        fields.index(Span::new(at, name_end), Span::new(value_start, value_end), id, is_line);
        at = stop + 2;
    }
}

/// A line that does not start with a name and a colon: the empty line, or something that is refused.
fn no_name(window: &[u8], line_start: usize) -> Result<usize, Stop> {
    let stop = token_end(window, line_start);
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

#[cfg(test)]
mod tests {
    use crate::head::HeaderId;
    use crate::scan::{colon, is_token};

    /// Well-known names are not looked at byte by byte: whatever else a client writes in place of one of their bytes, it
    /// is another name or ends before the colon.
    #[test]
    fn what_is_taken_for_a_well_known_name_is_a_token() {
        for (name, id) in HeaderId::NAMES {
            for place in 0..name.len() {
                for byte in 0..=255_u8 {
                    let mut changed = name.as_bytes().to_vec();
                    changed[place] = byte;
                    let before_colon = &changed[..colon(&changed, 0)];
                    if HeaderId::of(before_colon) == *id {
                        assert!(before_colon.iter().all(|byte| is_token(*byte)), "{name} with {byte} at {place}");
                    }
                }
            }
        }
    }
}
