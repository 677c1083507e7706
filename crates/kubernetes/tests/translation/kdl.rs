//! Sites and pools as the file that says the same. What the file would not say again makes the test fail: it is loaded
//! and compared.

use crate::certificates::label;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use tidegate_config::writing::{Form, block, discover, of_tls, origin, pool_lines, quoted, show_path, terminal};
use tidegate_config::{Environment, format_text, load_with, render};
use tidegate_kubernetes::Merged;
use tidegate_model::discover::{Cluster, Namespaces};
use tidegate_model::{
    ArmEnd, Certificate, CipherName, ClientAuth, Configuration, Discover, ErrorBody, Filled, MapSettings, MapSource, Pem, Pool,
    PoolName, Route, Site, SniRoute, Step, Tcp, Terminal, Tls, TlsSource, TlsVersion, UpstreamTls,
};

/// Names of pools as a file may have them: no name of a namespace, a Service or a port has a dot.
fn in_words(name: &PoolName) -> PoolName {
    PoolName(name.0.replace(['/', ':', ' ', '#'], ".").into())
}

fn with_words(sites: &[Arc<Site>], pools: &[Arc<Pool>]) -> (Vec<Arc<Site>>, Vec<Arc<Pool>>) {
    let site = |site: &Arc<Site>| {
        let mut site = (**site).clone();
        for route in &mut site.routes {
            for pool in pools_of(route) {
                *pool = in_words(pool);
            }
            for step in &mut route.steps {
                let parts = match step {
                    Step::AuthAny(Some(any)) => &mut any.ways[..],
                    step => std::slice::from_mut(step),
                };
                for part in parts {
                    if let Step::ForwardAuth(Some(auth)) = part {
                        auth.pool = in_words(&auth.pool);
                    }
                }
            }
        }
        Arc::new(site)
    };
    let pool = |pool: &Arc<Pool>| Arc::new(Pool { name: in_words(&pool.name), ..(**pool).clone() });
    (sites.iter().map(site).collect(), pools.iter().map(pool).collect())
}

/// Where the route names pools.
fn pools_of(route: &mut Route) -> Vec<&mut PoolName> {
    let mut pools: Vec<&mut PoolName> = route.options.mirrors.named.iter_mut().map(|mirror| &mut mirror.pool).collect();
    pools.extend(route.options.error_pages.iter_mut().filter_map(|page| match &mut page.body {
        ErrorBody::Asked(asked) => Some(&mut asked.pool),
        ErrorBody::Template { .. } | ErrorBody::File { .. } | ErrorBody::Made(_) => None,
    }));
    match &mut route.terminal {
        Terminal::Proxy { pool, .. } => pools.push(pool),
        Terminal::Split(split) => pools.extend(split.arms.iter_mut().filter_map(|arm| match &mut arm.end {
            ArmEnd::Proxy { pool, .. } => Some(pool),
            ArmEnd::Respond { .. } | ArmEnd::Redirect { .. } => None,
        })),
        Terminal::Respond { .. } | Terminal::Redirect { .. } | Terminal::Files(_) | Terminal::FastCgi(_) => {}
    }
    pools
}

/// Stands in every site.
const PATH_POLICY: &str =
    "    path-policy slashes=\"pass\" encoded-slashes=\"pass\" case=\"keep\" parameters=\"keep\" expressions=\"decoded\"\n";

/// As `tidegate fmt` prints it, with a word in the place of each PEM, and without what stands in every site.
pub fn shown(sites: &[Arc<Site>], pools: &[Arc<Pool>]) -> String {
    let (sites, pools) = with_words(sites, pools);
    let shown_pem = |pem: &str| label(pem).map_or_else(|| "PEM".to_owned(), |label| format!("the {label}"));
    let text = format_text("merged.kdl", &written(&sites, &pools, &shown_pem)).expect("KDL");
    assert_eq!(text.matches(PATH_POLICY).count(), sites.len(), "{text}");
    text.replace(PATH_POLICY, "")
}

/// Names whose connections are handed on.
pub fn shown_tcp(tcp: &[Tcp]) -> String {
    let mut text = String::new();
    for Tcp { port, by_name, .. } in tcp.iter().filter(|tcp| !tcp.by_name.is_empty()) {
        let _ = writeln!(text, "\ntcp \":{port}\" {{");
        for SniRoute { names, to } in by_name {
            let names: Vec<String> = names.iter().map(|name| quoted(&name.to_string())).collect();
            let pool = in_words(&to.only().expect("one pool").pool);
            let _ = writeln!(text, "    sni {} {{\n        proxy {}\n    }}", names.join(" "), quoted(&pool.0));
        }
        let _ = writeln!(text, "}}");
    }
    text
}

pub fn shown_maps(maps: &[MapSettings]) -> String {
    let mut text = String::new();
    for MapSettings { name, key, source, .. } in maps {
        let MapSource::Listed(rows) = source else { panic!("{source:?}") };
        let rows: Vec<String> = rows.iter().map(|(key, value)| format!("    row {} {}\n", quoted(key), quoted(value))).collect();
        let _ = writeln!(text, "\nmap {} key={} {{\n{}}}", quoted(name), quoted(&key.to_string()), rows.concat());
    }
    text
}

