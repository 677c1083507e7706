//! `log` of a site and a route, compiled: whether a request has a line in the access log, and the fields of its own.
//! Lines are written in `telemetry`.

use crate::context::View;
use crate::template::{CompiledTemplate, Target};
use tidegate_model::{RouteLog, Sample};

#[derive(Debug)]
pub struct CompiledLog {
    is_on: bool,
    sample: Sample,
    fields: Box<[(Box<str>, CompiledTemplate)]>,
}

impl CompiledLog {
    /// `None`: every request has a line, and nothing of its own there.
    pub fn new(log: &RouteLog) -> Option<CompiledLog> {
        let (is_on, sample) = (log.is_on.unwrap_or(true), log.sample.unwrap_or(Sample::ALL));
        if is_on && sample == Sample::ALL && log.fields.is_empty() {
            return None;
        }
        // As it is: what must not stand in a line is escaped where it is written.
        let fields =
            log.fields.iter().map(|field| (field.name.as_str().into(), CompiledTemplate::new(&field.value, Target::Text)));
        Some(CompiledLog { is_on, sample, fields: fields.collect() })
    }

    /// Whether a request has a line, of which `bits`, uniform ones, decide. `is_refused`: the proxy had a reason to
    /// answer itself, or to cut.
    pub fn has_line(&self, status: u16, is_refused: bool, bits: u64) -> bool {
        self.is_on && (is_refused || status >= 500 || self.sample.takes(bits))
    }

    pub fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Names and values, in order. `rendered` is scratch space.
    pub fn each_field(&self, view: View<'_>, rendered: &mut Vec<u8>, see: &mut dyn FnMut(&str, &[u8])) {
        for (name, value) in &self.fields {
            rendered.clear();
            value.render(view, rendered);
            see(name, rendered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CompiledLog;
    use crate::context::View;
    use crate::fixtures::{context, request, template};
    use tidegate_model::{RouteLog, RouteLogField, Sample};

    fn log(is_on: Option<bool>, sample: Option<Sample>) -> RouteLog {
        RouteLog { is_on, sample, fields: Vec::new() }
    }

    #[test]
    fn what_failed_has_a_line_whatever_the_sample() {
        let none = Sample::from_millionths(0);
        let check = |log: RouteLog, status: u16, is_refused: bool, expected: bool| {
            let seen = CompiledLog::new(&log).is_none_or(|log| log.has_line(status, is_refused, u64::MAX));
            assert_eq!(seen, expected, "{log:?} {status} {is_refused}");
        };
        check(log(None, None), 200, false, true);
        check(log(None, Some(Sample::ALL)), 200, false, true);
        check(log(Some(true), Some(none)), 200, false, false);
        check(log(None, Some(none)), 404, false, false);
        check(log(None, Some(none)), 404, true, true);
        check(log(None, Some(none)), 500, false, true);
        check(log(Some(false), None), 500, true, false);
    }

    #[test]
    fn fields_are_rendered_in_order() {
        let field = |name: &str, value: &str| RouteLogField { name: name.into(), value: template(value) };
        let log =
            RouteLog { fields: vec![field("tenant", "{request.header.X-Tenant}"), field("b", "{path}!")], ..log(None, None) };
        let log = CompiledLog::new(&log).expect("fields");
        let (head, context) = (request("/x", "a", &["X-Tenant: \"t\n"]), context());
        let mut seen = Vec::new();
        let view = View { context: &context, request: &head, response: None };
        log.each_field(view, &mut Vec::new(), &mut |name, value| {
            seen.push(format!("{name}={}", String::from_utf8_lossy(value)));
        });
        assert_eq!(seen, ["tenant=\"t\n", "b=/x!"]);
        assert!(log.has_fields());
    }
}
