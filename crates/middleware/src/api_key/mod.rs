//! `api-key`: where in a request a key stands, and how it is kept from those behind us. Whose key it is is looked up by
//! whoever runs the steps (`proxy`), who has the keys.

use crate::jwt::{TokensUnclear, decoded, only, parameters};
use crate::refusal::{ApiKeyRefusal, Refusal};
use std::borrow::Cow;
use tidegate_limiting::FailureQuotas;
use tidegate_model::{ApiKeyAuth, ApiKeyPlace, Step, log_ins};
use tidegate_wire::head::{HeaderId, RequestHead};

#[derive(Debug, PartialEq, Eq)]
pub struct CompiledApiKey {
    pub settings: ApiKeyAuth,
    /// The value of `WWW-Authenticate`.
    challenge: Box<str>,
    /// How many unknown keys an address may try.
    pub failures: Option<FailureQuotas>,
}

impl CompiledApiKey {
    pub fn new(auth: &ApiKeyAuth) -> CompiledApiKey {
        // RFC 9110 section 15.5.2 asks for a challenge, and no scheme is registered for keys in a field of their own.
        let scheme = auth.places.iter().find_map(|place| match place {
            ApiKeyPlace::Authorization(scheme) => Some(scheme.as_str()),
            ApiKeyPlace::Field(_) | ApiKeyPlace::Query(_) => None,
        });
        let scheme = scheme.unwrap_or("ApiKey");
        let challenge = match &auth.realm {
            Some(realm) => format!("{scheme} realm=\"{}\"", realm.replace('\\', "\\\\").replace('"', "\\\"")),
            None => scheme.to_owned(),
        };
        let failures = auth.failures.map(|rate| FailureQuotas::by_address(rate.count, rate.period));
        CompiledApiKey { settings: auth.clone(), challenge: challenge.into(), failures }
    }

    /// Calls back with the key of a request: of the places where one may stand, the first that has one. `None`: it has
    /// none.
    pub fn see_key<T>(&self, head: &RequestHead, see: impl FnOnce(Option<&[u8]>) -> T) -> Result<T, TokensUnclear> {
        for place in &self.settings.places {
            let found = match place {
                ApiKeyPlace::Field(name) => only(head.fields.all_named(name.as_bytes()))?.map(<[u8]>::trim_ascii),
                ApiKeyPlace::Authorization(scheme) => {
                    only(head.fields.all(HeaderId::Authorization))?.and_then(|value| behind(value, scheme))
                }
                ApiKeyPlace::Query(name) => {
                    let value = only(parameters(head.query().unwrap_or_default(), name.as_bytes()))?;
                    if let Some(value) = value.filter(|value| value.contains(&b'%')) {
                        return Ok(see(Some(&decoded(value).collect::<Vec<u8>>())));
                    }
                    value
                }
            };
            if let Some(key) = found.filter(|key| !key.is_empty()) {
                return Ok(see(Some(key)));
            }
        }
        Ok(see(None))
    }

    /// Of a field that keys stand in, another spelling may be read by a server behind us in place of the one that was
    /// looked at.
    pub fn remove_look_alikes(&self, head: &mut RequestHead) {
        for place in &self.settings.places {
            if let ApiKeyPlace::Field(name) = place {
                head.fields.remove_look_alikes(name.as_bytes());
            }
        }
    }

    /// Keys are not for who is behind us, in whichever of its places: also where another way to log in has let the
    /// client in.
    pub fn remove_keys(&self, head: &mut RequestHead) {
        if self.settings.forwards {
            return;
        }
        for place in &self.settings.places {
            match place {
                ApiKeyPlace::Field(name) => head.fields.remove_spellings(name.as_bytes()),
                ApiKeyPlace::Authorization(scheme) => {
                    let is_key = |value| behind(value, scheme).is_some();
                    if head.fields.all(HeaderId::Authorization).any(is_key) {
                        head.fields.remove_id(HeaderId::Authorization);
                    }
                }
                ApiKeyPlace::Query(name) => {
                    if let Some(rest) = head.query().and_then(|query| without(query, name.as_bytes())) {
                        head.set_query(Some(&*rest).filter(|rest| !rest.is_empty()));
                    }
                }
            }
        }
    }

