//! What `rate-limit` and `concurrency-limit` count by, compiled: from a request to 64 bits. The texts around
//! placeholders are the same for every request and left out; what placeholders bring goes in with its length, so that
//! no two requests are one because of where a part ends.

use crate::context::{Context, Scratch, View};
use crate::template::{CompiledTemplate, Target};
use tidegate_limiting::KeyHasher;
use tidegate_model::{CountBy, Placeholder, Template, TemplatePart};
use tidegate_wire::head::RequestHead;

#[derive(Debug)]
pub struct LimitKey {
    by: By,
    ipv6_prefix: u8,
}

#[derive(Debug)]
enum By {
    Client,
    All,
    Parts(Box<[KeyPart]>),
}

#[derive(Debug)]
enum KeyPart {
    /// `{client.ip}`, by its network as well.
    Client,
    /// `{auth.user}`, with what tells users of one name apart.
    User,
    /// `{jwt.…}`, with who has issued the token: each issuer has its own Alice.
    Claim { template: CompiledTemplate },
    /// One placeholder; the field that it stands for, where it is one.
    Text { template: CompiledTemplate, field: Option<Box<[u8]>> },
}

impl KeyPart {
    /// A field that is sent twice is joined: with one line that is right and another that is made up, each request
    /// would be somebody new.
    fn is_ambiguous(field: Option<&[u8]>, request: &RequestHead) -> bool {
        field.is_some_and(|name| request.fields.all_named(name).nth(1).is_some())
    }
}

