//! What a configuration means: texts on one side, the model they become on the other. Also that every example is free
//! of faults.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_config::{Environment, LoadMemory, Loaded, MainFile, load_path, load_path_again, load_with, render};
use tidegate_model::{
    AccessLogFormat, Admin, AdminEndpoint, AdminPlace, AdminServes, CipherName, Condition, ConditionKind, Configuration, Edition,
    Field, HeaderOperation, HostPattern, ListenerPlace, LogLevel, LogTarget, Memory, PathPattern, Placeholder, Rotation, Scheme,
    Secret, SiteAddress, Step, Template, TemplatePart, Terminal, TextPattern, Threads, TlsSource, TlsVersion, UpstreamAddress,
};

fn load_text_in(text: &str, directory: &Path, variables: &[(&str, &str)]) -> Loaded {
    let variables = variables.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect();
    load_with("test.kdl", text, directory, &Environment::Given(variables))
}

fn loaded(text: &str) -> Configuration {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let loaded = load_text_in(text, &directory, &[("PORT", "9000"), ("EMPTY", "")]);
    let shown = render(&loaded.diagnostics, &loaded.files, false);
    loaded.configuration.unwrap_or_else(|| panic!("{shown}\nfor\n{text}"))
}

/// The steps and the terminal step of the first route of the only site.
fn route_of(line: &str) -> tidegate_model::Route {
    let configuration = loaded(&format!("site \"localhost\" {{\nroute {{\n{line}\n}}\n}}"));
    configuration.sites[0].routes[0].clone()
}

fn step(line: &str) -> Step {
    route_of(&format!("{line}\nrespond 200")).steps.remove(0)
}

fn condition(line: &str) -> Vec<Condition> {
    route_of(&format!("{line}\nrespond 200")).matches.remove(0).conditions
}

fn placeholder(placeholder: Placeholder) -> TemplatePart {
    TemplatePart::Placeholder(placeholder)
}

fn literal(text: &str) -> TemplatePart {
    TemplatePart::Literal(text.to_string())
}

#[test]
fn examples_load_without_a_word_of_complaint_and_are_formatted() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).expect("the examples").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "kdl"));
    assert!(paths.len() >= 8, "there are only {} examples", paths.len());
    for path in paths {
        let loaded = load_path(&path);
        assert!(loaded.diagnostics.is_empty(), "{}", render(&loaded.diagnostics, &loaded.files, false));
        assert!(loaded.configuration.is_some(), "{} has no configuration", path.display());
        let text = fs::read_to_string(&path).expect("an example");
        let formatted = tidegate_config::format_text("example", &text).expect("valid KDL");
        assert!(formatted == text, "{} is not in canonical layout:\n{formatted}", path.display());
    }
}

#[test]
fn sites_with_their_addresses_and_certificates() {
    let configuration = loaded(
        r#"
        site "example.com" "www.example.com" {      // HTTPS on :443, redirect from :80
            proxy "10.0.0.4:8080"
        }
        site "https://localhost:8443" {             // scheme, host and port may be given
            tls cert="pem/cert.pem" key="pem/key.pem"  // separate files; a combined PEM in cert= alone works too
            tls cert="pem/both.pem"
            proxy "127.0.0.1:9000" "127.0.0.1:9001"
        }
        site "http://:8080" {                       // any host, plain HTTP
            respond 200 body="hello world"
        }
        site "off.localhost:8081" "10.0.0.1" { tls "off"; respond 200; }
        "#,
    );
    let addresses: Vec<String> = configuration.sites.iter().flat_map(|site| &site.addresses).map(ToString::to_string).collect();
    assert_eq!(
        addresses,
        [
            "https://example.com",
            "https://www.example.com",
            "https://localhost:8443",
            "http://:8080",
            "http://off.localhost:8081",
            "http://10.0.0.1"
        ]
    );
    assert!(configuration.sites[0].addresses[0].redirect_from_http);
    assert!(!configuration.sites[3].addresses[1].redirect_from_http);
    assert_eq!(configuration.sites[0].tls.source, TlsSource::Automatic);
    let TlsSource::Files(certificates) = &configuration.sites[1].tls.source else { panic!("certificates from files") };
    let names: Vec<(bool, bool)> = certificates
        .iter()
        .map(|certificate| {
            (
                certificate.cert.name().ends_with("pem/cert.pem"),
                certificate.key.as_ref().is_some_and(|key| key.name().ends_with("pem/key.pem")),
            )
        })
        .collect();
    assert_eq!(names, [(true, true), (false, false)]);
    assert!(
        certificates[0].cert.name().starts_with(env!("CARGO_MANIFEST_DIR")),
        "paths are relative to the file they are written in"
    );
    assert_eq!(configuration.sites[3].tls.source, TlsSource::Off);
    let pools: Vec<&str> = configuration.pools.iter().map(|pool| &*pool.name.0).collect();
    assert_eq!(pools, ["10.0.0.4:8080", "127.0.0.1:9000,127.0.0.1:9001"]);
}

