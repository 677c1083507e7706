//! Fields that say to an upstream who a client is, and that only the site may set. Whatever step sets them, and on
//! whichever of its routes: they are taken out of every request of the site before a route is looked for, in all
//! spellings that servers behind us may read as the same name. So none is forged where the step does not run.

use tidegate_model::{HeaderOperation, Placeholder, Step, Template, TemplatePart};
use tidegate_wire::Fields;
use tidegate_wire::head::HeaderId;
use tidegate_wire::name_table::is_alike;

/// Names, in lower case.
#[derive(Debug, Default)]
pub struct IdentityFields(Box<[Box<[u8]>]>);

impl IdentityFields {
    /// Of all steps of a site and of its routes.
    pub fn of<'s>(steps: impl Iterator<Item = &'s Step>) -> IdentityFields {
        let mut names: Vec<Box<[u8]>> = steps
            .flat_map(Step::parts)
            .flat_map(names_of)
            .filter(|name| !is_of_client(name))
            .map(|name| name.to_ascii_lowercase().into_bytes().into())
            .collect();
        names.sort_unstable();
        names.dedup();
        IdentityFields(names.into())
    }

    /// Removes what a client says of itself in the name of the site. On arrival, before anything looks at the fields.
    #[inline]
    pub fn remove_claimed(&self, fields: &mut Fields) {
        if !self.0.is_empty() {
            fields.remove_where(|name| self.0.iter().any(|known| is_alike(name, known)));
        }
    }

    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|name| &**name)
    }
}

/// What a step may say of who a client is.
fn names_of(step: &Step) -> Vec<&str> {
    match step {
        Step::Jwt(Some(jwt)) => jwt.headers.iter().map(|header| header.name.as_str()).collect(),
        Step::Oidc(Some(oidc)) => {
            let of_claims = oidc.headers.iter().map(|header| header.name.as_str());
            of_claims.chain(oidc.access_token.as_deref()).chain(oidc.id_token.as_deref()).collect()
        }
        Step::ApiKey(Some(auth)) => auth.header.iter().map(String::as_str).collect(),
        Step::RequestHeader(header) => {
            let sets = |operation| match operation {
                HeaderOperation::Set | HeaderOperation::Add | HeaderOperation::Default => true,
                HeaderOperation::Remove => false,
            };
            let said = header.changes.iter().filter(|change| sets(change.operation) && says_who(&change.value));
            said.map(|change| change.name.as_str()).collect()
        }
        Step::Jwt(None)
        | Step::Oidc(None)
        | Step::ApiKey(None)
        // Its ways stand in its place.
        | Step::AuthAny(_)
        | Step::ResponseHeader(_)
        | Step::Rewrite { .. }
        | Step::StripPrefix(_)
        | Step::AddPrefix(_)
        | Step::BodyLimit { .. }
        | Step::Allow(_)
        | Step::Deny(_)
        | Step::Cors(_)
        | Step::BasicAuth(_)
        | Step::Csrf(_)
        | Step::ClientAuth(_)
        | Step::RateLimit(_)
        | Step::ConcurrencyLimit(_) => Vec::new(),
    }
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
    use tidegate_model::{HeaderChange, HeaderOperation, Step};
    use tidegate_wire::Fields;

    fn sets(operation: HeaderOperation, name: &str, value: &str) -> Step {
        Step::RequestHeader(vec![HeaderChange { operation, name: name.into(), value: template(value) }].into())
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