impl LimitKey {
    pub fn new(by: &CountBy, ipv6_prefix: u8) -> LimitKey {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Literal(_) | TemplatePart::Capture(_) => None,
            TemplatePart::Placeholder(Placeholder::ClientIp) => Some(KeyPart::Client),
            TemplatePart::Placeholder(Placeholder::AuthUser) => Some(KeyPart::User),
            TemplatePart::Placeholder(Placeholder::JwtClaim(_)) => {
                let template = CompiledTemplate::new(&Template { parts: vec![part.clone()] }, Target::Text);
                Some(KeyPart::Claim { template })
            }
            TemplatePart::Placeholder(placeholder) => {
                let template = CompiledTemplate::new(&Template { parts: vec![part.clone()] }, Target::Text);
                let field = if let Placeholder::RequestHeader(name) = placeholder { Some(name.as_bytes().into()) } else { None };
                Some(KeyPart::Text { template, field })
            }
        };
        let by = match by {
            CountBy::Client => By::Client,
            CountBy::All => By::All,
            CountBy::Text(template) => By::Parts(template.parts.iter().filter_map(part).collect()),
        };
        LimitKey { by, ipv6_prefix }
    }

    pub fn of(&self, hasher: &KeyHasher, request: &RequestHead, context: &Context<'_>, scratch: &mut Scratch) -> u64 {
        let mut key = hasher.begin();
        match &self.by {
            By::Client => key.address(context.client_ip, self.ipv6_prefix),
            By::All => {}
            By::Parts(parts) => {
                let mut brings_something = false;
                for part in parts {
                    match part {
                        KeyPart::Client => {
                            key.address(context.client_ip, self.ipv6_prefix);
                            brings_something = true;
                        }
                        KeyPart::User => {
                            scratch.rendered.clear();
                            if let Some(identity) = context.identity {
                                identity.write_key(&mut scratch.rendered);
                            }
                            key.text(&scratch.rendered);
                            brings_something |= !scratch.rendered.is_empty();
                        }
                        KeyPart::Claim { template } => {
                            scratch.rendered.clear();
                            if let Some(claims) = context.claims {
                                claims.write("iss", &mut scratch.rendered);
                            }
                            key.text(&scratch.rendered);
                            scratch.rendered.clear();
                            template.render(View { context, request, response: None }, &mut scratch.rendered);
                            key.text(&scratch.rendered);
                            brings_something |= !scratch.rendered.is_empty();
                        }
                        KeyPart::Text { field, .. } if KeyPart::is_ambiguous(field.as_deref(), request) => key.text(b""),
                        KeyPart::Text { template, .. } => {
                            scratch.rendered.clear();
                            template.render(View { context, request, response: None }, &mut scratch.rendered);
                            key.text(&scratch.rendered);
                            brings_something |= !scratch.rendered.is_empty();
                        }
                    }
                }
                // Otherwise all who leave the field out would be one client, or none.
                if !brings_something {
                    key.address(context.client_ip, self.ipv6_prefix);
                }
            }
        }
        key.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::LimitKey;
    use crate::context::{Context, Scratch};
    use crate::fixtures::{context, request, template};
    use tidegate_access::{Claims, Identity, LogIn};
    use tidegate_limiting::KeyHasher;
    use tidegate_model::CountBy;

    /// Whether two requests, as an address and header lines, count as one.
    fn check(by: &CountBy, first: (&str, &[&str]), second: (&str, &[&str]), are_one: bool) {
        let (hasher, key) = (KeyHasher::default(), LimitKey::new(by, 64));
        let of = |(ip, lines): (&str, &[&str])| {
            let context = Context { client_ip: ip.parse().expect("an address"), ..context() };
            key.of(&hasher, &request("/", "example.com", lines), &context, &mut Scratch::default())
        };
        assert_eq!(of(first) == of(second), are_one, "{first:?} and {second:?} by {by}");
    }

    #[test]
    fn by_the_client_or_all_together() {
        check(&CountBy::Client, ("192.0.2.1", &[]), ("192.0.2.1", &["X: y"]), true);
        check(&CountBy::Client, ("192.0.2.1", &[]), ("192.0.2.2", &[]), false);
        check(&CountBy::Client, ("2001:db8::1", &[]), ("2001:db8::2", &[]), true);
        check(&CountBy::Client, ("2001:db8::1", &[]), ("2001:db8:0:1::1", &[]), false);
        check(&CountBy::All, ("192.0.2.1", &[]), ("2001:db8::1", &["X: y"]), true);
    }

    #[test]
    fn by_what_placeholders_bring() {
        let by = |text: &str| CountBy::Text(template(text));
        let key = by("key {request.header.x-api-key}");
        check(&key, ("192.0.2.1", &["X-Api-Key: a"]), ("192.0.2.2", &["X-Api-Key: a"]), true);
        check(&key, ("192.0.2.1", &["X-Api-Key: a"]), ("192.0.2.1", &["X-Api-Key: b"]), false);
        let two = by("{request.header.a}{request.header.b}");
        check(&two, ("192.0.2.1", &["A: ab", "B: c"]), ("192.0.2.1", &["A: a", "B: bc"]), false);
        let client = by("{client.ip} {request.header.a}");
        check(&client, ("2001:db8::1", &["A: a"]), ("2001:db8::2", &["A: a"]), true);
        check(&client, ("2001:db8::1", &["A: a"]), ("2001:db8::1", &["A: b"]), false);
        let long: &str = &format!("X-Api-Key: {}", "a".repeat(60_000));
        let longer: &str = &format!("{long}b");
        check(&key, ("192.0.2.1", &[long]), ("192.0.2.1", &[longer]), false);
    }

    #[test]
    fn users_of_one_name_are_told_apart() {
        let (hasher, key) = (KeyHasher::default(), LimitKey::new(&CountBy::Text(template("{auth.user}")), 64));
        let by = |identity: Option<&Identity>, ip: &str| {
            let context = Context { identity, client_ip: ip.parse().expect("an address"), ..context() };
            key.of(&hasher, &request("/", "example.com", &[]), &context, &mut Scratch::default())
        };
        let alice = Identity::of_name("alice", LogIn::Password);
        let by_token = Identity { issuer: Some("https://a".into()), ..Identity::of_name("alice", LogIn::Token) };
        assert_eq!(by(Some(&alice), "192.0.2.1"), by(Some(&alice), "192.0.2.2"));
        assert_ne!(by(Some(&alice), "192.0.2.1"), by(Some(&by_token), "192.0.2.1"));
        assert_ne!(by(None, "192.0.2.1"), by(None, "192.0.2.2"));
    }

    #[test]
    fn claims_of_other_issuers_are_others() {
        let (hasher, key) = (KeyHasher::default(), LimitKey::new(&CountBy::Text(template("{jwt.sub}")), 64));
        let by = |text: &str| {
            let claims = Claims::of_text(text).expect("claims");
            let context = Context { claims: Some(&claims), ..context() };
            key.of(&hasher, &request("/", "example.com", &[]), &context, &mut Scratch::default())
        };
        let alice = by(r#"{"iss":"a","sub":"alice","jti":"1"}"#);
        assert_eq!(alice, by(r#"{"sub":"alice","iss":"a"}"#));
        assert_ne!(alice, by(r#"{"iss":"b","sub":"alice"}"#));
        assert_ne!(alice, by(r#"{"iss":"a","sub":"bob"}"#));
        // Without the claim it is the address that counts.
        assert_eq!(by(r#"{"iss":"a"}"#), by(r#"{"iss":"a","name":"x"}"#));
    }

    #[test]
    fn who_brings_nothing_is_counted_by_its_address() {
        let key = CountBy::Text(template("{request.header.x-api-key}"));
        check(&key, ("192.0.2.1", &[]), ("192.0.2.1", &["X-Api-Key: "]), true);
        check(&key, ("192.0.2.1", &[]), ("192.0.2.2", &[]), false);
        check(&key, ("192.0.2.1", &[]), ("192.0.2.1", &["X-Api-Key: 192.0.2.1"]), false);
    }
}
