//! What a refused router or route names is not served by another one of its host.

use super::{TRAEFIK, check, check_in, container, file, shown};
use crate::labels::{LabelMemory, read_labels};
use tidegate_model::{Container, ContainerGroups};

/// Sites alone, of containers as [`container`] reads them.
fn sites(file_text: &str, containers: &[&str]) -> Vec<String> {
    let file = file(file_text);
    let groups = ContainerGroups::new(containers.iter().map(|text| container(text)).collect());
    let settings = file.containers.as_ref().expect("`docker` stands there");
    read_labels(&groups, settings, &file, &LabelMemory::default()).sites.iter().map(|site| shown(site)).collect()
}

/// A router `wide` of all of `a.example.com`, and beside it the labels of others, of which `NAME.` is short for
/// `traefik.http.routers.NAME.`.
fn beside_wide(labels: &str) -> Vec<String> {
    let wide = "traefik.http.routers.wide.rule=Host(`a.example.com`)\ntraefik.http.routers.wide.entrypoints=websecure";
    let labels = labels
        .lines()
        .map(|line| if line.starts_with("traefik.") { line.to_owned() } else { format!("traefik.http.routers.{line}") });
    let labels = labels.collect::<Vec<_>>().join("\n");
    sites(
        TRAEFIK,
        &[&format!(
            "shop/web web 1\n{wide}\ntraefik.http.routers.wide.service=s\ntraefik.http.services.s.loadbalancer.server.port=80\n{labels}"
        )],
    )
}

const SHUT: &str = "https://a.example.com -> /ghost* SHUT router_refused/b, container:shop/web:80";

#[test]
fn a_refused_router_shuts_its_path_beside_the_wider_one() {
    let rule = "b.rule=Host(`a.example.com`) && PathPrefix(`/ghost`)\nb.service=s\n";
    for labels in [
        // Of Traefik's file, of nobody, and of what labels may not say.
        "b.entrypoints=websecure\nb.middlewares=auth@file",
        "b.entrypoints=websecure\nb.middlewares=nobody",
        "b.entrypoints=websecure\nb.middlewares=m\ntraefik.http.middlewares.m.forwardauth.address=http://127.0.0.1:1/",
        "b.entrypoints=websecure\nb.middlewares=m\ntraefik.http.middlewares.m.basicauth.usersfile=/etc/users",
        "b.entrypoints=websecure\nb.middlewares=c\ntraefik.http.middlewares.c.chain.middlewares=gone",
        "b.middlewars=m",
        // The entry point, the port.
        "b.entrypoints=secure",
        "b.entrypoints=websecure\nb.service=t\ntraefik.http.services.t.loadbalancer.server.port=http",
    ] {
        let labels = format!("{rule}{labels}");
        let labels = if labels.contains("b.service=t") { labels.replacen("b.service=s\n", "", 1) } else { labels };
        assert_eq!(beside_wide(&labels), [SHUT], "{labels}");
    }
}

#[test]
fn it_is_shut_exactly_where_its_priority_says_so() {
    let b = |more: &str| {
        format!(
            "b.rule=Host(`a.example.com`) && PathPrefix(`/ghost`)\nb.service=s\nb.entrypoints=websecure\nb.middlewares=no\n{more}"
        )
    };
    let open = "https://a.example.com -> container:shop/web:80";
    assert_eq!(beside_wide(&b("b.priority=1000")), [SHUT]);
    assert_eq!(beside_wide(&b("wide.priority=1000")), [open]);
    assert_eq!(beside_wide(&b("b.priority=-1")), [open]);
    // A router that goes before it is served, and one behind it is not asked about what it takes.
    assert_eq!(
        beside_wide(&b(
            "c.rule=Host(`a.example.com`) && PathPrefix(`/ghost/and/some/more`)\nc.service=s\nc.entrypoints=websecure"
        )),
        [
            "https://a.example.com -> /ghost/and/some/more* container:shop/web:80, /ghost* SHUT router_refused/b, container:shop/web:80"
        ]
    );
    // A priority that is no number may be any.
    assert_eq!(beside_wide(&b("b.priority=first")), ["https://a.example.com -> SHUT router_refused/b"]);
}