#[test]
fn handshakes() {
    let configuration = loaded(
        r#"site "localhost" {
            tls "internal" {
                min "1.3"
                ciphers "TLS_CHACHA20_POLY1305_SHA256" "TLS_AES_128_GCM_SHA256"
                alpn "http/1.1"
                tickets #false
            }
            respond 200
        }
        site "early.localhost" { tls { early-data #true; }; respond 200; }"#,
    );
    let tls = &configuration.sites[0].tls;
    assert_eq!(tls.source, TlsSource::Internal);
    assert_eq!(tls.min_version, TlsVersion::V1_3);
    assert_eq!(tls.ciphers, [CipherName::Tls13Chacha20Poly1305Sha256, CipherName::Tls13Aes128GcmSha256]);
    assert_eq!(tls.alpn, ["http/1.1"]);
    assert!(!tls.tickets && !tls.early_data);
    assert!(configuration.sites[1].tls.early_data);
}

#[test]
fn routes_in_file_order_with_site_steps_first() {
    let configuration = loaded(
        r#"site "shop.localhost" {
            header remove="Server"
            route "/api/*" "/v2/*" {
                match method="GET,POST" header="X-Channel: beta*"
                strip-prefix "/api"
                proxy "api"
            }
            route "/old/*"   { redirect "https://new.example.com{path}" status=308; }
            route "/a" "~^/v[0-9]{1,2}/" { respond 204; }
            proxy "web"
            body-limit "1MB"
        }
        pool "api" { server "10.0.0.4:8080"; }
        pool "web" { server "10.0.0.5:8080"; }"#,
    );
    let site = &configuration.sites[0];
    assert_eq!(site.steps.len(), 2);
    let paths: Vec<&[PathPattern]> = site.routes.iter().map(|route| route.paths.as_slice()).collect();
    let prefix = |text: &str| PathPattern::Prefix(text.to_string());
    assert_eq!(paths[0], [prefix("/api/"), prefix("/v2/")]);
    assert_eq!(paths[1], [prefix("/old/")]);
    assert_eq!(paths[2], [PathPattern::Exact("/a".into()), PathPattern::Regex("^/v[0-9]{1,2}/".into())]);
    assert!(paths[3].is_empty());
    assert_eq!(site.routes[0].steps, [Step::StripPrefix("/api".into())]);
    let Terminal::Proxy { pool, .. } = &site.routes[3].terminal else { panic!("a proxy") };
    assert_eq!(&*pool.0, "web");
    let redirect = Terminal::Redirect {
        to: Template { parts: vec![literal("https://new.example.com"), placeholder(Placeholder::Path)] },
        status: 308,
        prefix: None,
    };
    assert_eq!(site.routes[1].terminal, redirect);
}

