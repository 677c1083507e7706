//! Fields that say to an upstream who a client is, and that only the site may set. Whatever step sets them, and on
//! whichever of its routes: they are taken out of every request of the site before a route is looked for, in all
//! spellings that servers behind us may read as the same name. So none is forged where the step does not run.

use crate::forward_auth::may_be_copied;
use tidegate_model::{HeaderOperation, Placeholder, Step, Template, TemplatePart};
use tidegate_wire::Fields;
use tidegate_wire::head::HeaderId;
use tidegate_wire::name_table::is_alike;

/// Names, in lower case.
#[derive(Debug, Default)]
pub struct IdentityFields {
    names: Box<[Box<[u8]>]>,
    /// Beginnings of names.
    prefixes: Box<[Box<[u8]>]>,
}

impl IdentityFields {
    /// Of all steps of a site and of its routes.
    pub fn of<'s>(steps: impl Iterator<Item = &'s Step> + Clone) -> IdentityFields {
        let names = steps.clone().flat_map(names_of).filter(|name| !is_of_client(name));
        IdentityFields { names: listed(names), prefixes: listed(steps.flat_map(|step| step.facts().told_beginnings)) }
    }

    /// Removes what a client says of itself in the name of the site. On arrival, before anything looks at the fields.
    #[inline]
    pub fn remove_claimed(&self, fields: &mut Fields) {
        if !self.names.is_empty() {
            fields.remove_where(|name| self.names.iter().any(|known| is_alike(name, known)));
        }
        if !self.prefixes.is_empty() {
            fields.remove_where(|name| self.has_prefix_of(name));
        }
    }

    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|name| &**name)
    }

    pub fn prefixes(&self) -> impl Iterator<Item = &[u8]> {
        self.prefixes.iter().map(|prefix| &**prefix)
    }

    /// What a client logs in with, and what frames its message, is its own.
    fn has_prefix_of(&self, name: &[u8]) -> bool {
        let begins = |prefix: &[u8]| name.get(..prefix.len()).is_some_and(|start| is_alike(start, prefix));
        let is_own = || std::str::from_utf8(name).is_ok_and(is_of_client) || !may_be_copied(name);
        self.prefixes.iter().any(|prefix| begins(prefix)) && !is_own()
    }
}

fn listed<'s>(names: impl Iterator<Item = &'s str>) -> Box<[Box<[u8]>]> {
    let mut names: Vec<Box<[u8]>> = names.map(|name| name.to_ascii_lowercase().into_bytes().into()).collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}

/// What a step may say of who a client is.
fn names_of(step: &Step) -> Vec<&str> {
    let facts = step.facts();
    let sets = |operation| match operation {
        HeaderOperation::Set | HeaderOperation::Add | HeaderOperation::Default => true,
        HeaderOperation::Remove => false,
    };
    let said = facts.changes.iter().filter(|change| sets(change.operation) && says_who(&change.value));
    facts.told.into_iter().chain(said.map(|change| change.name.as_str())).collect()
}

/// The key of a map may be who a client is.
fn says_who(template: &Template) -> bool {
    template.parts.iter().any(|part| {
        matches!(
            part,
            TemplatePart::Placeholder(
                Placeholder::AuthUser
                    | Placeholder::JwtClaim(_)
                    | Placeholder::TlsClient(_)
                    | Placeholder::Geo(_)
                    | Placeholder::Map(_)
            )
        )
    })
}

/// By these a client says who it is, to be verified here; without them nobody could log in.
fn is_of_client(name: &str) -> bool {
    matches!(HeaderId::of(name.as_bytes()), HeaderId::Authorization | HeaderId::Cookie | HeaderId::Host)
}

#[cfg(test)]
mod tests {
    use super::IdentityFields;
    use crate::fixtures::{lines, push_lines, template};
    use tidegate_model::{AuthAny, ForwardAuth, HeaderChange, HeaderOperation, NamePattern, PoolName, Step};
    use tidegate_wire::Fields;

    fn sets(operation: HeaderOperation, name: &str, value: &str) -> Step {
        Step::RequestHeader(vec![HeaderChange { operation, name: name.into(), value: template(value) }].into())
    }

    #[test]
    fn what_an_auth_server_may_say_no_client_says() {
        let pattern = NamePattern::new;
        let copied = vec![pattern("Remote-User"), pattern("X-Auth-*"), pattern("Authorization"), pattern("Co*")];
        let auth = ForwardAuth { copied, ..ForwardAuth::new(PoolName("auth".into())) };
        let step = Step::ForwardAuth(Some(Box::new(auth)));
        // Also as one of several ways.
        let way = Step::AuthAny(Some(AuthAny { ways: vec![step.clone()] }));
        let check = |sent: &[&str], expected: &[&str]| {
            for step in [&step, &way] {
                let mut fields = Fields::default();
                push_lines(&mut fields, sent);
                IdentityFields::of(std::iter::once(step)).remove_claimed(&mut fields);
                assert_eq!(lines(&fields), expected, "{sent:?}");
            }
        };
        for spelling in ["Remote_User", "x-auth-user", "X_AUTH_GROUPS", "x.auth.", "X-Auth-_", "Colour"] {
            check(&[&format!("{spelling}: root"), "Accept: a"], &["Accept: a"]);
        }
        let own = ["X-Auth: a", "Authorization: b", "Cookie: c", "Content-Length: 0", "Connection: d", "C: e"];
        check(&own, &own);
    }

    #[test]
    fn what_any_route_says_of_a_client_no_client_says() {
        let steps = [
            sets(HeaderOperation::Set, "Remote-User", "{auth.user}"),
            sets(HeaderOperation::Set, "X-Host", "{host}"),
            sets(HeaderOperation::Remove, "X-Removed", ""),
            sets(HeaderOperation::Set, "Authorization", "Custom {auth.user}"),
            sets(HeaderOperation::Default, "X-Mail", "<{jwt.email}>"),
            sets(HeaderOperation::Add, "X-Cn", "{tls.client.subject}"),
        ];
        let identity = IdentityFields::of(steps.iter());
        let check = |sent: &[&str], expected: &[&str]| {
            let mut fields = Fields::default();
            push_lines(&mut fields, sent);
            identity.remove_claimed(&mut fields);
            assert_eq!(lines(&fields), expected, "{sent:?}");
        };
        for spelling in ["Remote-User", "remote-user", "REMOTE_USER", "Remote.User", "remote!user", "X-Mail", "x_mail", "X.CN"] {
            check(&[&format!("{spelling}: root"), "Accept: a"], &["Accept: a"]);
        }
        let others =
            ["X-Host: a", "X-Removed: b", "Authorization: c", "Cookie: d", "RemoteUser: e", "X-Remote-User: f", "X-Mails: g"];
        check(&others, &others);
    }
}