#[test]
fn what_cannot_be_read_shuts_the_hosts_that_it_names_or_all() {
    let all = ["https://a.example.com -> SHUT router_refused/b"];
    assert_eq!(beside_wide("b.rule=Host(`a.example.com`) && Nonsense(`/ghost`)\nb.service=s\nb.entrypoints=websecure"), all);
    assert_eq!(
        beside_wide("b.rule=HostRegexp(`^[a-z]+\\.example\\.com$`) && Path(`/ghost`)\nb.service=s\nb.entrypoints=websecure"),
        all
    );
    assert_eq!(beside_wide("b.rul=Host(`a.example.com`) && Path(`/ghost`)\nb.service=s\nb.entrypoints=websecure"), all);
    // Of other hosts nothing is known to be shut, and a router without a rule is for its container's name.
    let open = ["https://a.example.com -> container:shop/web:80"];
    assert_eq!(beside_wide("b.service=s\nb.entrypoints=websecure"), open);
    assert_eq!(beside_wide("b.rule=Host(`b.example.com`\nb.service=s\nb.entrypoints=websecure"), open);
    assert_eq!(beside_wide("b.rule=Host(`b.example.com`) || Nonsense(`/`)\nb.service=s\nb.entrypoints=websecure"), all);
    // What goes before a rule that is not understood is served.
    assert_eq!(
        beside_wide(
            "b.rule=Host(`a.example.com`) && Nonsense(`/`)\nb.service=s\nc.rule=Host(`a.example.com`) && PathPrefix(`/very/long/indeed`)\nc.service=s\nc.entrypoints=websecure"
        ),
        ["https://a.example.com -> /very/long/indeed* container:shop/web:80, SHUT router_refused/b"]
    );
    // Of no host, so of all that the project has.
    assert_eq!(
        beside_wide("b.rule=PathPrefix(`/ghost`) && Method(`GET`,`POST`)\nb.service=s\nb.middlewares=m\nb.entrypoints=websecure"),
        [SHUT]
    );
}

#[test]
fn labels_that_may_be_of_any_router_shut_all_of_them() {
    let b = "b.rule=Host(`a.example.com`) && PathPrefix(`/ghost`)\nb.entrypoints=websecure\nb.service=s";
    let other = "shop/other other 2\ntraefik.http.routers.other.rule=Host(`a.example.com`) && Path(`/`)\ntraefik.http.routers.other.entrypoints=websecure";
    for slip in [
        "traefik.htpp.routers.b.middlewares=auth",
        "traefik.http.router.b.middlewares=auth",
        "\"traefik.http.routers.b.middlewares=auth",
        "traefik.enable=\"true\"",
    ] {
        let labels: Vec<String> = b.lines().map(|line| format!("traefik.http.routers.{line}")).collect();
        let web = format!("shop/web web 1\n{}\n{slip}", labels.join("\n"));
        assert_eq!(
            sites(TRAEFIK, &[&web, other]),
            ["https://a.example.com -> /ghost* SHUT router_refused/b, / container:shop/other:80"],
            "{slip}"
        );
    }
    let misspelt = "shop/web web 1\ntraefik.htpp.routers.b.rule=Host(`a.example.com`) && PathPrefix(`/ghost`)";
    let shut = "https://a.example.com -> SHUT router_refused/web";
    assert_eq!(sites(TRAEFIK, &[misspelt, other]), [shut]);
    assert_ne!(sites(TRAEFIK, &[&misspelt.replace("a.example", "b.example"), other]), [shut]);
}

#[test]
fn refused_by_the_file_or_by_others_it_is_shut_all_the_same() {
    // One host of it is not for containers, so the router is refused, and not open at the other.
    assert_eq!(
        beside_wide(
            "b.rule=(Host(`a.example.com`) || Host(`bank.example.org`)) && PathPrefix(`/ghost`)\nb.entrypoints=websecure\nb.service=s\nb.middlewares=m\ntraefik.http.middlewares.m.ipallowlist.sourcerange=10.0.0.0/8"
        ),
        [SHUT]
    );
    // Another project shuts nothing here.
    let wide = "shop/web web 1\ntraefik.http.routers.w.rule=Host(`a.example.com`)\ntraefik.http.routers.w.entrypoints=websecure";
    let thief = "bad/web bad 2\ntraefik.http.routers.b.rule=Host(`a.example.com`) && PathPrefix(`/x`)\ntraefik.http.routers.b.entrypoints=websecure\ntraefik.http.routers.b.middlewares=no";
    let open = ["https://a.example.com -> container:shop/web:80"];
    assert_eq!(sites(TRAEFIK, &[wide, thief]), open);
    assert_eq!(sites(TRAEFIK, &[wide, "bad/web bad 2\ntraefik.http.routers.b.rule=Nonsense(`a.example.com`)"]), open);
    // Where nobody serves the host, nothing is opened for it.
    assert!(sites(TRAEFIK, &[thief]).is_empty());
}

