//! The order of steps, by names for them.

use super::{Phase, log_ins, moved, phases, run_order};
use crate::api_key::{ApiKeyAuth, ApiKeyPlace, ApiKeySource};
use crate::auth_any::AuthAny;
use crate::basic_auth::{AuthUsers, BasicAuth};
use crate::client_auth::ClientAuthDemand;
use crate::cors::{Cors, Origins};
use crate::csrf::Csrf;
use crate::jwt::{ClaimHeader, Jwt, TokenPlace};
use crate::limiting::{ConcurrencyLimit, CountBy, Rate, RateLimit};
use crate::placeholder::{Placeholder, Template, TemplatePart};
use crate::step::{AccessRule, HeaderChange, HeaderOperation, Step};
use std::time::Duration;

fn jwt() -> Jwt {
    Jwt {
        issuers: Vec::new(),
        places: vec![TokenPlace::Cookie("session".into())],
        requirements: Vec::new(),
        headers: vec![ClaimHeader { name: "X-Tenant".into(), claim: "tenant".into() }],
        user: Jwt::USER.into(),
        realm: None,
        is_optional: false,
        forwards: true,
        needs_expiry: true,
        leeway: Jwt::LEEWAY,
        kind: None,
        token_bytes_max: Jwt::TOKEN_BYTES_MAX,
    }
}

fn by(text: &str) -> CountBy {
    match text {
        "client" => CountBy::Client,
        "all" => CountBy::All,
        name => {
            let placeholder = Placeholder::from_name(name).expect("a placeholder");
            CountBy::Text(Template { parts: vec![TemplatePart::Placeholder(placeholder)] })
        }
    }
}

/// As `basic-auth`, `limit request.header.x-a`, `set X-A auth.user`.
fn step(text: &str) -> Step {
    let mut words = text.split(' ');
    let (name, first, second) = (words.next().unwrap_or_default(), words.next(), words.next());
    let value = |text: Option<&str>| match text {
        None => Template::literal("x"),
        Some(name) => Template { parts: vec![TemplatePart::Placeholder(Placeholder::from_name(name).expect("one"))] },
    };
    let change = |operation| vec![HeaderChange { operation, name: first.unwrap_or_default().into(), value: value(second) }];
    match name {
        "cors" => Step::Cors(Cors {
            origins: Origins::Any,
            methods: Vec::new(),
            headers: None,
            exposed: Vec::new(),
            credentials: false,
            max_age: Duration::ZERO,
            private_network: false,
        }),
        "allow" => Step::Allow(AccessRule::default()),
        "deny" => Step::Deny(AccessRule::default()),
        "csrf" => Step::Csrf(Some(Csrf::default())),
        "basic-auth" => {
            let auth = BasicAuth { realm: "r".into(), users: AuthUsers::Listed(Vec::new()), forwards: true, failures: None };
            Step::BasicAuth((first != Some("off")).then_some(auth))
        }
        "jwt" => Step::Jwt((first != Some("off")).then(|| Box::new(jwt()))),
        "api-key" => Step::ApiKey((first != Some("off")).then(|| {
            Box::new(ApiKeyAuth {
                keys: ApiKeySource::Listed(Vec::new()),
                places: vec![ApiKeyPlace::Field("x-api-key".into())],
                header: Some("X-Client".into()),
                realm: None,
                forwards: false,
                failures: None,
            })
        })),
        "any" => Step::AuthAny(first.map(|ways| AuthAny { ways: ways.split(',').map(step).collect() })),
        "client-auth" => Step::ClientAuth(if first == Some("off") { ClientAuthDemand::Off } else { ClientAuthDemand::Require }),
        "limit" => Step::RateLimit(Box::new(RateLimit {
            name: None,
            rate: Rate { count: 1, period: Duration::from_secs(1) },
            burst: 1,
            by: by(first.unwrap_or_default()),
            ipv6_prefix: 64,
            cost: 1,
            keys_max: 1,
            status: 429,
            headers: true,
            dry_run: false,
        })),
        "at-once" => Step::ConcurrencyLimit(Box::new(ConcurrencyLimit {
            name: None,
            requests_max: 1,
            by: by(first.unwrap_or_default()),
            ipv6_prefix: 64,
            status: 429,
            dry_run: false,
        })),
        "set" => Step::RequestHeader(change(HeaderOperation::Set).into()),
        "remove" => Step::RequestHeader(change(HeaderOperation::Remove).into()),
        "header" => Step::ResponseHeader(change(HeaderOperation::Set).into()),
        "rewrite" => Step::Rewrite { pattern: None, to: value(first) },
        "strip-prefix" => Step::StripPrefix("/a".into()),
        "body-limit" => Step::BodyLimit { bytes_max: 1 },
        other => panic!("{other} is no step of the tests"),
    }
}

fn steps(names: &[&str]) -> Vec<Step> {
    names.iter().map(|name| step(name)).collect()
}