#[test]
fn conditions() {
    let check = |line: &str, expected: ConditionKind| {
        assert_eq!(condition(line), [Condition { negated: false, kind: expected }], "for {line}");
    };
    let field = |name: &str, value: TextPattern| Field { name: name.to_string(), value };
    check("match method=\"GET, POST\"", ConditionKind::Method(vec!["GET".into(), "POST".into()]));
    check("match path=\"/a/*\"", ConditionKind::Path(vec![PathPattern::Prefix("/a/".into())]));
    check("match header=\"X-Channel: beta*\"", ConditionKind::Header(field("x-channel", TextPattern::Prefix("beta".into()))));
    check("match header=\"X-Channel\"", ConditionKind::Header(field("x-channel", TextPattern::Present)));
    check("match header=\"X-Channel: *\"", ConditionKind::Header(field("x-channel", TextPattern::Present)));
    check("match header=\"X-Channel:~^b{2}\"", ConditionKind::Header(field("x-channel", TextPattern::Regex("^b{2}".into()))));
    check("match query=\"~;\"", ConditionKind::WholeQuery(TextPattern::Regex(";".into())));
    check("match query=\"q\"", ConditionKind::Query(field("q", TextPattern::Present)));
    check("match query=\"q=a=b\"", ConditionKind::Query(field("q", TextPattern::Exact("a=b".into()))));
    check("match cookie=\"Id=*.x\"", ConditionKind::Cookie(field("Id", TextPattern::Suffix(".x".into()))));
    check(
        "match client=\"10.0.0.0/8,::1\"",
        ConditionKind::Client(vec!["10.0.0.0/8".parse().expect("a network"), "::1/128".parse().expect("a network")]),
    );
    check(
        "match host=\"a.example.com, *.example.org\"",
        ConditionKind::Host(vec![HostPattern::Exact("a.example.com".into()), HostPattern::Wildcard("example.org".into())]),
    );
    check("match scheme=\"https\"", ConditionKind::Scheme(Scheme::Https));
}

#[test]
fn conditions_of_one_line_are_all_required_and_not_turns_the_next_one_round() {
    let conditions = condition("match query=\"a\" not query=\"b\" query=\"a=1\"");
    assert_eq!(conditions.iter().map(|condition| condition.negated).collect::<Vec<_>>(), [false, true, false]);
    let lines = route_of("match method=\"GET\"\nmatch method=\"POST\"\nrespond 200").matches;
    assert_eq!(lines.len(), 2);
}

#[test]
fn steps() {
    let check = |line: &str, expected: Step| assert_eq!(step(line), expected, "for {line}");
    let template = |parts: Vec<TemplatePart>| Template { parts };
    check("strip-prefix \"/api/\"", Step::StripPrefix("/api".into()));
    check("add-prefix \"/v1\"", Step::AddPrefix("/v1".into()));
    check("body-limit \"10MB\"", Step::BodyLimit { bytes_max: 10_000_000 });
    check("body-limit 0", Step::BodyLimit { bytes_max: 0 });
    check(
        "rewrite \"/new{path}\"",
        Step::Rewrite { pattern: None, to: template(vec![literal("/new"), placeholder(Placeholder::Path)]) },
    );
    check(
        "rewrite \"~^/old/(.*)$\" \"/new/$1/$$/{method}\"",
        Step::Rewrite {
            pattern: Some("^/old/(.*)$".into()),
            to: template(vec![literal("/new/"), TemplatePart::Capture(1), literal("/$/"), placeholder(Placeholder::Method)]),
        },
    );
}

#[test]
fn header_changes_keep_their_order() {
    let shown = |line: &str| -> Vec<String> {
        let changes = match step(line) {
            Step::RequestHeader(step) | Step::ResponseHeader(step) => step.changes,
            other => panic!("{other:?} changes no header"),
        };
        changes
            .iter()
            .map(|change| {
                let operation = match change.operation {
                    HeaderOperation::Set => "set",
                    HeaderOperation::Add => "add",
                    HeaderOperation::Default => "default",
                    HeaderOperation::Remove => "remove",
                };
                format!("{operation} {}={}", change.name, change.value)
            })
            .collect()
    };
    let check = |line: &str, expected: &[&str]| assert_eq!(shown(line), expected, "for {line}");
    check("header \"X-A\" \"1\"", &["set X-A=1"]);
    check("header set=\"X-A: {host}:{{x}}\" remove=\"X-B\" add=\"X-A:2\"", &["set X-A={host}:{{x}}", "remove X-B=", "add X-A=2"]);
    check("header \"X-A\" \"1\" default=\"X-B:  2  \"", &["set X-A=1", "default X-B=2"]);
    check("request-header \"Host\" \"{request.header.X-Host}\"", &["set Host={request.header.x-host}"]);
    check(
        "response-header \"X-A\" \"{upstream.address} {response.header.Server}\"",
        &["set X-A={upstream.address} {response.header.server}"],
    );
    check("header \"X-Empty\" \"\"", &["set X-Empty="]);
    check("header set=\"X-Empty:\"", &["set X-Empty="]);
}