#[test]
fn one_of_many_hosts_is_looked_at_beside_those_of_one() {
    let router = |name: &str, rule: &str, more: &str| {
        format!(
            "shop/{name} {name} 1\ntraefik.http.routers.{name}.rule={rule}\ntraefik.http.routers.{name}.entrypoints=websecure\n{more}"
        )
    };
    let many = "HostRegexp(`^.+\\.example\\.com$`)";
    let one = router("one", "Host(`a.example.com`)", "");
    // Refused, it shuts its path for the one host as well.
    let refused = router("many", &format!("{many} && PathPrefix(`/ghost`)"), "traefik.http.routers.many.middlewares=no");
    assert_eq!(
        sites(TRAEFIK, &[&one, &refused]),
        ["https://a.example.com -> /ghost* SHUT router_refused/many, container:shop/one:80"]
    );
    // Served, its log-in is that of the one host too.
    let users = "traefik.http.routers.many.middlewares=m\ntraefik.http.middlewares.m.basicauth.users=a:$2y$05$nJw8RzL0nBzLRMNsMNPGDOBTLJMKTYxrYtIUhKjr0HTRFCqYSyVoS";
    let served = router("many", &format!("{many} && PathPrefix(`/ghost`)"), users);
    assert_eq!(
        sites(TRAEFIK, &[&one, &served]),
        [
            "https://*.example.com -> /ghost* container:shop/many:80 +1",
            "https://a.example.com -> /ghost* container:shop/many:80 +1, container:shop/one:80"
        ]
    );
    // One host of many is shut within the site of them.
    let all = router("all", many, "");
    let refused =
        router("one", "Host(`a.example.com`) && PathPrefix(`/ghost/and/more`)", "traefik.http.routers.one.middlewares=no");
    assert_eq!(
        sites(TRAEFIK, &[&all, &refused]),
        ["https://*.example.com -> /ghost/and/more* SHUT router_refused/one, container:shop/all:80"]
    );
}

#[test]
fn a_router_without_entry_points_is_on_all_that_others_open() {
    let users = "traefik.http.middlewares.m.basicauth.users=a:$2y$05$nJw8RzL0nBzLRMNsMNPGDOBTLJMKTYxrYtIUhKjr0HTRFCqYSyVoS";
    let labels = format!(
        "traefik.http.routers.wide.rule=Host(`a.example.com`)\ntraefik.http.routers.wide.entrypoints=web\ntraefik.http.routers.b.rule=Host(`a.example.com`) && PathPrefix(`/ghost`)\ntraefik.http.routers.b.middlewares=m\n{users}"
    );
    let web = format!("shop/web web 1\n{labels}");
    assert_eq!(
        sites(TRAEFIK, &[&web]),
        [
            "http://a.example.com -> /ghost* container:shop/web:80 +1, container:shop/web:80",
            "https://a.example.com -> /ghost* container:shop/web:80 +1"
        ]
    );
    // Over TLS alone, it has no say without.
    let web = format!("{web}\ntraefik.http.routers.b.tls=true");
    assert_eq!(
        sites(TRAEFIK, &[&web]),
        ["http://a.example.com -> container:shop/web:80", "https://a.example.com -> /ghost* container:shop/web:80 +1"]
    );
}

