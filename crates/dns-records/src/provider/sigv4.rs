//! Signatures of requests to AWS, version 4: the request in a canonical form, hashed, and signed with a key that is
//! good for one day, region and service. Pure: the time comes in. The paths and queries here need no encoding beyond
//! what they are written with.

use aws_lc_rs::{digest, hmac};
use jiff::Timestamp;
use std::fmt::Write;
use tidegate_model::Secret;
use zeroize::Zeroizing;

pub struct Credentials {
    pub access_key: String,
    pub secret_key: Secret,
    /// Of credentials for a time.
    pub session_token: Option<Secret>,
}

pub struct Scope {
    pub region: &'static str,
    pub service: &'static str,
}

/// A request as it is signed. The headers are lower case, sorted by name, and among them are `host` and `x-amz-date`.
pub struct Signable<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Encoded, and sorted by name.
    pub query: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

/// For `x-amz-date`: `20150830T123600Z`.
pub fn stamp(now: Timestamp) -> String {
    now.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The value of `Authorization`; `stamp` is that of `x-amz-date`.
pub fn authorization(request: &Signable, credentials: &Credentials, scope: &Scope, stamp: &str) -> String {
    let day = stamp.get(..8).unwrap_or(stamp);
    let scope_text = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, request.query);
    for (name, value) in request.headers {
        let _ = writeln!(canonical, "{name}:{}", value.trim());
    }
    let names = request.headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let _ = write!(canonical, "\n{names}\n{}", hex(digest::digest(&digest::SHA256, request.body).as_ref()));
    let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let to_sign = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope_text}\n{hash}");
    let key = signing_key(&credentials.secret_key, day, scope);
    let signature = hex(&mac(&key, to_sign.as_bytes()));
    format!("AWS4-HMAC-SHA256 Credential={}/{scope_text}, SignedHeaders={names}, Signature={signature}", credentials.access_key)
}

fn signing_key(secret: &Secret, day: &str, scope: &Scope) -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(format!("AWS4{}", secret.reveal()).into_bytes());
    for part in [day, scope.region, scope.service, "aws4_request"] {
        key = Zeroizing::new(mac(&key, part.as_bytes()));
    }
    key
}

fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{Credentials, Scope, Signable, authorization, stamp};
    use jiff::Timestamp;
    use tidegate_model::Secret;

    fn check(service: &'static str, method: &str, target: &str, body: &str, session_token: Option<&str>, expected: &str) {
        let stamp = stamp("2015-08-30T12:36:00Z".parse::<Timestamp>().expect("a time"));
        let credentials = Credentials {
            access_key: "AKIDEXAMPLE".into(),
            secret_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: session_token.map(Secret::new),
        };
        let host = format!("{}.amazonaws.com", if service == "service" { "example" } else { service });
        let mut headers = vec![("host", host.as_str()), ("x-amz-date", stamp.as_str())];
        headers.extend(session_token.map(|token| ("x-amz-security-token", token)));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let request = Signable { method, path, query, headers: &headers, body: body.as_bytes() };
        let authorization = authorization(&request, &credentials, &Scope { region: "us-east-1", service }, &stamp);
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lead = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, SignedHeaders={names}, Signature="
        );
        assert_eq!(authorization.strip_prefix(&lead), Some(expected), "{authorization}");
    }

    /// `get-vanilla`, `post-vanilla` and `get-vanilla-query-order-key-case` of the suite that AWS publishes.
    #[test]
    fn signatures_are_those_of_the_published_suite() {
        let check = |method, target, expected| check("service", method, target, "", None, expected);
        check("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
        check("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
        check("GET", "/?Param1=value1&Param2=value2", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
    }

    /// Expected values by botocore 1.44, for requests as they are made here.
    #[test]
    fn requests_to_route53_are_signed_as_amazons_own_client_signs_them() {
        let list = "/2013-04-01/hostedzone/Z1/rrset?maxitems=1&name=_acme-challenge.example.com&type=TXT";
        check("route53", "GET", list, "", None, "e5bacf4b42f4ae5160a6ce18cf5254a5269def8828e9656cb093de26250659de");
        let change = "/2013-04-01/hostedzone/Z1/rrset/";
        let expected = "7aff965f838d84763ee501a91d348239a4166bf1fcc3afb46dcce71b7ac1e4b8";
        check("route53", "POST", change, "<a/>", Some("SESSION"), expected);
    }
}