#[test]
fn answers() {
    let check = |line: &str, expected: Terminal| assert_eq!(route_of(line).terminal, expected, "for {line}");
    let body = |text: &str| Template::literal(text);
    check("respond", Terminal::Respond { status: 200, body: body(""), content_type: None });
    check("respond 404", Terminal::Respond { status: 404, body: body(""), content_type: None });
    check("respond body=\"a{{b}}\"", Terminal::Respond { status: 200, body: body("a{b}"), content_type: None });
    check(
        "respond 503 body=\"<p>\" content-type=\"text/html\"",
        Terminal::Respond { status: 503, body: body("<p>"), content_type: Some("text/html".into()) },
    );
    check("redirect \"/x\"", Terminal::Redirect { to: body("/x"), status: 302, prefix: None });
}

#[test]
fn settings_of_the_whole_process() {
    let configuration = loaded(
        r#"edition "2026"
        admin "unix:/run/tidegate.sock"
        access-log "/var/log/access.log" format="{client.ip} {upstream.address} {status} {time}" rotate="100MB"
        log level="warn"
        threads 4
        memory "512MiB"
        listener ":443" { trusted-proxies "10.0.0.0/8" "private"; }
        drain "1m"
        limits {
            header-bytes "32KiB"; request-line "8KiB"; connections-per-ip 100; header-timeout "5s"
            keep-alive "2m"; body-rate "1KiB/s"; h2-streams 10; header-count 64
        }
        site "localhost" { respond 200; }"#,
    );
    assert_eq!(configuration.edition, Edition::E2026);
    let socket = AdminEndpoint::new(AdminPlace::Unix("/run/tidegate.sock".into()), AdminServes::Everything);
    assert_eq!(configuration.admin, Admin::At(vec![socket]));
    let rotation = Some(Rotation { size_bytes: 100_000_000, keep: 7 });
    assert_eq!(configuration.access_logs[0].target, LogTarget::File { path: "/var/log/access.log".into(), rotation });
    assert!(matches!(configuration.access_logs[0].format, AccessLogFormat::Template(_)));
    assert_eq!(configuration.log.level, LogLevel::Warn);
    assert_eq!(configuration.threads, Threads::Count(4));
    assert_eq!(configuration.memory, Memory::Bytes(512 << 20));
    assert_eq!(loaded("memory \"off\"").memory, Memory::Off);
    assert_eq!(loaded("memory \"auto\"").memory, Memory::Auto);
    assert_eq!(loaded("memory 67108864").memory, Memory::Bytes(64 << 20));
    let place = ListenerPlace::Tcp { ip: None, port: 443 };
    assert_eq!(configuration.listeners[0].place, place);
    assert_eq!(configuration.listeners[0].trusted_proxies.len(), 9);
    assert_eq!(configuration.drain, Duration::from_secs(60));
    let limits = configuration.limits;
    assert_eq!((limits.header_bytes, limits.request_line_bytes, limits.header_count), (32 << 10, 8 << 10, 64));
    assert_eq!((limits.connections_per_ip, limits.h2_streams, limits.body_rate_bytes), (100, 10, 1024));
    assert_eq!((limits.header_timeout, limits.keep_alive), (Duration::from_secs(5), Duration::from_secs(120)));
}

#[test]
fn defaults_hold_when_nothing_is_written() {
    let configuration = loaded("site \"localhost\" { respond 200; }");
    let expected = Configuration { sites: configuration.sites.clone(), ..Configuration::default() };
    assert_eq!(configuration, expected);
    assert_eq!(configuration.admin, Admin::Default);
    let named =
        loaded("admin \"0.0.0.0:9180\" hosts=\"App-1.example.com., *.mon.example.com\"\nsite \"localhost\" { respond 200; }");
    let names = [HostPattern::Exact("app-1.example.com".into()), HostPattern::Wildcard("mon.example.com".into())];
    let Admin::At(endpoints) = named.admin else { panic!("{:?}", named.admin) };
    assert_eq!(endpoints[0].hosts, names);
    assert_eq!(loaded("admin \"off\"\nsite \"localhost\" { respond 200; }").admin, Admin::Off);
}