    /// Tells the upstream whose key it was.
    pub fn tell_name(&self, head: &mut RequestHead, user: &str) {
        if let Some(name) = &self.settings.header {
            head.fields.remove_spellings(name.as_bytes());
            head.fields.push(name.as_bytes(), user.as_bytes());
        }
    }

    /// The value of `WWW-Authenticate` beside a refusal, where that is one of its own.
    pub fn challenge_of(&self, refusal: Refusal) -> Option<Cow<'_, str>> {
        if let Refusal::ApiKey(key) = refusal { self.challenge(key).map(Cow::Borrowed) } else { None }
    }

    /// The value of `WWW-Authenticate` for a refusal.
    pub fn challenge(&self, refusal: ApiKeyRefusal) -> Option<&str> {
        match refusal {
            ApiKeyRefusal::Missing | ApiKeyRefusal::Unknown | ApiKeyRefusal::Expired => Some(&self.challenge),
            ApiKeyRefusal::Unclear => None,
        }
    }
}

/// The step that counts among those of a site and of one of its routes.
pub fn api_key_of<'s>(site_steps: &'s [Step], route_steps: &'s [Step]) -> Option<&'s ApiKeyAuth> {
    log_ins(site_steps, route_steps).flat_map(Step::parts).find_map(|step| match step {
        Step::ApiKey(Some(auth)) => Some(&**auth),
        _ => None,
    })
}

/// Parameters of the query that are not for others: neither for who is asked about a request, nor for who answers it.
pub fn withheld_parameters(auth: &ApiKeyAuth) -> Box<[Box<[u8]>]> {
    let names = auth.places.iter().filter(|_| !auth.forwards).filter_map(ApiKeyPlace::parameter);
    names.map(|name| name.as_bytes().into()).collect()
}

/// What is left of a query without the parameters of that name, however it is encoded; `None` where there is none.
pub fn without(query: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let is_one = |pair: &[u8]| {
        let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        decoded(&pair[..end]).eq(name.iter().copied())
    };
    let pairs = || query.split(|byte| *byte == b'&');
    pairs().any(is_one).then(|| pairs().filter(|pair| !is_one(pair)).collect::<Vec<_>>().join(&b'&'))
}

