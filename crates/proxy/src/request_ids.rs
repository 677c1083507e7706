//! The identifier of a request on its way through: kept where a trusted proxy has given one, told to the server, and
//! the trace that it is part of (W3C Trace Context). How identifiers are made is in `worker`.

use tidegate_exchange::{Exchange, Pooled, Record};
use tidegate_middleware::RequestId;
use tidegate_model::{
    HeaderChange, HeaderOperation, HeaderStep, Placeholder, RequestIds, Sample, Step, Switched, Template, TemplatePart,
};
use tidegate_transport::Sock;
use tidegate_wire::head::{Fields, HeaderId};

/// What a route does about identifiers.
#[derive(Debug)]
pub enum RouteIds {
    /// Without a line about it: `X-Request-Id` for the server.
    Usual,
    Off,
    Own(Box<OwnIds>),
}

#[derive(Debug)]
pub struct OwnIds {
    /// In lower case, as fields are written.
    header: Box<[u8]>,
    trace: Option<Sample>,
}

impl RouteIds {
    pub fn new(ids: &Switched<RequestIds>) -> RouteIds {
        match ids {
            Switched::Inherited => RouteIds::Usual,
            Switched::Off => RouteIds::Off,
            Switched::On(ids) => {
                let header = ids.header.to_ascii_lowercase().into_bytes().into();
                RouteIds::Own(Box::new(OwnIds { header, trace: ids.trace }))
            }
        }
    }

    /// What puts the identifier on answers, for a route that does: as if it were written there as a step, so it is on
    /// every answer on which fields of steps are.
    pub fn answer_step(ids: &Switched<RequestIds>) -> Option<Step> {
        let ids = ids.on().filter(|ids| ids.client)?;
        let value = Template { parts: vec![TemplatePart::Placeholder(Placeholder::RequestId)] };
        let change = HeaderChange { operation: HeaderOperation::Set, name: ids.header.clone(), value };
        Some(Step::ResponseHeader(HeaderStep::from(vec![change])))
    }

    /// Whether [`take`] has something to do.
    #[inline]
    pub fn wants_to_take(&self, fields: &Fields) -> bool {
        match self {
            RouteIds::Usual => fields.has(HeaderId::XRequestId),
            RouteIds::Off => false,
            RouteIds::Own(_) => true,
        }
    }
}

/// Before any step: the identifier that a trusted proxy has given is the request's from here on. What others say is
/// removed, so that what a step sets under that name is the site's own.
#[cold]
pub fn take<S: Sock>(ids: &RouteIds, exchange: &mut Exchange<'_, S>) {
    let name: &[u8] = match ids {
        RouteIds::Usual => b"x-request-id",
        RouteIds::Off => return,
        RouteIds::Own(own) => &own.header,
    };
    let fields = &mut exchange.head.fields;
    let given = if exchange.peer_is_trusted { only_valid(fields, name) } else { None };
    match given {
        Some(given) => match RequestId::parse(&given) {
            Some(number) => exchange.record.set_request_id(number),
            None => {
                exchange.record.set_request_id(RequestId::of_text(&given));
                exchange.record.given_id = Some(given);
            }
        },
        None => drop(fields.remove(name)),
    }
}

/// The value of the field, if it stands there once and can stand in any log and any page.
fn only_valid(fields: &Fields, name: &[u8]) -> Option<Box<str>> {
    let mut values = fields.all_named(name);
    let value = values.next()?;
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@~".contains(byte);
    let is_valid = !value.is_empty() && value.len() <= RequestIds::BYTES_MAX && value.iter().all(is_part);
    if !is_valid || values.next().is_some() {
        return None;
    }
    std::str::from_utf8(value).ok().map(Box::from)
}