#[test]
fn our_own_labels_shut_what_they_name_as_well() {
    let web = "shop/web web 2\ntidegate.site=a.example.com";
    let told = |part: &str| {
        format!(
            "container api, label tidegate.site:1:1: it is refused, so {part} of `https://a.example.com`, which is served, is answered with 503"
        )
    };
    let shut = |labels: &str, sites: &str, faults: &[&str]| {
        check(&[&format!("shop/api api 1\n{labels}"), web], &[sites], faults);
    };
    shut(
        "tidegate.site=a.example.com\ntidegate.route=/api/*\ntidegate.config=proxy {",
        "https://a.example.com -> /api/* SHUT router_refused/api, container:shop/web",
        &["container api, label tidegate.config:1:7: this block is never closed", &told("`/api/*`")],
    );
    shut(
        "tidegate.site=a.example.com\ntidegate.route=/api/*\ntidegate.port=no",
        "https://a.example.com -> /api/* SHUT router_refused/api, container:shop/web",
        &["container api, label tidegate.port:1:1: `no` is no port", &told("`/api/*`")],
    );
    // A pattern that nobody can read may be any, and so may one whose label is misspelt.
    let shut_as_a_whole = |labels: &str| {
        let seen = sites(super::FILE, &[&format!("shop/api api 1\n{labels}"), web]);
        assert_eq!(seen, ["https://a.example.com -> SHUT router_refused/api"], "{labels}");
    };
    shut_as_a_whole("tidegate.site=a.example.com\ntidegate.route=~^/(");
    shut_as_a_whole("tidegate.site=a.example.com\ntidegate.rout=/api/*");
    shut_as_a_whole("tidegate.site=\"a.example.com\"\ntidegate.route=/api/*");
    shut_as_a_whole("tidegate.site=a.example.com\ntidegate.route=");
    shut_as_a_whole("tidegate.config=site \"a.example.com\" { route \"/api/*\" { deny \"all\"; }");
    shut_as_a_whole(&format!("tidegate.site=a.example.com\ntidegate.config={}", "a".repeat(1 << 17)));
    // A part that two name: who had it first has it, and the rest of the other is shut.
    check_in(
        super::FILE,
        &[
            "shop/web web 1\ntidegate.site=a.example.com\ntidegate.route=/a",
            "shop/all all 2\ntidegate.site=a.example.com",
            "shop/two two 3\ntidegate.site=a.example.com\ntidegate.route=/a /b",
        ],
        &["https://a.example.com -> /b SHUT router_refused/two, /a container:shop/web, container:shop/all"],
        &[
            "container two, label tidegate.site:1:1: it is refused, so `/b` of `https://a.example.com`, which is served, is answered with 503",
            "container two, label tidegate.site:1:1: on `a.example.com`, `/a` is that of the container web, and not of two",
        ],
    );
}

#[test]
fn variables_of_nginx_proxy_shut_what_they_name_as_well() {
    let file = file("docker labels=\"nginx-proxy\" { allow \"*.example.com\"; }");
    let check = |variables: &str, expected: &str| {
        let with = |head: &str, variables: &str| {
            let variables = variables.lines().filter_map(|line| line.split_once('='));
            let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            Container { variables, ..container(head) }
        };
        let host = "VIRTUAL_HOST=a.example.com";
        let groups =
            ContainerGroups::new(vec![with("shop/web web 1", host), with("shop/admin admin 2", &format!("{host}\n{variables}"))]);
        let settings = file.containers.as_ref().expect("`docker` stands there");
        let labelled = read_labels(&groups, settings, &file, &LabelMemory::default());
        let seen: Vec<String> = labelled.sites.iter().map(|site| shown(site)).collect();
        assert_eq!(seen, [expected], "{variables}");
    };
    let shut = "http://a.example.com -> /admin/* SHUT router_refused/admin, container:shop/web";
    check("VIRTUAL_PATH=/admin/\nCERT_NAME=a", shut);
    check("VIRTUAL_PATH=/admin/\nNETWORK_ACCESS=lan", shut);
    check("VIRTUAL_PATH=/admin/\nVIRTUAL_PORT=http", shut);
    check("VIRTUAL_PATH=~^/(a|b)", "http://a.example.com -> SHUT router_refused/admin");
    check("VIRTUAL_PATH=\"/admin/\"", "http://a.example.com -> SHUT router_refused/admin");
}

#[test]
fn middlewares_of_others_are_read_when_they_change() {
    let other = |hash: &str| format!("shop/other other 1\ntraefik.http.middlewares.m.ipallowlist.sourcerange={hash}");
    let web = "shop/web web 1\ntraefik.http.routers.w.rule=Host(`a.example.com`)\ntraefik.http.routers.w.middlewares=m";
    let read = |range: &str, memory: &LabelMemory| super::read(TRAEFIK, &[web, &other(range)], memory);
    let first = read("10.0.0.0/8", &LabelMemory::default());
    let steps = first.sites[0].steps.clone();
    let second = read("192.0.2.0/24", &first.into_memory());
    assert_ne!(second.sites[0].steps, steps, "a list of addresses that has changed is the new one");
}