/// What stands behind the scheme. A tab is no separator (RFC 9110 section 11.4), but servers take it for one.
fn behind<'v>(value: &'v [u8], scheme: &str) -> Option<&'v [u8]> {
    let (said, rest) = value.split_at_checked(scheme.len())?;
    let is_apart = matches!(rest.first(), Some(b' ' | b'\t'));
    (said.eq_ignore_ascii_case(scheme.as_bytes()) && is_apart).then(|| rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::{CompiledApiKey, without};
    use crate::fixtures::{lines, request, target};
    use crate::refusal::ApiKeyRefusal;
    use tidegate_model::{ApiKeyAuth, ApiKeyPlace, ApiKeySource};

    fn auth(places: &[ApiKeyPlace], realm: Option<&str>, forwards: bool) -> CompiledApiKey {
        CompiledApiKey::new(&ApiKeyAuth {
            keys: ApiKeySource::Listed(Vec::new()),
            places: places.to_vec(),
            header: Some("X-Client".into()),
            realm: realm.map(str::to_owned),
            forwards,
            failures: None,
        })
    }

    fn everywhere() -> [ApiKeyPlace; 3] {
        let (field, scheme, query) = ("x-api-key".to_owned(), "Bearer".to_owned(), "api_key".to_owned());
        [ApiKeyPlace::Field(field), ApiKeyPlace::Authorization(scheme), ApiKeyPlace::Query(query)]
    }

    #[test]
    fn where_a_key_stands() {
        let check = |path: &str, lines: &[&str], expected: Result<Option<&str>, ()>| {
            let head = request(path, "example.com", lines);
            let auth = auth(&everywhere(), None, false);
            let seen = auth.see_key(&head, |key| key.map(|key| String::from_utf8_lossy(key).into_owned()));
            assert_eq!(seen.map_err(|_| ()), expected.map(|key| key.map(str::to_owned)), "{path} {lines:?}");
        };
        check("/", &[], Ok(None));
        check("/", &["X-API-Key: one"], Ok(Some("one")));
        check("/", &["x-api-key:  one  "], Ok(Some("one")));
        check("/", &["X-API-Key: ", "Authorization: Bearer two"], Ok(Some("two")));
        check("/", &["Authorization: bearer \t two "], Ok(Some("two")));
        check("/", &["Authorization: Bearer"], Ok(None));
        check("/", &["Authorization: Bearertwo"], Ok(None));
        check("/", &["Authorization: Basic dHdv"], Ok(None));
        check("/?a=b&api_key=three", &[], Ok(Some("three")));
        check("/?%61pi_key=th%72ee%", &[], Ok(Some("three%")));
        check("/?api_key", &[], Ok(None));
        check("/?api_key=", &[], Ok(None));
        check("/?api_key=three", &["X-API-Key: one", "Authorization: Bearer two"], Ok(Some("one")));
        check("/", &["X-API-Key: one", "X-API-Key: one"], Err(()));
        check("/", &["Authorization: Bearer a", "Authorization: Basic b"], Err(()));
        check("/?api_key=a&api%5Fkey=b", &[], Err(()));
        check("/", &["X-API-Key: one, two"], Ok(Some("one, two")));
    }

    #[test]
    fn a_key_goes_no_further() {
        let check = |path: &str, sent: &[&str], forwards: bool, expected: (&str, &[&str])| {
            let mut head = request(path, "example.com", sent);
            let auth = auth(&everywhere(), None, forwards);
            auth.remove_look_alikes(&mut head);
            auth.remove_keys(&mut head);
            assert_eq!(
                (target(&head).as_str(), lines(&head.fields)),
                (expected.0, expected.1.iter().map(ToString::to_string).collect()),
                "{path} {sent:?}"
            );
        };
        let all = ["X-API-Key: one", "X_Api_Key: other", "Authorization: Bearer two", "Accept: a"];
        check("/?a=b&api_key=three&c", &all, false, ("/?a=b&c", &["Accept: a"]));
        check(
            "/?a=b&api_key=three&c",
            &all,
            true,
            ("/?a=b&api_key=three&c", &["X-API-Key: one", "Authorization: Bearer two", "Accept: a"]),
        );
        check("/?api_key=three", &["Authorization: Basic YTpi"], false, ("/", &["Authorization: Basic YTpi"]));
        check("/?api%5fkey&api_key=&API_KEY=d", &[], false, ("/?API_KEY=d", &[]));
        check("/", &[], false, ("/", &[]));
    }

    #[test]
    fn parameters_are_taken_out_of_a_query() {
        let check = |query: &str, expected: Option<&str>| {
            let seen = without(query.as_bytes(), b"key").map(|rest| String::from_utf8(rest).expect("ASCII"));
            assert_eq!(seen.as_deref(), expected, "{query}");
        };
        check("", None);
        check("a=b&keys=c&Key=d", None);
        check("key=a", Some(""));
        check("key", Some(""));
        check("a&key=a=b&&c", Some("a&&c"));
        check("%6B%65%79=a&b", Some("b"));
    }

    #[test]
    fn the_upstream_hears_the_name_and_the_client_what_is_wanted() {
        let mut head = request("/", "example.com", &["x_client: root"]);
        auth(&everywhere(), None, false).tell_name(&mut head, "ci");
        assert_eq!(lines(&head.fields), ["X-Client: ci"]);
        let check = |places: &[ApiKeyPlace], realm: Option<&str>, expected: &str| {
            assert_eq!(auth(places, realm, false).challenge(ApiKeyRefusal::Missing), Some(expected));
            assert_eq!(auth(places, realm, false).challenge(ApiKeyRefusal::Unclear), None);
        };
        check(&everywhere()[..1], None, "ApiKey");
        check(&everywhere(), Some("a\"b"), "Bearer realm=\"a\\\"b\"");
    }
}
