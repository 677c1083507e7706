//! Secrets that are watched by their names, one by one, without the right to list any.

use std::time::{Duration, Instant};
use tidegate_cluster::{ClusterFollower, Key, Kind, Place, Scope, SecretState, Token};
use tidegate_model::Secret;
use tidegate_model::discover::Namespaces;
use tidegate_outbound::Trust;
use tidegate_testkit::kubernetes::{ApiServer, TOKEN};

/// Far below the minute after which whoever is not told asks again.
const PATIENCE: Duration = Duration::from_secs(30);
/// As many as are watched at once.
const WATCHES_MAX: usize = 128;

fn secret(name: &str, value: &str) -> serde_json::Value {
    serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": name},
        "type": "kubernetes.io/tls", "data": {"tls.key": value}})
}

struct Named {
    server: ApiServer,
    follower: ClusterFollower,
}

impl Named {
    fn of(server: ApiServer) -> Named {
        server.forbid("list", "secrets", None);
        let scope = Scope { namespaces: Namespaces::All, kinds: &[Kind::Service] };
        let place = Place { url: server.url(), trust: Trust::System, identity: None, token: Token::Fixed(Secret::new(TOKEN)) };
        let follower = ClusterFollower::start(place, scope, || {}).expect("a follower");
        Named { server, follower }
    }

    fn want<S: AsRef<str>>(&self, names: &[S]) {
        self.follower.want_secrets(names.iter().map(|name| Key::new("shop", name.as_ref())).collect());
    }

    /// What is held under `tls.key`.
    fn held(&self, name: &str) -> String {
        match self.follower.cache().secret(&Key::new("shop", name)) {
            SecretState::Held(secret) => String::from_utf8_lossy(secret.data["tls.key"].reveal()).into_owned(),
            other => format!("{other:?}"),
        }
    }

    fn comes_to(&self, name: &str, expected: &str) {
        until(|| self.held(name) == expected, || format!("{name}: {} {:?}", self.held(name), self.server.requests()));
    }

    fn asked(&self, is_meant: impl Fn(&str) -> bool) -> usize {
        self.server.requests().iter().filter(|request| is_meant(request)).count()
    }

    fn watched(&self, name: &str) -> usize {
        let of = format!("fieldSelector=metadata.name%3D{name}&");
        self.asked(|request| request.contains("/shop/secrets?watch=true") && request.contains(&of))
    }
}

fn until(mut condition: impl FnMut() -> bool, seen: impl Fn() -> String) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "after {PATIENCE:?}: {}", seen());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_happens_to_a_secret_is_known_and_none_is_listed() {
    let server = ApiServer::start().expect("a server");
    server.put(secret("tls", "YQ=="));
    server.put(secret("other", "Yg=="));
    let named = Named::of(server);
    named.want(&["tls", "none", "../tls"]);
    named.comes_to("tls", "a");
    named.comes_to("none", "Missing");
    until(|| named.watched("tls") == 1 && named.watched("none") == 1, || format!("{:?}", named.server.requests()));
    named.server.put(secret("tls", "Yw=="));
    named.server.put(secret("none", "ZA=="));
    named.comes_to("tls", "c");
    named.comes_to("none", "d");
    named.server.remove(&secret("tls", ""));
    named.comes_to("tls", "Missing");
    named.server.put(secret("tls", "ZQ=="));
    named.comes_to("tls", "e");
    let lists = named.asked(|request| request.contains("/secrets?") && !request.contains("watch=true"));
    assert_eq!((lists, named.watched("other")), (0, 0), "{:?}", named.server.requests());
    assert_eq!(named.follower.cache().uid(Kind::Secret, &Key::new("shop", "tls")), Some("".into()));
}

#[test]
fn what_changes_while_no_watch_is_open_is_seen_when_it_is_opened_again() {
    let server = ApiServer::start().expect("a server");
    server.put(secret("tls", "YQ=="));
    server.put(secret("goes", "YQ=="));
    let named = Named::of(server);
    named.want(&["tls", "goes"]);
    named.comes_to("goes", "a");
    named.comes_to("tls", "a");
    until(|| named.watched("tls") > 0 && named.watched("goes") > 0, || format!("{:?}", named.server.requests()));
    named.server.refuse("/api/v1/namespaces/shop/secrets", 503, Some(6), None);
    named.server.end_watches();
    named.server.put(secret("tls", "Yg=="));
    named.server.remove(&secret("goes", ""));
    named.comes_to("tls", "b");
    named.comes_to("goes", "Missing");
}

#[test]
fn watches_are_bounded_and_end_with_who_wants_them() {
    let server = ApiServer::start().expect("a server");
    let names: Vec<String> = (0..WATCHES_MAX + 20).map(|number| format!("tls-{number:03}")).collect();
    for name in &names {
        server.put(secret(name, "YQ=="));
    }
    let named = Named::of(server);
    named.want(&names);
    until(|| named.follower.has_answered(), || format!("{:?}", named.follower.states()));
    let watches = || named.asked(|request| request.contains("/secrets?watch=true"));
    until(|| watches() >= WATCHES_MAX, || format!("{} watches", watches()));
    named.comes_to(&names[WATCHES_MAX + 10], "a");
    assert_eq!(watches(), WATCHES_MAX, "the others are asked for again every minute");
    // Of those that are wanted no more the watch ends, and another one has its place.
    named.want(&names[100..]);
    until(|| watches() == WATCHES_MAX + 20, || format!("{} watches", watches()));
    named.server.put(secret(&names[WATCHES_MAX + 10], "Yg=="));
    named.comes_to(&names[WATCHES_MAX + 10], "b");
}
