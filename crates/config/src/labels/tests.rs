//! What labels mean, and whom they may not touch.

mod shut;
mod words;

use super::{LabelMemory, Labelled, read_labels};
use crate::load_text;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tidegate_model::{Configuration, Container, ContainerGroups, ContainerStage, Origin, PathPattern, Site, Terminal};

const FILE: &str =
    "docker { allow \"*.example.com\"; }\nsite \"http://:8080\" { respond 200; }\nsite \"http://own.test:8080\" { respond 200; }";

fn file(text: &str) -> Configuration {
    load_text("tidegate.kdl", text, Path::new("/")).configuration.expect("a configuration")
}

/// `PROJECT/SERVICE NAME CREATED` and its labels, one a line.
fn container(text: &str) -> Container {
    let (head, labels) = text.split_once('\n').unwrap_or((text, ""));
    let words: Vec<&str> = head.split_whitespace().collect();
    let [group, name, created] = words[..] else { panic!("a container is GROUP NAME CREATED, and not {head}") };
    let labels: BTreeMap<String, String> = labels
        .lines()
        .filter_map(|line| line.trim().split_once('='))
        .map(|(name, value)| (name.to_owned(), value.replace("\\n", "\n")))
        .collect();
    Container {
        id: format!("id-{name}"),
        name: name.into(),
        created: created.parse().expect("seconds"),
        owner: group.split('/').next().unwrap_or(group).into(),
        group: group.into(),
        labels,
        variables: BTreeMap::new(),
        stage: ContainerStage::Serving,
        ports: vec![80],
        address: Ok([10, 0, 0, 1].into()),
    }
}

fn read(file_text: &str, containers: &[&str], memory: &LabelMemory) -> Labelled {
    let file = file(file_text);
    let groups = ContainerGroups::new(containers.iter().map(|text| container(text)).collect());
    read_labels(&groups, file.containers.as_ref().expect("`docker` stands there"), &file, memory)
}

fn shown(site: &Site) -> String {
    let addresses: Vec<String> = site.addresses.iter().map(ToString::to_string).collect();
    let routes: Vec<String> = site
        .routes
        .iter()
        .map(|route| {
            let path = |pattern: &PathPattern| match pattern {
                PathPattern::Exact(path) => path.clone(),
                PathPattern::Prefix(path) | PathPattern::Beginning(path) => format!("{path}*"),
                PathPattern::Regex(path) => format!("~{path}"),
            };
            let paths: Vec<String> = route.paths.iter().map(path).collect();
            let called = route.name.as_deref().filter(|name| name.starts_with(super::refused::REFUSED));
            let end = match &route.terminal {
                // The digest of settings is another one with each new setting.
                Terminal::Proxy { pool, .. } => pool.0.split_inclusive('#').next().unwrap_or_default().replace('#', "#…"),
                Terminal::Respond { status: 503, .. } if called.is_some() => format!("SHUT {}", called.unwrap_or_default()),
                other => format!("{other:?}").split([' ', '(']).next().unwrap_or_default().to_lowercase(),
            };
            let steps = if route.steps.is_empty() { String::new() } else { format!(" +{}", route.steps.len()) };
            format!("{}{end}{steps}", if paths.is_empty() { String::new() } else { format!("{} ", paths.join(" ")) })
        })
        .collect();
    let steps = if site.steps.is_empty() { String::new() } else { format!(" +{}", site.steps.len()) };
    format!("{}{steps} -> {}", addresses.join(" "), routes.join(", "))
}

/// Sites, and faults as `PLACE: MESSAGE`.
fn check_in(file_text: &str, containers: &[&str], sites: &[&str], faults: &[&str]) {
    let labelled = read(file_text, containers, &LabelMemory::default());
    let seen: Vec<String> = labelled.sites.iter().map(|site| shown(site)).collect();
    let found: Vec<String> = labelled.faults.iter().map(|fault| format!("{}: {}", fault.place, fault.message)).collect();
    assert_eq!((seen, found), (owned(sites), owned(faults)), "for {containers:#?}");
}

