//! Single words of Traefik's labels: entry points, redirects, ports, quotes and the names of middlewares.

use super::{check_in, check_traefik};

/// A router `a` of `a.example.com`, with these labels more, of which `NAME.` is short for `traefik.http.routers.NAME.`.
fn labels(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines =
        lines.map(|line| if line.starts_with("traefik.") { line.to_owned() } else { format!("traefik.http.routers.{line}") });
    format!("traefik.http.routers.a.rule=Host(`a.example.com`)\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn fault(of: &str, message: &str) -> String {
    format!("container web, label traefik.http.{of}:1:1: {message}")
}

const REDIRECT: &str =
    "traefik.http.middlewares.r.redirectscheme.scheme=https\ntraefik.http.middlewares.r.redirectscheme.permanent=true";
const PORT: &str = "traefik.http.services.a.loadbalancer.server.port=3000";

/// In a file that puts both doors elsewhere.
fn check_moved(text: &str, sites: &[&str], faults: &[&str]) {
    let file = "docker labels=\"traefik\" { allow \"*.example.com\"; entry-point \"web\" 8080; entry-point \"websecure\" 8443; }";
    check_in(file, &[&format!("shop/web web 1\n{}", labels(text))], sites, faults);
}

#[test]
fn a_redirect_beside_the_router_is_what_it_says() {
    let two = format!(
        "a.entrypoints=websecure\na.tls=true\nb.rule=Host(`a.example.com`)\nb.entrypoints=web\nb.middlewares=r\n{REDIRECT}\n{PORT}"
    );
    check_traefik(&labels(&two), &["http://a.example.com -> redirect", "https://a.example.com -> container:shop/web:3000"], &[]);
    check_moved(&two, &["http://a.example.com:8080 -> redirect", "https://a.example.com:8443 -> container:shop/web:3000"], &[]);
    let one = format!("a.entrypoints=web,websecure\na.middlewares=r\n{REDIRECT}\n{PORT}");
    check_traefik(&labels(&one), &["https://a.example.com -> container:shop/web:3000"], &[]);
    check_moved(&one, &["http://a.example.com:8080 -> redirect", "https://a.example.com:8443 -> container:shop/web:3000"], &[]);
}

#[test]
fn an_entry_point_that_nobody_knows_opens_nothing() {
    let unknown =
        |name: &str| fault("routers.a.entrypoints", &format!("there is no entry point `{name}`, so its router is not served"));
    check_traefik(&labels("a.entrypoints=secure"), &[], &[&unknown("secure")]);
    check_traefik(&labels("a.entrypoints=websecure, webb"), &[], &[&unknown("webb")]);
    // Where the file has put it elsewhere, no other name of it opens the usual port.
    check_moved("a.entrypoints=https", &[], &[&unknown("https")]);
    check_moved("a.entrypoints=websecure", &["https://a.example.com:8443 -> container:shop/web:80"], &[]);
    let file = "docker labels=\"traefik\" { allow \"*.example.com\"; entry-point \"web\" 8080; }";
    let web = format!("shop/web web 1\n{}", labels("a.entrypoints=websecure"));
    check_in(file, &[&web], &["https://a.example.com -> container:shop/web:80"], &[]);
    let file = super::file(file);
    let groups = tidegate_model::ContainerGroups::new(vec![super::container(&web)]);
    let settings = file.containers.as_ref().expect("there");
    let labelled = crate::labels::read_labels(&groups, settings, &file, &crate::labels::LabelMemory::default());
    assert!(!labelled.sites[0].addresses[0].redirect_from_http, "port 80 is not one of those that there are");
}

#[test]
fn what_has_to_be_a_number_is_one() {
    let port = |value: &str| {
        let message = fault("services.a.loadbalancer.server.port", &format!("`{value}` is no port, so its router is not served"));
        check_traefik(&labels(&format!("a.entrypoints=web\n{}", PORT.replace("3000", value))), &[], &[&message]);
    };
    port("http");
    port("300O");
    port("0");
    check_traefik(
        &labels("a.entrypoints=web\na.priority=high"),
        &[],
        &[&fault("routers.a.priority", "`high` is no priority, so its router is not served")],
    );
}

#[test]
fn quotes_that_are_part_of_a_value_are_told_of() {
    let quotes = |key: &str| fault(key, "the \" is part of the value");
    check_traefik("traefik.http.routers.a.rule=\"Host(`a.example.com`)\"", &[], &[&quotes("routers.a.rule")]);
    check_traefik(&labels("a.entrypoints=\"web\""), &[], &[&quotes("routers.a.entrypoints")]);
    check_traefik(
        &labels(&format!("a.entrypoints=web\n{}", PORT.replace("3000", "\"3000\""))),
        &[],
        &[&quotes("services.a.loadbalancer.server.port")],
    );
    check_traefik(
        &labels("a.entrypoints=web\ntraefik.enable=\"true\""),
        &[],
        &["container web, label traefik.enable:1:1: the \" is part of the value"],
    );
    check_traefik(
        &labels("a.entrypoints=web\ntraefik.enable=yes"),
        &[],
        &[
            "container web, label traefik.enable:1:1: `yes` is neither `true` nor `false`, so no router of the container is served",
        ],
    );
    // Fields of answers have quotes of their own.
    check_traefik(
        &labels("a.entrypoints=web\na.middlewares=h\ntraefik.http.middlewares.h.headers.customresponseheaders.X-Kind=\"a\""),
        &["http://a.example.com +1 -> container:shop/web:80"],
        &[],
    );
}

#[test]
fn a_middleware_that_is_not_there_is_named_with_where_it_is() {
    let check = |list: &str, message: &str| {
        let labels =
            labels(&format!("a.entrypoints=web\na.middlewares={list}\ntraefik.http.middlewares.slow.ratelimit.average=10"));
        check_traefik(&labels, &[], &[&fault("routers.a.middlewares", &format!("{message}, so its router is not served"))]);
    };
    check("secheaders@file,slow", "`secheaders@file` stands in a file of Traefik, which is not read here");
    check("slow,slwo", "no label of the project says what the middleware `slwo` does");
    check("auth@kubernetescrd", "`auth@kubernetescrd` is of Traefik's provider `kubernetescrd`, which is not here");
    check(
        "a@file,b",
        "`a@file` stands in a file of Traefik, which is not read here; no label of the project says what the middleware `b` does",
    );
}

#[test]
fn containers_that_say_nothing_of_it_are_as_the_file_says() {
    let file = |more: &str| format!("docker labels=\"traefik\" {more}{{ allow \"*.example.com\"; }}");
    let web = format!("shop/web web 1\n{}", labels("a.entrypoints=web"));
    let served = ["http://a.example.com -> container:shop/web:80"];
    check_in(&file(""), &[&web], &served, &[]);
    check_in(&file("exposed-by-default=#false "), &[&web], &[], &[]);
    check_in(&file("exposed-by-default=#false "), &[&format!("{web}\ntraefik.enable=true")], &served, &[]);
}

/// A container for which Traefik would make a router by a rule that no label says.
#[test]
fn a_container_without_a_rule_is_told() {
    let check = |labels: &str, of: &[&str]| {
        let faults: Vec<String> = of
            .iter()
            .map(|label| {
                format!(
                    "container web, label traefik.{label}:1:1: no rule: Traefik's default rule is not known here, so no router of the container is served"
                )
            })
            .collect();
        check_traefik(labels, &[], &faults.iter().map(String::as_str).collect::<Vec<_>>());
    };
    check("traefik.enable=true", &["enable"]);
    check("traefik.enable=true\ntraefik.docker.network=proxy", &["enable"]);
    check("traefik.http.services.s.loadbalancer.server.port=80", &["http.services.s.loadbalancer.server.port"]);
    check("traefik.enable=true\ntraefik.http.middlewares.m.compress=true", &["enable"]);
    // What Traefik makes no router for, and what is on a container for others alone.
    check("traefik.enable=false\ntraefik.http.services.s.loadbalancer.server.port=80", &[]);
    check("traefik.docker.network=proxy", &[]);
    check("traefik.http.middlewares.m.compress=true", &[]);
    let tcp = super::read(
        super::TRAEFIK,
        &["shop/db db 1\ntraefik.enable=true\ntraefik.tcp.routers.r.rule=HostSNI(`*`)"],
        &super::LabelMemory::default(),
    );
    let told: Vec<&str> = tcp.faults.iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(told, ["`traefik.tcp.routers.r.rule` is not read"]);
}

/// Which groups of containers ask for a site, and of which something is served.
#[test]
fn what_no_site_and_no_pool_has_is_not_served() {
    let file = "docker labels=\"traefik\" labels=\"tidegate\" { allow \"*.example.com\"; }\n\
                site \"http://own.test:8080\" { proxy { discover container=\"shop/api\"; }; route \"/x\" { proxy { discover docker=\"blue\"; }; }; }";
    let router = |name: &str, more: &str| {
        format!("shop/{name} {name} 1\ntraefik.http.routers.{name}.rule=Host(`{name}.example.com`)\n{more}")
    };
    let labelled = super::read(
        file,
        &[
            &router("web", ""),
            &router("bad", "traefik.http.routers.bad.middlewares=gone"),
            "shop/db db 1\ntraefik.enable=true\ntraefik.tcp.routers.r.rule=HostSNI(`*`)",
            "shop/off off 1\ntraefik.enable=false",
            "shop/api api 1\ntraefik.enable=false",
            "blue blue 1\ntidegate.pool=blue\ntidegate.port=80",
            "green green 1\ntidegate.pool=green\ntidegate.port=80",
        ],
        &super::LabelMemory::default(),
    );
    let asking: Vec<&str> = labelled.asking.iter().map(String::as_str).collect();
    let served: Vec<&str> = labelled.served.iter().map(String::as_str).collect();
    assert_eq!((asking, served), (vec!["shop/bad", "shop/web"], vec!["blue", "shop/api", "shop/web"]));
}