/// The file says what the sites and pools are, as far as a file can.
pub fn check(merged: &Merged) {
    let (sites, pools) = with_words(&merged.sites, &merged.pools);
    let text = written(&sites, &pools, &str::to_owned) + &shown_maps(&merged.maps);
    let loaded = load_with("merged.kdl", &text, Path::new("/"), &Environment::Given([].into()));
    let rendered = render(&loaded.diagnostics, &loaded.files, false);
    let read = loaded.configuration.unwrap_or_else(|| panic!("{rendered}\n{text}"));
    assert_eq!(read.sites, sites, "{text}");
    assert_eq!(read.maps, *merged.maps, "{text}");
    // A file has no pool for all namespaces.
    let pools: Vec<Pool> = pools.iter().map(|pool| as_in_a_file(pool)).collect();
    let read: Vec<Pool> = read.pools.iter().map(|pool| (**pool).clone()).collect();
    assert_eq!(read, pools, "{text}");
}

fn as_in_a_file(pool: &Pool) -> Pool {
    let mut pool = pool.clone();
    for discover in &mut pool.discover {
        if let Discover::Kubernetes(asked) = discover {
            asked.cluster = Cluster { api: None, namespaces: Namespaces::named([asked.namespace.clone()]) };
        }
    }
    pool
}

fn written(sites: &[Arc<Site>], pools: &[Arc<Pool>], pem: &dyn Fn(&str) -> String) -> String {
    let mut text = String::new();
    for one in sites {
        site(&mut text, one, pem);
    }
    for one in pools {
        pool(&mut text, one, pem);
    }
    text
}

fn site(text: &mut String, site: &Site, pem: &dyn Fn(&str) -> String) {
    let addresses: Vec<String> = site.addresses.iter().map(|address| quoted(&address.to_string())).collect();
    let _ = writeln!(text, "site {} {{", addresses.join(" "));
    let _ = writeln!(text, "{}", origin(site.origin.as_deref(), Form::Whole).unwrap_or_default());
    let places: Vec<String> =
        site.addresses.iter().flat_map(|address| &address.listen).map(|place| quoted(&place.to_string())).collect();
    let places: std::collections::BTreeSet<String> = places.into_iter().collect();
    let _ = writeln!(text, "listen {}", places.into_iter().collect::<Vec<_>>().join(" "));
    tls(text, &site.tls, pem);
    for (_, line) in block(&site.options, &site.steps, Form::Whole) {
        let _ = writeln!(text, "{line}");
    }
    for one in &site.routes {
        route(text, one);
    }
    let _ = writeln!(text, "}}\n");
}

fn tls(text: &mut String, tls: &Tls, pem: &dyn Fn(&str) -> String) {
    let Tls { source, acme, client_auth, ciphers, min_version, .. } = tls;
    let (own_source, own_acme) = (source.clone(), acme.clone());
    let (own_clients, own_ciphers) = (client_auth.clone(), ciphers.clone());
    let known = Tls {
        source: own_source,
        acme: own_acme,
        client_auth: own_clients,
        ciphers: own_ciphers,
        min_version: *min_version,
        ..Tls::default()
    };
    assert_eq!(known, *tls, "{:?}", of_tls(tls, &Filled::default()));
    let held = |of: &Pem| match of {
        Pem::Held(held) => quoted(&pem(&String::from_utf8_lossy(held.reveal()))),
        Pem::File(path) => panic!("there are no files: {}", path.display()),
    };
    match source {
        TlsSource::Automatic if acme.is_some() => {
            let lines = format!("{}{}", of_clients(client_auth.as_ref(), &held), of_ciphers(ciphers));
            let _ = writeln!(text, "tls {{\nacme\n{lines}}}");
        }
        TlsSource::Automatic => {}
        TlsSource::Reject => _ = writeln!(text, "tls \"reject\""),
        TlsSource::Files(files) => {
            for Certificate { cert, key } in files {
                let key = key.as_ref().expect("a key");
                let version = TlsVersion::NAMES.iter().find(|(_, known)| known == min_version && *known != TlsVersion::V1_2);
                let version = version.map(|(name, _)| format!("min {}\n", quoted(name))).unwrap_or_default();
                let lines = format!("{}{}{version}", of_clients(client_auth.as_ref(), &held), of_ciphers(ciphers));
                let block = if lines.is_empty() { lines } else { format!(" {{\n{lines}}}") };
                let _ = writeln!(text, "tls pem={} key-pem={}{block}", held(cert), held(key));
            }
        }
        TlsSource::Internal | TlsSource::Off => panic!("nothing asks for {source:?}"),
    }
}

