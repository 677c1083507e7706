//! Which trailers go on. Servers that make variables of fields take those of trailers for fields of the head (RFC 9110
//! section 6.5.1 warns of it), so a trailer must not say what only the site may say. What may never stand behind a body
//! is dropped where it is read, in `wire`; who claims to be whose proxy, in `exchange`.

use crate::identity::IdentityFields;
use tidegate_model::{HeaderStep, PassOn, Step};
use tidegate_wire::Fields;
use tidegate_wire::name_table::is_alike;

/// Which trailers of a route's messages go on.
#[derive(Debug, Default)]
pub struct TrailerRules {
    /// Also those of requests that are no gRPC.
    takes_all_requests: bool,
    /// Names that steps set or remove, or look for somebody's token or key under.
    owned_in_requests: Box<[Box<[u8]>]>,
    /// With which names begin that steps set.
    prefixes_owned_in_requests: Box<[Box<[u8]>]>,
    owned_in_answers: Box<[Box<[u8]>]>,
}

impl TrailerRules {
    pub fn new<'s>(steps: impl Iterator<Item = &'s Step> + Clone, pass_on: PassOn, identity: &IdentityFields) -> TrailerRules {
        let in_requests = steps.clone().filter_map(|step| match step {
            Step::RequestHeader(header) => Some(header),
            _ => None,
        });
        let credentials = steps.clone().flat_map(|step| step.facts().credential_fields).map(str::as_bytes);
        let in_answers = steps.clone().filter_map(|step| match step {
            Step::ResponseHeader(header) => Some(header),
            _ => None,
        });
        TrailerRules {
            takes_all_requests: pass_on.trailers,
            owned_in_requests: names(in_requests, identity.names().chain(credentials)),
            prefixes_owned_in_requests: identity.prefixes().map(Box::from).collect(),
            owned_in_answers: names(in_answers, std::iter::empty()),
        }
    }

    /// What of a request's trailers the upstream gets.
    pub fn of_request(&self, mut trailers: Box<Fields>, is_grpc: bool) -> Option<Box<Fields>> {
        for prefix in &self.prefixes_owned_in_requests {
            trailers.remove_where(|name| name.get(..prefix.len()).is_some_and(|start| is_alike(start, prefix)));
        }
        if is_grpc || self.takes_all_requests { without(trailers, &self.owned_in_requests) } else { None }
    }

    /// What of an answer's trailers the client gets.
    pub fn of_answer(&self, trailers: Box<Fields>) -> Option<Box<Fields>> {
        without(trailers, &self.owned_in_answers)
    }
}

fn names<'s>(steps: impl Iterator<Item = &'s HeaderStep>, more: impl Iterator<Item = &'s [u8]>) -> Box<[Box<[u8]>]> {
    let of_steps = steps.flat_map(|step| &step.changes).map(|change| change.name.to_ascii_lowercase().into_bytes().into());
    let mut names: Vec<Box<[u8]>> = of_steps.chain(more.map(Box::from)).collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}

fn without(mut trailers: Box<Fields>, owned: &[Box<[u8]>]) -> Option<Box<Fields>> {
    for name in owned {
        trailers.remove_spellings(name);
    }
    let has_any = trailers.iter().next().is_some();
    has_any.then_some(trailers)
}

#[cfg(test)]
mod tests {
    use super::TrailerRules;
    use crate::identity::IdentityFields;
    use tidegate_model::{HeaderChange, HeaderConditions, HeaderOperation, HeaderStep, PassOn, Step, Template};
    use tidegate_wire::Fields;

    fn header(operation: HeaderOperation, name: &str) -> HeaderStep {
        HeaderStep {
            changes: vec![HeaderChange { operation, name: name.into(), value: Template::literal("x") }],
            when: HeaderConditions::default(),
        }
    }

    fn fields(names: &[&str]) -> Fields {
        let mut fields = Fields::default();
        for name in names {
            fields.push(name.as_bytes(), b"forged");
        }
        fields
    }

    fn names(fields: Option<Box<Fields>>) -> Vec<String> {
        let name = |(name, _): (&[u8], &[u8])| String::from_utf8_lossy(name).into_owned();
        fields.map(|fields| fields.iter().map(name).collect()).unwrap_or_default()
    }

    #[test]
    fn trailers_say_nothing_that_steps_say() {
        let steps = [
            Step::RequestHeader(header(HeaderOperation::Set, "X-User")),
            Step::RequestHeader(header(HeaderOperation::Remove, "x_admin")),
            Step::ResponseHeader(header(HeaderOperation::Remove, "X-Secret")),
        ];
        let sent = ["X-Sum", "x-user", "X_User", "X.USER", "X-Admin", "X_ADMIN", "X-Secret", "X_Secret", "X-Users"];
        let check = |trailers: bool, is_grpc: bool, expected: &[&str]| {
            let rules = TrailerRules::new(steps.iter(), PassOn { trace: false, trailers }, &IdentityFields::default());
            assert_eq!(names(rules.of_request(Box::new(fields(&sent)), is_grpc)), expected, "{trailers} {is_grpc}");
        };
        let passed = ["X-Sum", "X-Secret", "X_Secret", "X-Users"];
        check(false, false, &[]);
        check(true, false, &passed);
        check(false, true, &passed);
        let rules = TrailerRules::new(steps.iter(), PassOn::default(), &IdentityFields::default());
        let of_answer = names(rules.of_answer(Box::new(fields(&sent))));
        assert_eq!(of_answer, ["X-Sum", "x-user", "X_User", "X.USER", "X-Admin", "X_ADMIN", "X-Users"]);
        assert!(rules.of_answer(Box::new(fields(&["x-secret"]))).is_none());
    }
}
