//! Parts of the model as the lines that they are read from: what `lower` of a directive reads, its `write` writes.
//! Routes are shown line by line (`block`, `terminal`), everything else setting by setting (`of_process`, `of_pool`).
//! Whole files are laid out by `document`, which works on what was written and not on the model.

use crate::directives::pool::server;
use crate::directives::{
    self, access_log, acme, admin, cache, docker, drain, driver, edition, geoip, limits, listener, log, map, matching, memory,
    pool, storage, tcp, threads, ticket_keys, tls,
};
use crate::written_line::{Lines, settings};
use std::fmt::Debug;
use tidegate_model::{
    Condition, Configuration, Discover, Filled, Limits, ListenerOptions, MatchLine, Origin, Pool, RouteOptions, Server, Step,
    Storage, TcpTarget, Terminal, Tls,
};

pub mod effective;

pub use crate::forms::show_network;
pub use crate::patterns::show_path;
pub use crate::units::{show_duration, show_size};
pub use crate::written_line::{Form, Writer, WrittenSetting, name_of, shortened};
pub use tidegate_kdl::quoted;

/// What stands at the top level, but for sites, pools and what is listened on.
pub fn of_process(configuration: &Configuration) -> Vec<WrittenSetting> {
    settings(&configuration.filled, |lines| process(lines, configuration))
}

fn process(lines: &mut Lines, configuration: &Configuration) {
    let Configuration {
        edition,
        sites: _,
        tcp: _,
        maps,
        geoip,
        pools: _,
        listeners: _,
        admin,
        access_logs,
        log,
        threads,
        driver,
        memory,
        cache,
        certificates,
        acme,
        storage,
        ticket_keys,
        drain,
        drain_delay,
        limits,
        containers,
        filled: _,
    } = configuration;
    edition::write(lines.line(), *edition);
    lines.extend(maps, map::write);
    geoip::write(lines.line(), geoip);
    admin::write(lines, admin);
    access_log::write_all(lines, access_logs);
    log::write_level(lines.line(), log.level);
    threads::write(lines.line(), *threads);
    driver::write(lines.line(), *driver);
    memory::write(lines.line(), *memory);
    cache::write_store(lines.line(), cache);
    tls::write_certificates(lines, certificates);
    acme::write_top(lines.line(), acme.as_ref());
    storage::write(lines.line(), storage);
    ticket_keys::write(lines.line(), ticket_keys);
    drain::write(lines.line(), *drain, *drain_delay);
    limits::write(lines.line(), limits);
    lines.extend(containers, docker::write);
}

/// What stands in the block of `limits`.
pub fn of_limits(limits: &Limits, filled: &Filled) -> Vec<WrittenSetting> {
    settings(filled, |lines| limits::write_bounds(lines, limits))
}

/// What stands in the block of a `listener`.
pub fn of_listener(options: &ListenerOptions, filled: &Filled) -> Vec<WrittenSetting> {
    settings(filled, |lines| listener::write_options(lines, options))
}

/// Where a site or a route comes from, as a line; nothing where that is not known.
pub fn origin(origin: Option<&Origin>, form: Form<'_>) -> Option<String> {
    let line = &mut Writer::new(form);
    origin.map(|origin| {
        directives::origin::write(line, origin);
        line.take()
    })
}

/// What a site says with `tls`.
pub fn of_tls(tls: &Tls, filled: &Filled) -> Vec<WrittenSetting> {
    settings(filled, |lines| tls::write(lines, tls))
}

/// What stands in the block of a pool but for its servers: what is on by default too, and not what a pool of its kind
/// has no use for.
pub fn of_pool(pool: &Pool, filled: &Filled) -> Vec<WrittenSetting> {
    settings(filled, |lines| pool::write_settings(lines, pool))
}

/// The lines in the block of a pool but for its servers.
pub fn pool_lines(pool: &Pool, form: Form<'_>) -> String {
    let mut lines = Lines::new(form);
    pool::write_settings(&mut lines, pool);
    lines.text("\n")
}

/// What stands behind the word `server`.
pub fn of_server(server: &Server, filled: &Filled) -> Vec<WrittenSetting> {
    settings(filled, |lines| server::write(lines.line(), server))
}