#[test]
fn metrics_and_the_api_are_served_where_each_line_says() {
    const SITE: &str = "site \"http://a.test\" { respond 200; }\n";
    let text = "admin \"unix:/run/a.sock\"\nadmin \"0.0.0.0:9180\" serve=\"metrics\" hosts=\"a.example\"\n\
                admin \"127.0.0.1:9181\" token=\"0123456789abcdef\" read-token=\"fedcba9876543210\"\n";
    let Admin::At(endpoints) = loaded(&format!("{text}{SITE}")).admin else { panic!("they are written") };
    let seen: Vec<_> = endpoints.iter().map(|endpoint| (endpoint.place.to_string(), endpoint.serves)).collect();
    let expected = [
        ("unix:/run/a.sock", AdminServes::Everything),
        ("0.0.0.0:9180", AdminServes::Metrics),
        ("127.0.0.1:9181", AdminServes::Everything),
    ];
    assert_eq!(seen, expected.map(|(place, serves)| (place.to_owned(), serves)));
    assert_eq!(endpoints[2].read_token.as_ref().map(Secret::reveal), Some("fedcba9876543210"));

    let check = |lines: &str, code: &str| {
        let loaded = load_text_in(&format!("{lines}\n{SITE}"), Path::new("/etc/tidegate"), &[]);
        let codes: Vec<_> = loaded.diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
        assert_eq!(codes, [code], "{lines}");
    };
    check("admin \"off\"\nadmin \"127.0.0.1:1\"", "duplicate-directive");
    check("admin \"127.0.0.1:1\"\nadmin \"off\"", "duplicate-directive");
    check("admin \"127.0.0.1:1\"\nadmin \"127.0.0.1:1\" serve=\"metrics\"", "duplicate-listener");
    check("admin \"127.0.0.1:1\" serve=\"metrics\" token=\"0123456789abcdef\"", "without-effect");
    check("admin \"127.0.0.1:1\" token=\"0123456789abcdef\" read-token=\"0123456789abcdef\"", "bad-token");
    check("admin \"127.0.0.1:1\" serve=\"all\"", "bad-value");
    check("admin \"0.0.0.0:1\"", "open-admin");
}

#[test]
fn variables_and_files_are_filled_in_anywhere() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("secret"), "hunter2\r\n").expect("a file");
    fs::create_dir(directory.path().join("conf.d")).expect("a directory");
    fs::write(directory.path().join("secret-2"), "x\n\n").expect("a file");
    let text = r#"site "localhost:{env.PORT}" {
        header "X-A" "{file.secret}-{host}-{file.secret-2}"
        route "/{env.NAME}/*" { proxy "127.0.0.1:{env.PORT}"; }
        route "~^/{env.NAME}{2}$" { respond body="{env.BRACES}"; }
        route { respond 200; }
    }
    threads "{env.THREADS}"
    drain "{env.DRAIN}"
    limits { header-count "{env.THREADS}0"; }"#;
    let variables = [("PORT", "9000"), ("NAME", "n"), ("BRACES", "{host}"), ("THREADS", "8"), ("DRAIN", "7s")];
    let loaded = load_text_in(text, directory.path(), &variables);
    // A line break in the middle of a header value is a fault: one is taken off, not two.
    assert!(loaded.has_errors());
    fs::write(directory.path().join("secret-2"), "x\n").expect("a file");
    let loaded = load_text_in(text, directory.path(), &variables);
    let configuration = loaded.configuration.unwrap_or_else(|| panic!("{}", render(&loaded.diagnostics, &loaded.files, false)));
    let site = &configuration.sites[0];
    assert_eq!(site.addresses[0].port, 9000);
    let Step::ResponseHeader(tidegate_model::HeaderStep { changes, .. }) = &site.steps[0] else { panic!("a header") };
    assert_eq!(changes[0].value.to_string(), "hunter2-{host}-x");
    assert_eq!(site.routes[0].paths, [PathPattern::Prefix("/n/".into())]);
    assert_eq!(site.routes[1].paths, [PathPattern::Regex("^/n{2}$".into())]);
    // What is filled in is text: a placeholder in it is not looked at again.
    let Terminal::Respond { body, .. } = &site.routes[1].terminal else { panic!("an answer") };
    assert_eq!(body.as_literal(), Some("{host}"));
    assert_eq!(configuration.threads, Threads::Count(8));
    assert_eq!(configuration.drain, Duration::from_secs(7));
    assert_eq!(configuration.limits.header_count, 80);
    assert!(loaded.read_files.iter().any(|path| path.ends_with("secret")));
}

