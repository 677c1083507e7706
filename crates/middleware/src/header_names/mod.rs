//! `header-names`: fields of a request whose names servers behind us may read as others. What says who a client is was
//! taken out before, in all spellings and whatever this says (`identity`).

use crate::refusal::Refusal;
use tidegate_model::{HeaderNames, Step};
use tidegate_wire::Fields;
use tidegate_wire::name_table::is_alike;

/// The policy of a route, with the names that it needs for it.
#[derive(Debug, PartialEq, Eq)]
pub struct HeaderNameRules {
    policy: HeaderNames,
    /// In lower case: what the site's steps, and those of all its routes, set, remove or look for a token under.
    set_here: Box<[Box<[u8]>]>,
}

impl HeaderNameRules {
    /// `steps` are all of the site.
    pub fn new<'s>(policy: HeaderNames, steps: impl Iterator<Item = &'s Step>) -> HeaderNameRules {
        let mut set_here: Vec<Box<[u8]>> = match policy {
            HeaderNames::DropColliding => {
                steps.flat_map(names_of).map(|name| name.to_ascii_lowercase().into_bytes().into()).collect()
            }
            HeaderNames::Keep | HeaderNames::Drop | HeaderNames::Refuse => Vec::new(),
        };
        set_here.sort_unstable();
        set_here.dedup();
        HeaderNameRules { policy, set_here: set_here.into() }
    }

    /// Whether fields are looked at at all.
    #[inline]
    pub fn is_off(&self) -> bool {
        match self.policy {
            HeaderNames::DropColliding => self.set_here.is_empty(),
            HeaderNames::Keep => true,
            HeaderNames::Drop | HeaderNames::Refuse => false,
        }
    }

    /// Before the first step sees the request.
    pub fn settle(&self, fields: &mut Fields) -> Result<(), Refusal> {
        match self.policy {
            HeaderNames::Keep => {}
            HeaderNames::DropColliding => fields.remove_where(|name| is_unusual(name) && self.collides(name)),
            HeaderNames::Drop => fields.remove_where(is_unusual),
            HeaderNames::Refuse if fields.iter().any(|(name, _)| is_unusual(name)) => return Err(Refusal::HeaderName),
            HeaderNames::Refuse => {}
        }
        Ok(())
    }

    /// Holds trailers to it, whose request has begun to go on: none of them can refuse it any more.
    pub fn settle_trailers(&self, trailers: &mut Fields) {
        match self.policy {
            HeaderNames::Keep => {}
            HeaderNames::DropColliding => trailers.remove_where(|name| is_unusual(name) && self.collides(name)),
            HeaderNames::Drop | HeaderNames::Refuse => trailers.remove_where(is_unusual),
        }
    }

    fn collides(&self, name: &[u8]) -> bool {
        self.set_here.iter().any(|known| is_alike(name, known) && !name.eq_ignore_ascii_case(known))
    }
}

/// Servers have many ways to read it.
fn is_unusual(name: &[u8]) -> bool {
    !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// Fields that a step changes or looks at. Those that it copies or tells are taken out in all spellings before.
fn names_of(step: &Step) -> Vec<&str> {
    let facts = step.facts();
    facts.changes.iter().map(|change| change.name.as_str()).chain(facts.credential_fields).collect()
}

#[cfg(test)]
mod tests {
    use super::HeaderNameRules;
    use crate::fixtures::{lines, push_lines, template};
    use crate::refusal::Refusal;
    use tidegate_model::{HeaderChange, HeaderNames, HeaderOperation, Step};
    use tidegate_wire::Fields;

    #[test]
    fn each_policy_does_what_it_says() {
        let change = |operation, name: &str| HeaderChange { operation, name: name.into(), value: template("a") };
        let steps = [
            Step::RequestHeader(
                vec![change(HeaderOperation::Set, "X-Tenant"), change(HeaderOperation::Remove, "X-Debug")].into(),
            ),
            Step::ResponseHeader(vec![change(HeaderOperation::Set, "X-Answer")].into()),
        ];
        let sent = ["X_Tenant: b", "x.debug: 1", "X-Tenant: c", "x_other: d", "X_Answer: e", "Accept: f", "a!b: g"];
        let check = |policy, expected: Result<&[&str], Refusal>, of_trailers: &[&str]| {
            let rules = HeaderNameRules::new(policy, steps.iter());
            let (mut fields, mut trailers) = (Fields::default(), Fields::default());
            push_lines(&mut fields, &sent);
            push_lines(&mut trailers, &sent);
            let outcome = rules.settle(&mut fields).map(|()| lines(&fields));
            assert_eq!(outcome, expected.map(|lines| lines.iter().map(ToString::to_string).collect()), "{policy:?}");
            rules.settle_trailers(&mut trailers);
            assert_eq!(lines(&trailers), of_trailers, "{policy:?}");
        };
        let without_colliding = ["X-Tenant: c", "x_other: d", "X_Answer: e", "Accept: f", "a!b: g"];
        let usual = ["X-Tenant: c", "Accept: f"];
        check(HeaderNames::DropColliding, Ok(&without_colliding), &without_colliding);
        check(HeaderNames::Keep, Ok(&sent), &sent);
        check(HeaderNames::Drop, Ok(&usual), &usual);
        check(HeaderNames::Refuse, Err(Refusal::HeaderName), &usual);
    }

    #[test]
    fn what_has_nothing_to_do_is_off() {
        let check = |policy, expected: bool| assert_eq!(HeaderNameRules::new(policy, [].iter()).is_off(), expected, "{policy:?}");
        check(HeaderNames::DropColliding, true);
        check(HeaderNames::Keep, true);
        check(HeaderNames::Drop, false);
        check(HeaderNames::Refuse, false);
    }
}