/// `redis://10.0.0.5:6379/0 prefix=tidegate:`, on one line and without secrets.
pub fn storage(storage: &Storage, filled: &Filled) -> String {
    if *storage == Storage::State {
        return "the state folder".to_owned();
    }
    let shown = |WrittenSetting { name, value, .. }| match name.split_once(' ') {
        Some((_, property)) => format!(" {property}={value}"),
        None => value,
    };
    settings(filled, |lines| storage::write(lines.line(), storage)).into_iter().map(shown).collect()
}

/// The lines of a site or a route, each with what it says, but for what is matched and what answers: the options that
/// are set, in the order of the reference, and its steps.
pub fn block<'m>(options: &'m RouteOptions, steps: &'m [Step], form: Form<'_>) -> Vec<(&'m dyn Debug, String)> {
    let mut written = Vec::new();
    let mut add = |part: &'m dyn Debug, write: &dyn Fn(&mut Writer)| {
        let line = &mut Writer::new(form);
        write(line);
        written.extend(Some((part, line.take())).filter(|(_, text)| !text.is_empty()));
    };
    directives::write_options(options, &mut add);
    for step in steps {
        add(step, &|line| directives::write_step(line, step));
    }
    written
}

/// `respond 200 body="ok"`
pub fn terminal(terminal: &Terminal, form: Form<'_>) -> String {
    let line = &mut Writer::new(form);
    directives::write_terminal(line, terminal);
    line.take()
}

/// `proxy "api" { retry attempts=2 }`
pub fn tcp_target(target: &TcpTarget, filled: &Filled) -> String {
    let line = &mut Writer::new(Form::Shown(filled));
    tcp::write_target(line, target);
    line.take()
}

/// `dns="api.internal:8080" ttl-min="1s" ttl-max="5m"`: what stands behind the word `discover`.
pub fn discover(discover: &Discover, form: Form<'_>) -> String {
    let line = &mut Writer::new(form);
    pool::discover::write(line, discover);
    line.take()
}

/// `match method="GET,POST" not client="10.0.0.0/8"`
pub fn match_line(line: &MatchLine, form: Form<'_>) -> String {
    let written = &mut Writer::new(form);
    matching::write(written, line);
    written.take()
}

/// `not header="x-channel: beta*"`
pub fn condition(condition: &Condition, filled: &Filled) -> String {
    let line = &mut Writer::new(Form::Shown(filled));
    matching::write_condition(line, condition);
    line.take()
}

#[cfg(test)]
mod tests {
    use super::{Form, Lines, Writer, block, match_line, of_pool, of_process, of_tls, process, quoted, show_path, terminal};
    use crate::diagnostics::{Diagnostic, Location, SourceFile, Sources};
    use crate::directives::pool::server;
    use crate::directives::tests::loaded_examples;
    use crate::directives::{LANGUAGE, listener, matching, origin, pool, tcp, tls};
    use crate::language::{Lower, Seen};
    use crate::load::load_path;
    use crate::lowering::{Environment, Lowering};
    use crate::syntax;
    use crate::table::Place;
    use std::net::{IpAddr, SocketAddr};
    use std::path::Path;
    use std::sync::Arc;
    use tidegate_model::{
        Configuration, ListenerOptions, ListenerPlace, MatchLine, PoolName, Route, RouteOptions, Site, SiteAddress, SniRoute,
        Step, Tcp, Terminal,
    };

    /// What stands in a block.
    #[derive(Debug, Default, PartialEq)]
    struct Block {
        matches: Vec<MatchLine>,
        options: RouteOptions,
        steps: Vec<Step>,
        terminal: Option<Terminal>,
    }