/// Behind all steps: tells the server the identifier, and its trace where the route begins traces. `random`: uniform
/// bits.
#[inline]
pub fn tell(ids: &RouteIds, fields: &mut Fields, record: &Record, random: impl Fn() -> u64) {
    match ids {
        RouteIds::Usual => {
            if !fields.has(HeaderId::XRequestId) {
                record.request_id().see(record.given_id.as_deref(), |id| fields.push_id(HeaderId::XRequestId, id.as_bytes()));
            }
        }
        RouteIds::Off => {}
        RouteIds::Own(own) => tell_own(own, fields, record, &random),
    }
}

#[cold]
fn tell_own(own: &OwnIds, fields: &mut Fields, record: &Record, random: &dyn Fn() -> u64) {
    if fields.all_named(&own.header).next().is_none() {
        record.request_id().see(record.given_id.as_deref(), |id| fields.push(&own.header, id.as_bytes()));
    }
    let Some(sample) = own.trace else { return };
    if trace_of(fields).is_some() {
        return;
    }
    // What does not belong to a valid trace would be taken for a part of the new one.
    fields.remove_id(HeaderId::TraceParent);
    fields.remove(b"tracestate");
    let is_recorded = sample.takes(random());
    let mut text: Pooled<Vec<u8>> = Pooled::take();
    text.extend_from_slice(b"00-");
    text.extend_from_slice(&record.request_id().to_hex());
    text.push(b'-');
    // A parent of zeroes would make it invalid.
    text.extend_from_slice(&RequestId((u128::from(random()) << 64) | (1 << 64)).to_hex()[..16]);
    text.extend_from_slice(if is_recorded { b"-01" } else { b"-00" });
    fields.push_id(HeaderId::TraceParent, &text);
}

/// The trace that a request is part of, as 32 digits, if what it says of that is valid (W3C Trace Context, section
/// 3.2.2.3): later versions may have more behind what this one has.
#[inline]
pub fn trace_of(fields: &Fields) -> Option<&[u8]> {
    if fields.has(HeaderId::TraceParent) { valid_trace(fields) } else { None }
}