fn check(containers: &[&str], sites: &[&str], faults: &[&str]) {
    check_in(FILE, containers, sites, faults);
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_site_is_enough() {
    check(&["shop/web web-1 1\ntidegate.site=shop.example.com"], &["https://shop.example.com -> container:shop/web"], &[]);
    check(
        &["web web 1\ntidegate.site=a.example.com, b.example.com\ntidegate.port=8080\ntidegate.scheme=https"],
        &["https://a.example.com https://b.example.com -> container:https://web:8080"],
        &[],
    );
    // What `discover docker=` reads is no site.
    check(&["web web 1\ntidegate.pool=web\ntidegate.port=80\ntidegate.weight=3"], &[], &[]);
}

#[test]
fn what_containers_serve_says_whose_it_is() {
    let labelled = read(
        FILE,
        &[
            "shop/web web 1\ntidegate.site=http://a.example.com:8080",
            "shop/api api 1\ntidegate.site=http://a.example.com:8080\ntidegate.route=/api/*",
            "alone alone 1\ntidegate.site=http://b.example.com:8080",
        ],
        &LabelMemory::default(),
    );
    let of = |origin: &Option<Arc<Origin>>| origin.as_ref().map(ToString::to_string).unwrap_or_default();
    let routes = |site: &Site| site.routes.iter().map(|route| of(&route.origin)).collect::<Vec<_>>().join(", ");
    let sites: Vec<String> = labelled.sites.iter().map(|site| format!("{}: {}", of(&site.origin), routes(site))).collect();
    assert_eq!(sites, [": container shop/api, container shop/web", "container alone: "]);
    let pools: Vec<String> = labelled.pools.iter().map(|pool| of(&pool.origin)).collect();
    assert_eq!(pools, ["container shop/api", "container shop/web", "container alone"]);
}

#[test]
fn several_sites_of_a_container_have_names() {
    check(
        &[
            "web web 1\ntidegate.site=a.example.com\ntidegate.admin.site=admin.example.com\ntidegate.admin.port=9000\ntidegate.port=80",
        ],
        &["https://a.example.com -> container:web:80", "https://admin.example.com -> container:web:9000"],
        &[],
    );
}

#[test]
fn lines_of_the_language_stand_in_a_label() {
    check(
        &[
            "web web 1\ntidegate.site=a.example.com\ntidegate.config=compress; rate-limit \"9/s\"; route \"/x/*\" { strip-prefix \"/x\"; proxy; }",
        ],
        &["https://a.example.com +1 -> /x/* container:web +1, container:web"],
        &[],
    );
    check(
        &["web web 1\ntidegate.site=a.example.com\ntidegate.config=proxy { health \"/up\"; balance \"least-conn\"; }"],
        &["https://a.example.com -> container:web#…"],
        &[],
    );
    check(
        &[
            "web web 1\ntidegate.config=site \"a.example.com\" { proxy; }; site \"b.example.com\" { redirect \"https://a.example.com{path}\"; }",
        ],
        &["https://a.example.com -> container:web", "https://b.example.com -> redirect"],
        &[],
    );
    check(
        &["web web 1\ntidegate.site=a.example.com\ntidegate.route=/api/*\ntidegate.config=deny \"all\""],
        &["https://a.example.com -> /api/* respond +1"],
        &[],
    );
}

#[test]
fn faults_name_container_label_line_and_column() {
    let one = |labels: &str, fault: &str| check(&[&format!("web web 1\n{labels}")], &[], &[fault]);
    one("tidegate.site=a_b..c", "container web, label tidegate.site:1:1: `a_b..c` has an empty label");
    one(
        "tidegate.site=a.example.com\ntidegate.config=compress\\n  compres",
        "container web, label tidegate.config:2:3: unknown word `compres`",
    );
    one("tidegate.sit=a.example.com", "container web, label tidegate.sit:1:1: there is no label `tidegate.sit`");
    one("tidegate.site=\"a.example.com\"", "container web, label tidegate.site:1:1: the \" is part of the value");
    one(
        "\"tidegate.site=a.example.com",
        "container web, label \"tidegate.site:1:1: the quotes or blanks are part of the name `\"tidegate.site`",
    );
    one("tidegate.site=a.example.com\ntidegate.port=0", "container web, label tidegate.port:1:1: `0` is no port");
    one("tidegate.route=/a/*", "container web, label tidegate.route:1:1: a route of which site is not said");
    one("tidegate.site=", "container web, label tidegate.site:1:1: the site has no address");
    one(
        "tidegate.site=a.example.com\ntidegate.config=proxy {",
        "container web, label tidegate.config:1:7: this block is never closed",
    );
    one(
        &format!("tidegate.site={}", "a".repeat(1 << 20)),
        "container web, label tidegate.site:1:1: the label has 1048576 bytes; at most 65536 are read",
    );
}

#[test]
fn a_wrong_label_takes_nothing_of_others_away() {
    check(
        &[
            "shop/api api 1\ntidegate.site=a.example.com\ntidegate.route=/api/*\ntidegate.config=nonsense",
            "shop/web web 2\ntidegate.site=a.example.com",
        ],
        &["https://a.example.com -> /api/* SHUT router_refused/api, container:shop/web"],
        &[
            "container api, label tidegate.config:1:1: unknown word `nonsense`",
            "container api, label tidegate.site:1:1: it is refused, so `/api/*` of `https://a.example.com`, which is served, is answered with 503",
        ],
    );
}

#[test]
fn labels_do_not_reach_beyond_their_container() {
    let not = |line: &str, column: usize, what: &str| {
        let labels = format!("web web 1\ntidegate.site=a.example.com\ntidegate.config={line}");
        let labelled = read(FILE, &[&labels], &LabelMemory::default());
        assert!(labelled.sites.is_empty(), "{line}");
        let place = format!("container web, label tidegate.config:1:{column}");
        let is_it =
            |fault: &super::LabelFault| fault.place == place && fault.message.starts_with(&format!("labels may not say {what}"));
        assert!(labelled.faults.iter().any(is_it), "{line}: {:?}", labelled.faults);
    };
    not("respond 200 body=\"{env.HOME}\"", 18, "`{env.");
    not("respond 200 body=\"\\u{7b}env.HOME}\"", 18, "`{env.");
    not("respond 200 body=\"{file./etc/passwd}\"", 18, "`{file.");
    not("respond 200 body=\"{map.tenants}\"", 18, "`{map.");
    not("include \"/etc/passwd\"", 1, "`include`");
    not("files \"/etc\"", 1, "`files`");
    not("fastcgi \"127.0.0.1:9000\" root=\"/srv\"", 1, "`fastcgi`");
    not("tls cert=\"a.pem\"", 1, "`tls`");
    not("proxy \"127.0.0.1:9180\"", 7, "`proxy` with a server");
    not("proxy \"database\"", 7, "`proxy` with a server");
    not("proxy { discover dns=\"a.test:80\"; }", 9, "`discover`");
    not("proxy { server \"127.0.0.1:1\"; }", 9, "`server`");
    not("proxy { tls ca=\"a.pem\"; }", 13, "`tls ca=`");
    not("mirror \"127.0.0.1:1\"; proxy", 1, "`mirror`");
    not("forward-auth \"http://127.0.0.1:1\"; proxy", 1, "`forward-auth`");
    not("basic-auth file=\"/etc/shadow\"; proxy", 12, "`basic-auth file=`");
    not("error-page 404 file=\"/etc/shadow\"; proxy", 16, "`error-page file=`");
    not("allow \"file:/etc/hosts\"; proxy", 7, "`file:");
    not("route { match client=\"10.0.0.0/8,file:/etc/hosts\"; proxy; }", 22, "`file:");
    not("auth any { jwt jwks=\"/etc/shadow\"; }; proxy", 12, "`jwt`");
}

#[test]
fn top_level_things_are_the_files() {
    let labels = |line: &str| format!("web web 1\ntidegate.config={line}");
    for line in [
        "admin \"0.0.0.0:1\"",
        "listener \":1\"",
        "pool \"a\" { server \"1.1.1.1:1\"; }",
        "include \"x\"",
        "docker",
        "tcp \":1\" { proxy \"a:1\"; }",
    ] {
        let labelled = read(FILE, &[&labels(line)], &LabelMemory::default());
        assert!(labelled.sites.is_empty());
        let is_it = |fault: &super::LabelFault| fault.message.starts_with("labels may not say");
        assert!(labelled.faults.iter().any(is_it), "{line}: {:?}", labelled.faults);
    }
}

#[test]
fn hosts_are_the_files_or_whose_they_were_first() {
    let site = |host: &str| format!("web web 1\ntidegate.site={host}");
    let refused = |host: &str, message: &str| {
        check(&[&site(host)], &[], &[&format!("container web, label tidegate.site:1:1: {message}")]);
    };
    refused("own.test", "the host `own.test` is that of a site of the file, http://own.test:8080");
    refused("a.other.com", "the file does not let containers have a certificate for `a.other.com`");
    refused("http://a.example.com:99", "a label cannot open the port 99");
    refused("https://a.example.com:8080", "on port 8080, plain HTTP is spoken");
    refused(":443", "a label names a host: not an address, and not all hosts");
    refused("10.0.0.1", "a label names a host: not an address, and not all hosts");
    refused("http://unix:/run/x.sock", "a label names a host: not an address, and not all hosts");
    check(&[&site("http://a.other.com")], &["http://a.other.com -> container:web"], &[]);
    check(&[&site("app.localhost")], &["https://app.localhost -> container:web"], &[]);
    check(&[&site("http://app.test:8080")], &["http://app.test:8080 -> container:web"], &[]);
    check(
        &["a a 2\ntidegate.site=x.example.com", "b b 1\ntidegate.site=x.example.com"],
        &["https://x.example.com -> container:b"],
        &[
            "container a, label tidegate.site:1:1: the host `x.example.com` is that of the container b, and not of a: who had it first has it",
        ],
    );
    check_in(
        "docker\nsite \"http://*.test\" { respond 200; }",
        &["a a 2\ntidegate.site=http://x.test"],
        &[],
        &["container a, label tidegate.site:1:1: the host `x.test` is one of the file's site http://*.test"],
    );
}

#[test]
fn who_has_a_host_keeps_it_while_it_is_replaced() {
    let memory = read(FILE, &["a a 1\ntidegate.site=x.example.com"], &LabelMemory::default()).into_memory();
    let later = ["a a 9\ntidegate.site=x.example.com", "b b 2\ntidegate.site=x.example.com"];
    let labelled = read(FILE, &later, &memory);
    assert_eq!(labelled.sites.iter().map(|site| shown(site)).collect::<Vec<_>>(), ["https://x.example.com -> container:a"]);
}

#[test]
fn a_project_shares_its_hosts_by_paths() {
    check(
        &[
            "shop/web web 1\ntidegate.site=a.example.com",
            "shop/api api 2\ntidegate.site=a.example.com\ntidegate.route=/api/*",
            "shop/v2 v2 3\ntidegate.site=a.example.com\ntidegate.route=/api/v2/* /v2/*",
            "shop/up up 4\ntidegate.site=a.example.com\ntidegate.route=/api/v2/up",
        ],
        &[
            "https://a.example.com -> /api/v2/up container:shop/up, /api/v2/* /v2/* container:shop/v2, /api/* container:shop/api, container:shop/web",
        ],
        &[],
    );
    check(
        &["shop/web web 1\ntidegate.site=a.example.com", "shop/other other 2\ntidegate.site=a.example.com"],
        &["https://a.example.com -> container:shop/web"],
        &[
            "container other, label tidegate.site:1:1: on `a.example.com`, all of it is that of the container web, and not of other",
        ],
    );
}

#[test]
fn containers_of_one_service_say_the_same() {
    check(
        &["shop/web web-1 1\ntidegate.site=a.example.com", "shop/web web-2 2\ntidegate.site=b.example.com"],
        &["https://a.example.com -> container:shop/web"],
        &[
            "container web-2, label tidegate.site:1:1: the container web-2 says otherwise than web-1, which does the same work and is older",
        ],
    );
    check(
        &["shop/web web-1 1\ntidegate.site=a.example.com\ntidegate.weight=3", "shop/web web-2 2\ntidegate.site=a.example.com"],
        &["https://a.example.com -> container:shop/web"],
        &[],
    );
}

#[test]
fn what_was_read_is_not_read_again() {
    let containers = ["a a 1\ntidegate.site=a.example.com", "b b 1\ntidegate.site=b.example.com"];
    let first = read(FILE, &containers[..1], &LabelMemory::default());
    let known = first.sites[0].clone();
    let second = read(FILE, &containers, &first.into_memory());
    assert!(second.sites.iter().any(|site| std::sync::Arc::ptr_eq(site, &known)));
}

#[test]
fn no_label_makes_it_panic() {
    bolero::check!().with_type::<(String, String, String)>().for_each(|(name, value, config): &(String, String, String)| {
        let mut one = container("shop/web web 1");
        one.labels = [
            (format!("tidegate.{name}"), value.clone()),
            ("tidegate.site".to_owned(), value.clone()),
            ("tidegate.config".to_owned(), config.clone()),
        ]
        .into();
        let file = file("docker { allow \"*.example.com\"; }");
        let groups = ContainerGroups::new(vec![one]);
        let _ = read_labels(&groups, file.containers.as_ref().expect("there"), &file, &LabelMemory::default());
    });
}

/// `NAME=value`, one a line, as the environment of a container `web` with these ports.
fn with_variables(ports: &[u16], text: &str) -> Container {
    let mut one = container("web web 1");
    let variables = text.lines().filter_map(|line| line.trim().split_once('='));
    one.variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    one.ports = ports.to_vec();
    one
}

fn check_variables(ports: &[u16], variables: &str, sites: &[&str], faults: &[&str]) {
    let file = file("docker labels=\"nginx-proxy\" { allow \"*.example.com\"; }");
    let groups = ContainerGroups::new(vec![with_variables(ports, variables)]);
    let settings = file.containers.as_ref().expect("`docker` stands there");
    let labelled = read_labels(&groups, settings, &file, &LabelMemory::default());
    let seen: Vec<String> = labelled.sites.iter().map(|site| shown(site)).collect();
    let found: Vec<String> = labelled.faults.iter().map(|fault| format!("{}: {}", fault.place, fault.message)).collect();
    assert_eq!((seen, found), (owned(sites), owned(faults)), "for {variables}");
}

#[test]
fn variables_of_nginx_proxy_are_read_as_they_are() {
    let check = |variables: &str, sites: &[&str]| check_variables(&[3000], variables, sites, &[]);
    check("VIRTUAL_HOST=a.example.com", &["http://a.example.com -> container:web"]);
    check(
        "VIRTUAL_HOST=a.example.com,b.example.com\nLETSENCRYPT_HOST=A.example.com\nLETSENCRYPT_EMAIL=me@example.com\nVIRTUAL_PORT=8080",
        &["http://b.example.com https://a.example.com -> container:web:8080"],
    );
    check(
        "VIRTUAL_HOST=a.example.com\nLETSENCRYPT_HOST=a.example.com\nHTTPS_METHOD=noredirect\nVIRTUAL_PROTO=https",
        &["http://a.example.com https://a.example.com -> container:https://web"],
    );
    check(
        "VIRTUAL_HOST=a.example.com\nLETSENCRYPT_HOST=a.example.com\nHTTPS_METHOD=nohttps",
        &["http://a.example.com -> container:web"],
    );
    check(
        "VIRTUAL_HOST=a.example.com\nVIRTUAL_PATH=/app/\nVIRTUAL_DEST=/\nNETWORK_ACCESS=internal",
        &["http://a.example.com -> /app/* container:web +2"],
    );
    check("VIRTUAL_HOST=a.example.com\nVIRTUAL_PATH=/app\nVIRTUAL_DEST=/x", &["http://a.example.com -> /app/* container:web +2"]);
    check("LETSENCRYPT_HOST=a.example.com", &[]);
    check_variables(&[80, 443], "VIRTUAL_HOST=a.example.com", &["http://a.example.com -> container:web:80"], &[]);
}

#[test]
fn variables_of_nginx_proxy_that_are_not_read_serve_nothing_half() {
    let check =
        |variables: &str, fault: &str| check_variables(&[80], &format!("VIRTUAL_HOST=a.example.com\n{variables}"), &[], &[fault]);
    check("CERT_NAME=a", "container web, variable CERT_NAME:1:1: `CERT_NAME` is not read");
    check("VIRTUAL_PROTO=fastcgi", "container web, variable VIRTUAL_PROTO:1:1: `fastcgi` is not spoken with containers here");
    check("VIRTUAL_PORT=0", "container web, variable VIRTUAL_PORT:1:1: `0` is no port");
    check("NETWORK_ACCESS=lan", "container web, variable NETWORK_ACCESS:1:1: `lan` is no access");
    check("HTTPS_METHOD=yes", "container web, variable HTTPS_METHOD:1:1: `yes` is no way of HTTPS");
    check_variables(
        &[80],
        "VIRTUAL_HOST=~^a\\.",
        &[],
        &[
            "container web, variable VIRTUAL_HOST:1:1: `~^a\\.` is a pattern, and hosts are names here",
            "container web, variable VIRTUAL_HOST:1:1: the site has no address",
        ],
    );
}

const TRAEFIK: &str = "docker labels=\"traefik\" { allow \"*.example.com\"; }";

fn check_traefik(labels: &str, sites: &[&str], faults: &[&str]) {
    check_in(TRAEFIK, &[&format!("shop/web web 1\n{labels}")], sites, faults);
}

#[test]
fn labels_of_traefik_are_read_as_they_are() {
    check_traefik(
        "traefik.enable=true\ntraefik.http.routers.web.rule=Host(`a.example.com`)\ntraefik.http.routers.web.entrypoints=websecure\ntraefik.http.routers.web.tls.certresolver=le",
        &["https://a.example.com -> container:shop/web:80"],
        &[],
    );
    check_traefik(
        "traefik.http.routers.web.rule=Host(`a.example.com`) && PathPrefix(`/api`)\ntraefik.http.routers.web.entrypoints=web\ntraefik.http.services.web.loadbalancer.server.port=8080\ntraefik.http.routers.web.middlewares=strip\ntraefik.http.middlewares.strip.stripprefix.prefixes=/api",
        &["http://a.example.com -> /api/* container:shop/web:8080 +2"],
        &["container web, label traefik.http.routers.web.rule:1:1: this is not quite the same here"],
    );
    check_traefik(
        "traefik.http.routers.web.rule=Host(`a.example.com`)\ntraefik.http.routers.web.tls=true\ntraefik.http.routers.web.middlewares=auth@docker, secure\ntraefik.http.middlewares.auth.basicauth.users=alice:$2y$05$nJw8RzL0nBzLRMNsMNPGDOBTLJMKTYxrYtIUhKjr0HTRFCqYSyVoS\ntraefik.http.middlewares.secure.headers.stsseconds=60\ntraefik.http.middlewares.unused.forwardauth.address=http://x",
        &["https://a.example.com +2 -> container:shop/web:80"],
        &[],
    );
    check_traefik("traefik.enable=false\ntraefik.http.routers.web.rule=Host(`a.example.com`)", &[], &[]);
    // The redirect to HTTPS is there without a word.
    check_traefik(
        "traefik.http.routers.web.rule=Host(`a.example.com`)\ntraefik.http.routers.web.entrypoints=websecure\ntraefik.http.routers.plain.rule=Host(`a.example.com`)\ntraefik.http.routers.plain.entrypoints=web\ntraefik.http.routers.plain.middlewares=sec\ntraefik.http.middlewares.sec.redirectscheme.scheme=https",
        &["http://a.example.com -> redirect", "https://a.example.com -> container:shop/web:80"],
        &[],
    );
}

#[test]
fn routers_of_traefik_go_by_priority_and_stand_each_for_itself() {
    check_traefik(
        "traefik.http.routers.all.rule=Host(`a.example.com`)\ntraefik.http.routers.all.entrypoints=web\ntraefik.http.routers.all.service=s\ntraefik.http.routers.api.rule=Host(`a.example.com`) && Path(`/api`)\ntraefik.http.routers.api.entrypoints=web\ntraefik.http.routers.api.service=t\ntraefik.http.services.s.loadbalancer.server.port=1\ntraefik.http.services.t.loadbalancer.server.port=2\ntraefik.http.routers.bad.rule=Host(`b.example.com`)\ntraefik.http.routers.bad.entrypoints=web\ntraefik.http.routers.bad.service=s\ntraefik.http.routers.bad.middlewares=sso\ntraefik.http.middlewares.sso.forwardauth.address=http://sso:1",
        &["http://a.example.com -> /api container:shop/web:2, container:shop/web:1"],
        &[
            "container web, label traefik.http.routers.bad.rule:1:1: labels may not say `forward-auth`: it has the proxy ask an address of the label's choice",
        ],
    );
}

#[test]
fn what_is_not_understood_of_traefik_is_told_with_what_was_meant() {
    let check = |labels: &str, place: &str, message: &str, help: &str| {
        let labelled = read(TRAEFIK, &[&format!("web web 1\n{labels}")], &LabelMemory::default());
        assert!(labelled.sites.is_empty(), "{labels}");
        let is_it = |fault: &super::LabelFault| {
            fault.place == format!("container web, label traefik.{place}:1:1")
                && fault.message == message
                && fault.help.as_deref().is_some_and(|said| said.contains(help))
        };
        assert!(labelled.faults.iter().any(is_it), "{labels}: {:#?}", labelled.faults);
    };
    check(
        "traefik.http.routers.a.rul=Host(`a.example.com`)",
        "http.routers.a.rul",
        "the router `a` has no rule",
        "did you mean `rule`",
    );
    check(
        "traefik.htpp.routers.a.rule=Host(`a.example.com`)",
        "htpp.routers.a.rule",
        "`traefik.htpp.routers.a.rule` is not read, so no router of the container is served",
        "did you mean `traefik.http`?",
    );
    check(
        "traefik.http.routers.a.rule=Host(`a.example.com`)\ntraefik.http.routers.a.middlewars=auth",
        "http.routers.a.middlewars",
        "nothing here does what `middlewars` says, so its router is not served",
        "did you mean `middlewares`?",
    );
    check(
        "traefik.http.routers.a.rule=PathPrefix(`/`)",
        "http.routers.a.rule",
        "the rule of the router `a` names no host",
        "may not take all hosts",
    );
    check(
        "traefik.http.routers.a.rule=HostRegexp(`.+`)",
        "http.routers.a.rule",
        "the rule of the router `a` names no host",
        "may not take all hosts",
    );
    check(
        "traefik.http.routers.a.rule=HostRegexp(`^[0-9]+\\.example\\.com$`)",
        "http.routers.a.rule",
        "the router `a` is not understood",
        "tidegate.site",
    );
    check(
        "traefik.http.routers.a.rule=Host(`a.example.com`)\ntraefik.http.routers.a.middlewares=auth@file",
        "http.routers.a.middlewares",
        "`auth@file` stands in a file of Traefik, which is not read here, so its router is not served",
        "discover container=",
    );
    check(
        "traefik.tcp.routers.a.rule=HostSNI(`*`)",
        "tcp.routers.a.rule",
        "`traefik.tcp.routers.a.rule` is not read",
        "`tcp` in the file",
    );
}

#[test]
fn no_label_of_traefik_makes_it_panic() {
    bolero::check!().with_type::<(String, String, String)>().for_each(|(key, value, rule): &(String, String, String)| {
        let mut one = container("shop/web web 1");
        one.labels = [
            (format!("traefik.http.routers.a.{key}"), value.clone()),
            (format!("traefik.http.{key}"), rule.clone()),
            ("traefik.http.routers.a.rule".to_owned(), format!("Host(`{rule}`)")),
            ("traefik.http.routers.b.rule".to_owned(), value.clone()),
        ]
        .into();
        let file = file(TRAEFIK);
        let groups = ContainerGroups::new(vec![one]);
        let _ = read_labels(&groups, file.containers.as_ref().expect("there"), &file, &LabelMemory::default());
    });
}

/// Kinds of labels that the tests of Traefik itself put on containers, in words of our own.
#[test]
fn labels_as_the_tests_of_traefik_have_them() {
    // Words in any case.
    check_traefik(
        "traefik.http.Routers.Big.Rule=Host(`big.test`)\ntraefik.http.Routers.Big.EntryPoints=web\ntraefik.http.Services.big.LoadBalancer.server.Port=2375",
        &["http://big.test -> container:shop/web:2375"],
        &[],
    );
    // A router without entry points is over TLS, by a certificate that somebody has to permit.
    check_traefik("traefik.http.routers.r.rule=Host(`a.example.com`)", &["https://a.example.com -> container:shop/web:80"], &[]);
    // Connections, what is of nobody, and what the engine's part says.
    check_traefik(
        "traefik.tcp.Routers.R.Rule=HostSNI(`a.test`)\ntraefik.tcp.Routers.R.tls=true",
        &[],
        &[
            "container web, label traefik.tcp.Routers.R.Rule:1:1: `traefik.tcp.Routers.R.Rule` is not read",
            "container web, label traefik.tcp.Routers.R.tls:1:1: `traefik.tcp.Routers.R.tls` is not read",
        ],
    );
    check_traefik(
        "traefik.random.value=a.test",
        &[],
        &[
            "container web, label traefik.random.value:1:1: `traefik.random.value` is not read, so no router of the container is served",
        ],
    );
    check_traefik(
        "traefik.docker.visiblewhennotrunning=true\ntraefik.http.routers.r.rule=Host(`a.test`)\ntraefik.http.routers.r.entrypoints=web",
        &["http://a.test -> container:shop/web:80"],
        &[],
    );
    // Lists of addresses: by the connection, and by what a proxy in front says, which is the listener's to decide.
    let listed = |more: &str| {
        format!(
            "traefik.enable=true\ntraefik.http.routers.r.rule=Host(`a.test`)\ntraefik.http.routers.r.entrypoints=web\ntraefik.http.routers.r.middlewares=m\ntraefik.http.middlewares.m.ipallowlist.sourceRange=192.0.2.1{more}"
        )
    };
    check_traefik(&listed(""), &["http://a.test +1 -> container:shop/web:80"], &[]);
    for more in ["depth=3", "excludedIPs=10.0.0.1,10.0.0.2"] {
        let labels = listed(&format!("\ntraefik.http.middlewares.m.ipallowlist.ipStrategy.{more}"));
        let labelled = read(TRAEFIK, &[&format!("shop/web web 1\n{labels}")], &LabelMemory::default());
        assert!(labelled.sites.is_empty(), "who may come in must not be served half: {more}");
        assert!(
            labelled.faults.iter().all(|fault| fault.message.contains("so its router is not served")),
            "{:#?}",
            labelled.faults
        );
    }
    // Of all hosts, what a file of Traefik says, and version 1.
    for (labels, fault) in [
        ("traefik.http.routers.r.rule=PathPrefix(`/foo`)", "names no host"),
        ("traefik.http.routers.r.rule=Host(`a.test`)\ntraefik.http.routers.r.middlewares=p@file", "so its router is not served"),
        ("traefik.frontend.rule=Host:a.test", "`traefik.frontend.rule` is not read"),
    ] {
        let labelled = read(TRAEFIK, &[&format!("shop/web web 1\n{labels}")], &LabelMemory::default());
        assert!(labelled.sites.is_empty(), "{labels}");
        assert!(labelled.faults.iter().any(|one| one.message.contains(fault)), "{labels}: {:#?}", labelled.faults);
    }
}