    fn lowered(text: &str, configuration: &Configuration) -> Result<Block, String> {
        let mut sources = Sources::default();
        let file = SourceFile { name: "written".into(), text: text.into(), directory: "/".into() };
        let file = sources.add(file);
        let nodes = syntax::parse(&sources, file).map_err(|errors| format!("{errors:?}"))?;
        let environment = Environment::Given([].into());
        let mut lowering = Lowering::new(&sources, &environment);
        let somewhere = |pool: &Arc<tidegate_model::Pool>| {
            let at = Location { file, span: 0..0 };
            (
                pool.name.to_string(),
                crate::lowering::WrittenPool { at, is_fastcgi: pool.protocol == tidegate_model::Protocol::FastCgi },
            )
        };
        lowering.pools_written = Arc::new(configuration.pools.iter().map(somewhere).collect());
        let (mut block, mut seen) = (Block::default(), Seen::new());
        for node in &nodes {
            let Some(line) = LANGUAGE.line(&mut lowering, node, Place::Route, &mut seen) else { continue };
            match line.directive.lower {
                Lower::Step(lower) => block.steps.extend(lower(&mut lowering, &line)),
                Lower::Option(lower) => lower(&mut lowering, &mut block.options, &line),
                Lower::Terminal(lower) => block.terminal = lower(&mut lowering, &line),
                _ => block.matches.extend(matching::read_line(&mut lowering, &line)),
            }
        }
        let is_faulty = lowering.diagnostics.iter().any(Diagnostic::is_error);
        if is_faulty { Err(format!("{:?}", lowering.diagnostics)) } else { Ok(block) }
    }

    /// What is written is lowered to what it was written from; how many lines there were.
    fn check_round_trip(configuration: &Configuration) -> usize {
        // A pool written in place has a name that is made of its servers and a digest of its settings, and that nobody
        // writes.
        let is_made = |pool: &PoolName| pool.0.contains(['#', ',']);
        let mut blocks = Vec::new();
        for site in &configuration.sites {
            blocks.push(Block { options: site.options.clone(), steps: site.steps.clone(), ..Block::default() });
            for Route { name: _, origin: _, paths: _, matches, options, steps, terminal } in site.routes.iter().cloned() {
                blocks.push(Block { matches, options, steps, terminal: Some(terminal) });
            }
        }
        let mut count = 0;
        for mut expected in blocks {
            expected.options.mirrors.named.retain(|mirror| !is_made(&mirror.pool));
            expected.options.error_pages.retain(|page| !page.pool().is_some_and(is_made));
            expected.steps.retain(|step| !step.pool().is_some_and(is_made));
            expected.terminal = expected.terminal.filter(|terminal| match terminal {
                Terminal::Proxy { pool, .. } => !is_made(pool),
                Terminal::FastCgi(fastcgi) => !is_made(&fastcgi.pool),
                Terminal::Split(split) => !split.pools().any(is_made),
                Terminal::Respond { .. } | Terminal::Redirect { .. } | Terminal::Files(_) => true,
            });
            let Block { matches, options, steps, terminal: end } = &expected;
            let mut lines: Vec<String> = matches.iter().map(|line| match_line(line, Form::Whole)).collect();
            lines.extend(block(options, steps, Form::Whole).into_iter().map(|(_, text)| text));
            lines.extend(end.as_ref().map(|end| terminal(end, Form::Whole)));
            let text = lines.join("\n");
            assert_eq!(lowered(&text, configuration).as_ref(), Ok(&expected), "for {text}");
            count += lines.len();
        }
        count
    }