fn valid_trace(fields: &Fields) -> Option<&[u8]> {
    let mut values = fields.all(HeaderId::TraceParent);
    let (value, None) = (values.next()?, values.next()) else { return None };
    let [version, trace, parent, flags] = [value.get(..2)?, value.get(3..35)?, value.get(36..52)?, value.get(53..55)?];
    let is_hex = |part: &[u8]| part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_something = |part: &[u8]| part.iter().any(|byte| *byte != b'0');
    let has_dashes = [2, 35, 52].iter().all(|position| value[*position] == b'-');
    let ends = value.len() == 55 || version != b"00" && value.get(55) == Some(&b'-');
    let is_valid = has_dashes
        && ends
        && version != b"ff"
        && [version, trace, parent, flags].into_iter().all(is_hex)
        && is_something(trace)
        && is_something(parent);
    is_valid.then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::{OwnIds, RouteIds, only_valid, tell, trace_of};
    use std::time::Instant;
    use tidegate_exchange::Record;
    use tidegate_middleware::RequestId;
    use tidegate_model::Sample;
    use tidegate_wire::head::{Fields, Span};

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in pairs {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    fn value<'f>(fields: &'f Fields, name: &'static str) -> Vec<&'f str> {
        fields.all_named(name.as_bytes()).map(|value| std::str::from_utf8(value).expect("text")).collect()
    }

    #[test]
    fn a_trace_is_taken_from_a_valid_parent_only() {
        let check = |values: &[&str], is_valid: bool| {
            let pairs: Vec<_> = values.iter().map(|value| ("traceparent", *value)).collect();
            assert_eq!(trace_of(&fields(&pairs)).is_some(), is_valid, "{values:?}");
        };
        let valid = format!("00-{TRACE}-b7ad6b7169203331-01");
        check(&[], false);
        check(&[&valid], true);
        check(&[&valid, &valid], false);
        check(&[&format!("cc-{TRACE}-b7ad6b7169203331-01")], true);
        check(&[&format!("cc-{TRACE}-b7ad6b7169203331-01-what")], true);
        check(&[&format!("cc-{TRACE}-b7ad6b7169203331-01what")], false);
        check(&[&format!("{valid}-what")], false);
        check(&[&format!("ff-{TRACE}-b7ad6b7169203331-01")], false);
        check(&[&format!("00-{TRACE}-0000000000000000-01")], false);
        check(&[&format!("00-{}-b7ad6b7169203331-01", "0".repeat(32))], false);
        check(&[&valid.to_uppercase()], false);
        check(&[&valid[..54]], false);
        check(&[&valid.replace('-', "_")], false);
        check(&[""], false);
    }

    #[test]
    fn what_can_stand_anywhere_is_an_identifier() {
        let check = |values: &[&str], expected: bool| {
            let pairs: Vec<_> = values.iter().map(|value| ("x-request-id", *value)).collect();
            assert_eq!(only_valid(&fields(&pairs), b"x-request-id").is_some(), expected, "{values:?}");
        };
        check(&["0af7651916cd43dd8448eb211c80319c"], true);
        check(&["1-5759e988-bd862e3fe1be46a994272793"], true);
        check(&["a"], true);
        check(&[&"a".repeat(128)], true);
        check(&[&"a".repeat(129)], false);
        check(&[""], false);
        check(&["a b"], false);
        check(&["a\"b"], false);
        check(&["<script>"], false);
        check(&["a\u{e9}"], false);
        check(&["a", "b"], false);
    }

    #[test]
    fn the_server_is_told_once() {
        let record = Record::new(Instant::now(), RequestId(0xabc), Span::default(), None);
        let ours = "00000000000000000000000000000abc";
        let mut usual = fields(&[]);
        tell(&RouteIds::Usual, &mut usual, &record, || 0);
        assert_eq!(value(&usual, "x-request-id"), [ours]);
        let mut set_by_a_step = fields(&[("x-request-id", "step")]);
        tell(&RouteIds::Usual, &mut set_by_a_step, &record, || 0);
        assert_eq!(value(&set_by_a_step, "x-request-id"), ["step"]);
        let mut off = fields(&[]);
        tell(&RouteIds::Off, &mut off, &record, || 0);
        assert_eq!(off.iter().count(), 0);
    }

    #[test]
    fn a_trace_begins_where_none_is() {
        let record = Record::new(Instant::now(), RequestId(0xabc), Span::default(), None);
        let of = |trace| RouteIds::Own(Box::new(OwnIds { header: b"x-id".as_slice().into(), trace }));
        let told = |ids: &RouteIds, pairs: &[(&str, &str)], random: u64| {
            let mut fields = fields(pairs);
            tell(ids, &mut fields, &record, || random);
            fields
        };
        let made = told(&of(Some(Sample::ALL)), &[("traceparent", "nonsense"), ("tracestate", "a=1")], 0);
        assert_eq!(value(&made, "traceparent"), ["00-00000000000000000000000000000abc-0000000000000001-01"]);
        assert_eq!(value(&made, "tracestate"), [""; 0]);
        assert_eq!(value(&made, "x-id"), ["00000000000000000000000000000abc"]);
        let unsampled = told(&of(Some(Sample::from_millionths(1))), &[], u64::MAX);
        assert_eq!(value(&unsampled, "traceparent"), ["00-00000000000000000000000000000abc-ffffffffffffffff-00"]);
        let valid = format!("00-{TRACE}-b7ad6b7169203331-01");
        let passed = told(&of(Some(Sample::ALL)), &[("traceparent", &valid), ("tracestate", "a=1")], 0);
        assert_eq!((value(&passed, "traceparent"), value(&passed, "tracestate")), (vec![&*valid], vec!["a=1"]));
        assert_eq!(value(&told(&of(None), &[("traceparent", "nonsense")], 0), "traceparent"), ["nonsense"]);
    }
}