fn of_ciphers(ciphers: &[CipherName]) -> String {
    let names = ciphers.iter().filter_map(|own| CipherName::NAMES.iter().find(|(_, known)| known == own));
    let names: Vec<String> = names.map(|(name, _)| quoted(name)).collect();
    if names.is_empty() { String::new() } else { format!("ciphers {}\n", names.join(" ")) }
}

fn of_clients(auth: Option<&ClientAuth>, held: &dyn Fn(&Pem) -> String) -> String {
    let Some(ClientAuth { ca, crls, mode, forward }) = auth else { return String::new() };
    let lists = [("ca-pem", ca), ("crl-pem", crls)].map(|(name, all)| all.iter().map(move |one| format!("{name}={}", held(one))));
    let lists: Vec<String> = lists.into_iter().flatten().collect();
    let forward = forward.map(|form| format!("forward={}", quoted(form.as_str()))).unwrap_or_default();
    format!("client-auth {} mode={} {forward}\n", lists.join(" "), quoted(mode.as_str()))
}

fn route(text: &mut String, route: &Route) {
    let Route { name, origin: of, paths, matches, options, steps, terminal: end } = route;
    assert_eq!(*name, None);
    let paths: Vec<String> = paths.iter().map(|path| quoted(&show_path(path))).collect();
    let _ = writeln!(text, "route {} {{", paths.join(" "));
    for line in matches {
        let _ = writeln!(text, "{}", tidegate_config::writing::match_line(line, Form::Whole));
    }
    let _ = writeln!(text, "{}", origin(of.as_deref(), Form::Whole).unwrap_or_default());
    for (_, line) in block(options, steps, Form::Whole) {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "{}\n}}", terminal(end, Form::Whole));
}

fn pool(text: &mut String, pool: &Pool, pem: &dyn Fn(&str) -> String) {
    let _ = writeln!(text, "pool {} {{", quoted(&pool.name.0));
    let _ = writeln!(text, "{}", origin(pool.origin.as_deref(), Form::Whole).unwrap_or_default());
    for server in &pool.servers {
        let _ = writeln!(text, "server {}", quoted(&server.address.to_string()));
    }
    // What every pool has is left out.
    let usual = pool_lines(&Pool { discover: pool.discover.clone(), ..Pool::new(pool.name.clone(), Vec::new()) }, Form::Whole);
    let of_lookup = pool.discover.iter().map(|one| format!("discover {}", discover(one, Form::Whole)));
    let own = pool_lines(pool, Form::Whole);
    let own = own.lines().filter(|line| !usual.lines().any(|usual| usual == *line) && !line.starts_with("origin "));
    for line in of_lookup.chain(own.map(str::to_owned)) {
        let _ = writeln!(text, "{}", with_pems(line, &pool.tls, pem));
    }
    let _ = writeln!(text, "}}\n");
}

fn with_pems(mut line: String, tls: &UpstreamTls, pem: &dyn Fn(&str) -> String) -> String {
    let pair = tls.client_certificate.iter().flat_map(|(certificate, key)| [certificate, key]);
    for one in tls.ca.iter().chain(pair) {
        line = line.replace(&quoted(text_of(one)), &quoted(&pem(text_of(one))));
    }
    line
}

fn text_of(pem: &Pem) -> &str {
    match pem {
        Pem::Held(held) => std::str::from_utf8(held.reveal()).expect("PEM"),
        Pem::File(path) => panic!("there are no files: {}", path.display()),
    }
}

/// What is said of the process and of TCP, as far as anything is.
pub fn of_process(merged: &Merged) -> String {
    let mut text = String::new();
    for tcp in merged.tcp.iter().filter(|tcp| tcp.by_name.is_empty()) {
        let pools: Vec<String> =
            tcp.otherwise.iter().flat_map(|to| &to.arms).map(|arm| in_words(&arm.pool).to_string()).collect();
        let _ = writeln!(text, "tcp :{} to {}", tcp.port, pools.join(" "));
    }
    for options in &merged.process.listeners {
        let networks = |all: &[ipnet::IpNet]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let header = options.client_ip_header.as_deref().unwrap_or_default();
        let (trusted, proxies) = (networks(&options.trusted_proxies), networks(&options.proxy_protocol_from));
        let _ = writeln!(text, "listener {:?} trusts [{trusted}] {header} with headers of [{proxies}]", options.place);
    }
    if let Some(logs) = &merged.process.access_logs {
        let formats: Vec<String> = logs.iter().map(|log| format!("{:?}", log.format)).collect();
        let _ = writeln!(text, "access-log [{}]", formats.join(", "));
    }
    if let Some(limits) = &merged.process.limits {
        let (keep_alive, header) = (limits.keep_alive, limits.header_timeout);
        let _ = writeln!(text, "limits keep-alive {keep_alive:?} header-timeout {header:?} h2-streams {}", limits.h2_streams);
    }
    if let Some(log) = &merged.process.log {
        let _ = writeln!(text, "log {:?}", log.level);
    }
    text
}

/// Without any site or pool.
pub fn nothing() -> Configuration {
    Configuration::default()
}