    fn examples() -> Vec<Configuration> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let examples = std::fs::read_dir(root.join("examples")).expect("there are examples");
        let files = examples.map(|entry| entry.expect("it can be listed").path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "kdl"));
        files.filter_map(|path| load_path(&path).configuration).collect()
    }

    #[test]
    fn what_is_written_is_lowered_to_what_it_was_written_from() {
        let of_directives: usize = loaded_examples().iter().map(check_round_trip).sum();
        assert!(of_directives > 100, "{of_directives}");
        let of_examples: usize = examples().iter().map(check_round_trip).sum();
        assert!(of_examples > 50, "{of_examples}");
    }

    /// The text of a configuration, everything of it, secrets too, on a line for each block at the top level.
    /// The product writes no whole file from its model; this puts what directives write into the blocks where they
    /// are read.
    fn whole(configuration: &Configuration) -> String {
        let mut lines = Lines::new(Form::Whole);
        process(&mut lines, configuration);
        lines.extend(&configuration.listeners, write_listener);
        lines.extend(&configuration.tcp, write_tcp);
        lines.extend(&configuration.pools, |line, pool| {
            line.name("pool").argument(&pool.name.0).lines(|lines| {
                lines.extend(&pool.servers, server::write);
                if pool.is_declared_empty() {
                    lines.line().name("server").argument("none");
                }
                pool::write_settings(lines, pool);
            });
        });
        lines.extend(&configuration.sites, |line, site| write_site(line, site));
        lines.text("\n")
    }

    fn write_listener(line: &mut Writer, options: &ListenerOptions) {
        line.name("listener").argument(match options.place {
            ListenerPlace::Tcp { ip, port } => listen_address(ip, port),
            ListenerPlace::Unix(name) => name.to_string(),
        });
        let mut lines = Lines::new(Form::Whole);
        listener::write_options(&mut lines, options);
        // The block has to be there, empty or not.
        line.name(format_args!("{{ {} }}", lines.text("; ")));
    }

    fn write_tcp(line: &mut Writer, Tcp { ip, port, by_name, otherwise }: &Tcp) {
        line.name("tcp").argument(listen_address(*ip, *port));
        line.lines(|lines| {
            for SniRoute { names, to } in by_name {
                lines.line().name("sni").arguments(names).block([to], tcp::write_target);
            }
            lines.extend(otherwise, tcp::write_target);
        });
    }

    /// `:443`, `192.0.2.1:443`
    fn listen_address(ip: Option<IpAddr>, port: u16) -> String {
        ip.map_or_else(|| format!(":{port}"), |ip| SocketAddr::new(ip, port).to_string())
    }

    fn write_site(line: &mut Writer, Site { origin, addresses, tls, options, steps, routes }: &Site) {
        // Without a scheme where port 80 redirects.
        let shown = |address: &SiteAddress| {
            if address.redirect_from_http { address.host.to_string() } else { address.to_string() }
        };
        line.name("site").arguments(addresses.iter().map(shown)).lines(|lines| {
            let listen = addresses.first().map_or(&[][..], |address| &address.listen);
            if !listen.is_empty() {
                lines.line().name("listen").arguments(listen);
            }
            lines.extend(origin.as_deref(), origin::write);
            tls::write(lines, tls);
            write_block(lines, options, steps);
            lines.extend(routes, write_route);
        });
    }

    fn write_route(line: &mut Writer, Route { name, origin, paths, matches, options, steps, terminal: end }: &Route) {
        line.name("route").arguments(paths.iter().map(show_path)).optional("name", name.as_ref()).lines(|lines| {
            lines.extend(origin.as_deref(), origin::write);
            lines.extend(matches, |line, matched| {
                line.name(match_line(matched, Form::Whole));
            });
            write_block(lines, options, steps);
            lines.line().name(terminal(end, Form::Whole));
        });
    }

    fn write_block(lines: &mut Lines, options: &RouteOptions, steps: &[Step]) {
        lines.extend(block(options, steps, Form::Whole), |line, (_, text)| {
            line.name(text);
        });
    }

    /// Pools written in place get names that can be written.
    fn with_names(text: &str, configuration: &Configuration) -> String {
        let made = |pool: &&Arc<tidegate_model::Pool>| pool.name.0.contains([':', ',', '#', '/']);
        let made: Vec<_> = configuration.pools.iter().filter(made).enumerate().collect();
        made.iter().fold(text.to_owned(), |text, (number, pool)| {
            let name = quoted(&pool.name.0);
            ["pool ", "pool=", "proxy ", "fastcgi ", "mirror ", "forward-auth ", "PoolName("]
                .iter()
                .fold(text, |text, word| text.replace(&format!("{word}{name}"), &format!("{word}\"made-{number}\"")))
        })
    }

    /// What is written of a whole configuration is read as the same one, secrets included.
    fn check_whole(configuration: &Configuration) -> bool {
        let text = with_names(&whole(configuration), configuration);
        let given = Environment::Given([].into());
        let loaded = crate::load::load_with("written", &text, Path::new("/"), &given);
        let Some(read) = loaded.configuration else { panic!("{:?} for\n{text}", loaded.diagnostics) };
        assert_eq!(format!("{read:?}"), with_names(&format!("{configuration:?}"), configuration), "for\n{text}");
        assert_eq!(whole(&read), text);
        true
    }

    /// Settings that may be shown have no secret in them, whatever property it stands in.
    fn check_masked(configuration: &Configuration) {
        let shown =
            configuration.pools.iter().flat_map(|pool| of_pool(pool, &configuration.filled)).chain(of_process(configuration));
        let shown = shown.chain(configuration.sites.iter().flat_map(|site| of_tls(&site.tls, &configuration.filled)));
        let shown: Vec<String> = shown.map(|setting| format!("{} {}\n", setting.name, setting.value)).collect();
        let shown = shown.concat();
        let text = whole(configuration);
        for name in LANGUAGE.secret_properties() {
            for (_, behind) in text.match_indices(&format!(" {name}=\"")).map(|(at, found)| (at, &text[at + found.len()..])) {
                let secret = behind.split('"').next().unwrap_or_default();
                assert!(!shown.contains(secret), "{name}={secret} in\n{shown}");
            }
        }
    }

    #[test]
    fn a_whole_configuration_is_written_as_it_is_read() {
        let of_directives = loaded_examples();
        of_directives.iter().for_each(check_masked);
        let of_directives = of_directives.iter().filter(|configuration| check_whole(configuration)).count();
        assert!(of_directives > 100, "{of_directives}");
        let of_examples = examples().iter().filter(|configuration| check_whole(configuration)).count();
        assert!(of_examples > 5, "{of_examples}");
    }

    #[test]
    fn settings_of_a_pool_are_what_can_be_written() {
        let check = |lines: &str, expected: &[&str]| {
            let text = format!(
                "site \"http://a.test\" {{ proxy \"api\" }}\npool \"api\" {{\nserver \"10.0.0.4:80\" zone=\"eu-1\"\nserver \"10.0.0.5:80\"\n{lines}\n}}"
            );
            let loaded = crate::load::load_text("test.kdl", &text, Path::new("/etc/tidegate"));
            let configuration = loaded.configuration.unwrap_or_else(|| panic!("{text}: {:?}", loaded.diagnostics));
            let settings = of_pool(&configuration.pools[0], &configuration.filled).into_iter();
            let seen: Vec<String> = settings.map(|setting| format!("{} {}", setting.name, setting.value)).collect();
            for expected in expected {
                assert!(seen.iter().any(|seen| seen == expected), "{expected} is not in {seen:?}");
            }
            assert!(!seen.iter().any(|seen| seen.contains("hunter2")), "{seen:?}");
            check_whole(&configuration);
            seen.len()
        };
        let by_default =
            ["balance p2c", "outlier failures 5", "timeout first-byte 1m", "retry on connect,reset", "keep-alive ping 30s"];
        assert_eq!(check("", &by_default), 15);
        check(
            r#"zone "eu-1"
            discover dns="https://api.internal:8443" resolver="10.0.0.2" ttl-max="30s"
            discover consul="api" agent="http://10.0.0.9:8500" token="hunter2"
            balance "hash" key="{client.ip}" load-max="125%"
            sticky cookie="route" secret="hunter2-hunter2-hunter2" max-age="1h"
            health "/healthz" host="a.test" header="X-A: b" header="X-Token: hunter2" expect="200-299,401" body="~^o k" port=81
            outlier "off"
            slow-start "30s"
            retry attempts=3 on="timeout,503" budget="10%" try-timeout="2s"
            hedge "200ms"
            max-connections 10
            max-requests 20 total=30 queue=40 queue-timeout="1s"
            adaptive-concurrency max=50
            keep-alive idle="30s" requests=1000 age="10m" ping="off"
            protocol "http1"
            tls sni="api.internal"
            send-proxy-protocol "v1""#,
            &[
                "discover dns=\"https://api.internal:8443\" resolver=\"10.0.0.2:53\" ttl-min=\"1s\" ttl-max=\"30s\"; \
                 consul=\"api\" agent=\"http://10.0.0.9:8500\" token=\"***\"",
                "balance hash",
                "balance key {client.ip}",
                "balance load-max 125%",
                "zone eu-1",
                "sticky cookie route",
                "sticky secret ***",
                "sticky max-age 1h",
                "health /healthz",
                "health header \"X-A: b\" \"X-Token: ***\"",
                "health body \"~^o k\"",
                "outlier off",
                "retry try-timeout 2s",
                "hedge 200ms",
                "max-connections 10",
                "max-connections queue 40",
                "max-requests total 30",
                "adaptive-concurrency max 50",
                "keep-alive ping off",
                "tls sni api.internal",
                "tls verify #true",
                "send-proxy-protocol v1",
            ],
        );
    }
}