/// Rules of no host are for every host that there is, of which a label has those of its project, at the port that its
/// entry point has.
#[test]
fn a_router_of_no_host_shuts_its_path_on_all_sites_of_its_project() {
    let project = |rule: &str, middlewares: &str| {
        let routers = [
            ("wide", "Host(`a.example.com`)", ""),
            ("far", "Host(`b.example.com`) && PathPrefix(`/somewhere/else`)", ""),
            ("b", rule, middlewares),
        ];
        let routers = routers.map(|(name, rule, more)| {
            format!("NAME.rule={rule}\nNAME.entrypoints=websecure\nNAME.tls=true\n{more}")
                .replace("NAME", &format!("traefik.http.routers.{name}"))
        });
        format!("shop/web web 1\n{}", routers.join("\n"))
    };
    let guards = [
        "traefik.http.routers.b.middlewares=a\ntraefik.http.middlewares.a.basicauth.users=admin:$apr1$H6uskkkW$IgXLP6ewTrSuBkTrqE8wj/",
        "traefik.http.routers.b.middlewares=gone",
    ];
    let other = "other/web other 1\ntraefik.http.routers.o.rule=Host(`o.example.com`)\ntraefik.http.routers.o.entrypoints=websecure\ntraefik.http.routers.o.tls=true";
    for (file, port) in
        [(TRAEFIK, ""), ("docker labels=\"traefik\" { allow \"*.example.com\"; entry-point \"websecure\" 8443; }", ":8443")]
    {
        let check = |rule: &str, shut: &str| {
            for guard in guards {
                let shut = format!("{shut}SHUT router_refused/b");
                let expected = [
                    format!("https://a.example.com{port} -> {shut}, container:shop/web:80"),
                    format!("https://b.example.com{port} -> /somewhere/else* container:shop/web:80, {shut}"),
                    format!("https://o.example.com{port} -> container:other/web:80"),
                ];
                let all_of_a = format!("https://a.example.com{port} -> {shut}");
                let seen = sites(file, &[&project(rule, guard), other]);
                let is_all = shut.starts_with("SHUT");
                assert_eq!(seen[0], if is_all { &all_of_a } else { &expected[0] }.as_str(), "{rule} {guard}");
                assert_eq!(seen[1..], expected[1..], "{rule} {guard}");
            }
        };
        check("PathPrefix(`/administration-panel`)", "/administration-panel* ");
        check("HostRegexp(`.+`) && PathPrefix(`/g`)", "/g* ");
        check("HostRegexp(`{any:.+}`) && PathPrefix(`/g`)", "/g* ");
        check("!Host(`other.example.com`) && PathPrefix(`/g`)", "/g* ");
        check("PathPrefix(`/g`) || PathPrefix(`/admin`)", "/g* /admin* ");
        check("Path(`/g/secret-area-of-admins`)", "/g/secret-area-of-admins ");
        // What is not understood may be anything.
        check("Nonsense(`X-Forwarded`) || PathPrefix(`/g`)", "");
        // In front of it goes what Traefik puts there, by the length of its rule.
        let open = format!("https://a.example.com{port} -> container:shop/web:80");
        assert_eq!(sites(file, &[&project("PathPrefix(`/g`)", guards[0]), other])[0], open);
    }
}

#[test]
fn a_router_of_no_host_is_told_with_what_it_shuts() {
    check_in(
        "docker labels=\"traefik\" { allow \"*.example.com\"; entry-point \"websecure\" 8443; }",
        &[
            "shop/web web 1\ntraefik.http.routers.w.rule=Host(`a.example.com`)\ntraefik.http.routers.w.entrypoints=websecure\ntraefik.http.routers.b.rule=PathPrefix(`/administration`)\ntraefik.http.routers.b.entrypoints=websecure",
        ],
        &["https://a.example.com:8443 -> /administration* SHUT router_refused/b, container:shop/web:80"],
        &[
            "container web, label traefik.http.routers.b.rule:1:1: it is refused, so `/administration*` of `https://a.example.com:8443`, which is served, is answered with 503",
            "container web, label traefik.http.routers.b.rule:1:1: the rule of the router `b` names no host",
        ],
    );
}

/// Labels of our own that name all hosts.
#[test]
fn a_site_of_all_hosts_in_a_label_shuts_its_part_of_those_of_the_project() {
    let web = "shop/web web 2\ntidegate.site=http://a.example.com:8080";
    let all = "shop/all all 1\ntidegate.site=http://:8080\ntidegate.route=/admin/*";
    assert_eq!(
        sites(super::FILE, &[web, all]),
        ["http://a.example.com:8080 -> /admin/* SHUT router_refused/all, container:shop/web"]
    );
}