#[test]
fn included_files_stand_in_place_in_the_order_of_their_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    write("main.kdl", "include \"conf.d/*.kdl\" \"none/*.kdl\"\nsite \"z.localhost\" { include \"routes.kdl\"; respond 200; }");
    write("routes.kdl", "route \"/r\" { respond 201; }");
    write("conf.d/b.kdl", "site \"b.localhost\" { tls cert=\"cert.pem\"; respond 200; }");
    write("conf.d/a.kdl", "site \"a.localhost\" { respond 200; }\ninclude \"deeper/c.kdl\"");
    write("conf.d/deeper/c.kdl", "site \"c.localhost\" { respond 200; }");
    write("conf.d/.hidden.kdl", "nonsense");
    write("conf.d/d.txt", "nonsense");
    let pem = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics/pem/both.pem");
    fs::copy(pem, directory.path().join("conf.d/cert.pem")).expect("a certificate");
    let loaded = load_path(&directory.path().join("main.kdl"));
    let configuration = loaded.configuration.unwrap_or_else(|| panic!("{}", render(&loaded.diagnostics, &loaded.files, false)));
    let sites: Vec<String> = configuration.sites.iter().map(|site| site.addresses[0].host.to_string()).collect();
    assert_eq!(sites, ["a.localhost", "c.localhost", "b.localhost", "z.localhost"]);
    assert_eq!(configuration.sites[3].routes.len(), 2);
    assert_eq!(loaded.read_files.len(), 6, "{:?}", loaded.read_files);
    let (path, location) = &loaded.spans.files[0];
    assert!(path.ends_with("conf.d/cert.pem"));
    assert_eq!(loaded.files.position(location), (1, 31));
    assert_eq!(loaded.spans.addresses.len(), 4);
}

#[test]
fn the_main_file_has_to_exist() {
    let loaded = load_path(Path::new("no-such-file.kdl"));
    let shown = render(&loaded.diagnostics, &loaded.files, false);
    assert_eq!(
        shown,
        "error[cannot-read]: cannot read `no-such-file.kdl`: there is no such file\n--> no-such-file.kdl\n = help: `--config FILE` names another one\n"
    );
    assert!(loaded.configuration.is_none());
}

fn make_pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
}

#[test]
fn a_pipe_is_read_only_as_the_main_file_of_a_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let pipe = directory.path().join("pipe");
    make_pipe(&pipe);
    let message = |loaded: Loaded| loaded.diagnostics.first().map(|diagnostic| diagnostic.message.clone());
    // Nobody writes: whoever waited would wait for ever.
    let refused = load_path_again(&pipe, MainFile::Regular, &mut LoadMemory::default());
    let shown = pipe.display();
    assert_eq!(message(refused), Some(format!("cannot read `{shown}`: it is not a regular file").into()));
    let check = |text: &str, name: &str| {
        let expected = format!("cannot read `{name}`: it is not a regular file");
        assert_eq!(message(load_text_in(text, directory.path(), &[])), Some(expected.into()), "for {text}");
    };
    check("include \"pipe\"", &shown.to_string());
    check("site \"localhost\" { respond body=\"{file.pipe}\"; }", "pipe");
    check("site \"https://a.test\" { tls cert=\"pipe\" key=\"pipe\"; respond 200; }", "pipe");
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&pipe, "site \"http://localhost\" { respond 200; }"));
        assert!(load_path(&pipe).configuration.is_some());
    });
}

#[test]
fn included_files_that_include_each_other_forever_are_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    for depth in 0..30 {
        fs::write(directory.path().join(format!("{depth}.kdl")), format!("include \"{}.kdl\"", depth + 1)).expect("a file");
    }
    let loaded = load_path(&directory.path().join("0.kdl"));
    let codes: Vec<&str> = loaded.diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes, ["include-depth"]);
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("large"), vec![b'a'; (1 << 20) + 1]).expect("a file");
    fs::write(directory.path().join("latin-1"), b"\xfc").expect("a file");
    let check = |text: &str, expected: &str| {
        let loaded = load_text_in(text, directory.path(), &[]);
        assert_eq!(loaded.diagnostics[0].message, expected, "for {text}");
        assert!(loaded.configuration.is_none());
    };
    let site = |body: &str| format!("site \"localhost\" {{ respond body=\"{body}\"; }}");
    check(&site("{file.large}"), "cannot read `large`: it is larger than 1 MiB");
    check(&site("{file.latin-1}"), "cannot read `latin-1`: it is not UTF-8 text");
    check(&site("{file.}"), "cannot read ``: it is a directory");
    check(&site("{env.}"), "the environment variable `` is not set");
    let included = directory.path().join("latin-1");
    check("include \"latin-1\"", &format!("cannot read `{}`: it is not UTF-8 text", included.display()));
}