#[test]
fn steps_run_in_phases_and_as_written_within_each() {
    let check = |written: &[&str], expected: &[&str]| {
        let steps = steps(written);
        let order = run_order(&steps.iter().collect::<Vec<_>>());
        let seen: Vec<&str> = order.into_iter().map(|position| written[position]).collect();
        assert_eq!(seen, expected, "{written:?}");
    };
    check(&[], &[]);
    check(
        &["set X-B auth.user", "limit auth.user", "basic-auth", "limit client", "deny", "cors"],
        &["cors", "deny", "limit client", "basic-auth", "limit auth.user", "set X-B auth.user"],
    );
    check(
        &["rewrite", "header A", "set X-B", "body-limit", "strip-prefix"],
        &["rewrite", "header A", "set X-B", "body-limit", "strip-prefix"],
    );
    check(&["limit all", "at-once client", "limit tls.ja4"], &["limit all", "at-once client", "limit tls.ja4"]);
    check(&["set X-A", "any allow,jwt", "deny", "api-key"], &["deny", "any allow,jwt", "api-key", "set X-A"]);
    check(&["jwt", "client-auth", "csrf", "basic-auth"], &["csrf", "jwt", "client-auth", "basic-auth"]);
}

#[test]
fn a_limit_has_its_turn_where_what_it_counts_by_is_known() {
    let check = |written: &[&str], expected: Phase| {
        let steps = steps(written);
        let phases = phases(&steps.iter().collect::<Vec<_>>());
        assert_eq!(phases.last(), Some(&expected), "{written:?}");
    };
    check(&["limit client"], Phase::Client);
    check(&["limit request.header.x-key"], Phase::Client);
    check(&["set X-Other", "limit request.header.x-key"], Phase::Client);
    check(&["remove x-key", "limit request.header.x-key"], Phase::AsWritten);
    check(&["set Host", "limit host"], Phase::AsWritten);
    check(&["set Cookie", "at-once request.cookie.session"], Phase::AsWritten);
    check(&["strip-prefix", "limit path"], Phase::AsWritten);
    check(&["strip-prefix", "limit request.header.x-key"], Phase::Client);
    check(&["limit auth.user"], Phase::Identity);
    check(&["jwt", "set X-A", "at-once jwt.sub"], Phase::Identity);
    check(&["jwt", "limit request.header.x-tenant"], Phase::Identity);
    check(&["api-key", "limit request.header.x-client"], Phase::Identity);
    check(&["any allow,api-key", "limit request.header.x-client"], Phase::Identity);
    check(&["limit map.plan"], Phase::Identity);
    check(&["set X-A", "limit map.plan"], Phase::AsWritten);
}

#[test]
fn what_runs_earlier_than_it_is_written_is_told_where_that_is_felt() {
    let check = |written: &[&str], from: usize, expected: &[(usize, usize)]| {
        let steps = steps(written);
        assert_eq!(moved(&steps.iter().collect::<Vec<_>>(), from), expected, "{written:?}");
    };
    check(&["cors", "deny", "limit client", "basic-auth", "limit auth.user"], 0, &[]);
    check(&["basic-auth", "cors"], 0, &[(1, 0)]);
    check(&["header A", "body-limit", "set X-A", "cors", "basic-auth"], 0, &[]);
    check(&["basic-auth", "limit client"], 0, &[(1, 0)]);
    check(&["set X-User auth.user", "basic-auth"], 0, &[(1, 0)]);
    check(&["set Authorization", "basic-auth"], 0, &[(1, 0)]);
    check(&["set Authorization", "jwt"], 0, &[]);
    check(&["remove Cookie", "jwt"], 0, &[(1, 0)]);
    check(&["set X-Api-Key", "api-key"], 0, &[(1, 0)]);
    check(&["set X-Api-Key", "any allow,api-key"], 0, &[(1, 0)]);
    check(&["set X-Api-Key", "any allow,jwt"], 0, &[]);
    check(&["any", "limit client"], 0, &[]);
    check(&["rewrite jwt.sub", "jwt"], 0, &[(1, 0)]);
    check(&["set X-A request.header.x-tenant", "jwt"], 0, &[(1, 0)]);
    check(&["basic-auth", "deny", "allow"], 0, &[]);
    check(&["basic-auth off", "limit client"], 0, &[]);
    // A line of a route cannot be written in front of its site's.
    check(&["basic-auth", "limit client", "cors"], 1, &[(2, 1)]);
    check(&["basic-auth", "cors"], 1, &[]);
    check(&["strip-prefix", "limit path", "limit client"], 0, &[(2, 1)]);
}

#[test]
fn the_last_word_of_each_kind_says_who_is_asked() {
    let check = |site: &[&str], route: &[&str], expected: &[&str]| {
        let (site, route, expected) = (steps(site), steps(route), steps(expected));
        assert_eq!(log_ins(&site, &route).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    };
    check(&[], &["set X-A"], &[]);
    check(&["basic-auth"], &["jwt"], &["basic-auth", "jwt"]);
    check(&["basic-auth", "client-auth"], &["basic-auth off"], &["client-auth"]);
    check(&["client-auth off"], &["client-auth"], &["client-auth"]);
    check(&["basic-auth", "jwt"], &["any allow,basic-auth"], &["jwt", "any allow,basic-auth"]);
    check(&["any allow,basic-auth", "api-key"], &["any"], &["api-key"]);
    check(&["any allow,basic-auth"], &["any client-auth,jwt"], &["any client-auth,jwt"]);
}