#[test]
fn places_of_what_is_checked_again_later() {
    let text = "admin \"127.0.0.1:1\"\nsite \"a.localhost\" \"b.localhost\" { respond 200; }\naccess-log \"./x.log\"\n";
    let loaded = load_text_in(text, Path::new(""), &[]);
    let written = |location: &tidegate_config::Location| &text[location.span.clone()];
    let addresses: Vec<&str> = loaded.spans.addresses.iter().map(|(_, location)| written(location)).collect();
    assert_eq!(addresses, ["\"a.localhost\"", "\"b.localhost\""]);
    let configuration = loaded.configuration.expect("no errors");
    let second = &configuration.sites[0].addresses[1];
    assert_eq!(loaded.spans.of_address(second).map(written), Some("\"b.localhost\""));
    assert_eq!(loaded.spans.admin.iter().map(|(_, at)| written(at)).collect::<Vec<_>>(), ["\"127.0.0.1:1\""]);
    assert_eq!(loaded.spans.access_log.as_ref().map(written), Some("\"./x.log\""));
}

#[test]
fn places_of_servers_and_of_the_files_of_a_site() {
    let text = "pool \"p\" { server \"10.0.0.1:80\"; server \"https://10.0.0.2:443\"; }\n\
                site \"a.localhost\" { tls cert=\"both.pem\"; proxy \"10.0.0.3:80\" \"10.0.0.1:80\"; }\n\
                site \"b.localhost\" \"c.localhost\" { tls cert=\"./both.pem\"; tls cert=\"both.pem\"; proxy \"p\"; }\n\
                site \"d.localhost\" { respond 200; }\n";
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/diagnostics/pem"));
    let loaded = load_text_in(text, directory, &[]);
    let spans = &loaded.spans;
    let servers: Vec<&str> = spans.servers.iter().map(|(_, location)| &text[location.span]).collect();
    assert_eq!(servers, ["\"10.0.0.1:80\"", "\"https://10.0.0.2:443\"", "\"10.0.0.3:80\"", "\"10.0.0.1:80\""]);
    let address = |text: &str| UpstreamAddress::parse(text).expect("an address");
    assert_eq!(spans.of_server(&address("10.0.0.1:80")), spans.servers.iter().next().map(|(_, at)| at).as_ref());
    assert_eq!(spans.of_server(&address("https://10.0.0.2")), spans.servers.iter().nth(1).map(|(_, at)| at).as_ref());
    assert_eq!(spans.of_server(&address("10.0.0.9:80")), None);
    let check = |site: &str, file: &str, expected: Option<usize>| {
        let site = SiteAddress::parse(site).expect("an address");
        let seen = spans.of_file_in_site(&directory.join(file), &site);
        let expected = expected.map(|nth| &spans.files[nth].1);
        assert_eq!(seen, expected, "{file} in {site}");
    };
    check("a.localhost", "both.pem", Some(0));
    check("b.localhost", "both.pem", Some(1));
    check("c.localhost", "both.pem", Some(1));
    check("d.localhost", "both.pem", Some(0));
    check("e.localhost", "both.pem", Some(0));
    check("a.localhost", "key.pem", None);
}

#[test]
fn colour_changes_nothing_but_the_colour() {
    let loaded = load_text_in("site \"localhost\" { proxi; }", Path::new(""), &[]);
    let plain = render(&loaded.diagnostics, &loaded.files, false);
    let coloured = render(&loaded.diagnostics, &loaded.files, true);
    assert_ne!(plain, coloured);
    let mut stripped = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        stripped.push_str(before);
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    stripped.push_str(rest);
    assert_eq!(plain, stripped);
}
