//! `proxy "api"`, `proxy "10.0.0.4:8080" { … }`: hands the request to an upstream.

use crate::diagnostics::{Diagnostic, nearest, shortened};
use crate::directives::pool::retry::{self, RETRY, read_retry};
use crate::directives::pool::server::add_server;
use crate::directives::pool::{self, PoolDraft};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place, Repeat};
use crate::written_line::Writer;
use std::hash::Hasher;
use std::sync::Arc;
use tidegate_model::{Discover, DnsQuestion, Pool, PoolName, RouteRetry, Secret, Server, Terminal, UpstreamAddress};

pub const ARGUMENTS: &[Argument] = &[Argument::any(
    "upstreams",
    Kind::Text("the name of a pool, or upstream addresses"),
    "The name of a pool; or one or more addresses `[scheme://]host:port` or `unix:PATH`, which are a pool written in place.",
)];

pub static PROXY: Directive = Directive {
    name: "proxy",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: ARGUMENTS,
    block: Block::Optional(Place::Pool),
    summary: "Hands the request to an upstream.",
    details: "A text with a `:` is an address, any other is the name of a pool. Behind addresses the block takes everything that a `pool` takes; \
              behind the name of a pool it takes `retry` alone, which is then for the requests of this route. Pools written in place that are equal are one \
              pool.\n\n\
              In metrics and logs, a pool written in place is named by its addresses, as in `10.0.0.4:8080,10.0.0.5:8080`. When anything \
              in it is not as by default, a digest of its settings follows: `10.0.0.4:8080,10.0.0.5:8080#6a5f0b2c9d3e4178`.",
    example: "proxy \"10.0.0.4:8080\" \"10.0.0.5:8080\" {\n    balance \"least-conn\"\n}",
    lower: Lower::Terminal(lower),
    ..Directive::PLAIN
};

/// Also the lines of a `split`.
pub fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Terminal> {
    read_pool(lowering, line, true).map(|(pool, retry)| Terminal::Proxy { pool, retry })
}

/// The pool that a line names or writes in place. `takes_retry`: behind a name, `retry` may stand in the block.
pub fn read_pool(lowering: &mut Lowering<'_>, line: &Line<'_>, takes_retry: bool) -> Option<(PoolName, RouteRetry)> {
    let texts: Vec<Text> = line.read_arguments(lowering).into_iter().map(Read::text).collect();
    let all_read = texts.len() == line.arguments().count();
    let (addresses, names): (Vec<&Text>, Vec<&Text>) = texts.iter().partition(|text| text.value.contains([':', '/']));
    if let (Some(name), Some(address)) = (names.first(), addresses.first()) {
        let message = format!("`{}` is neither an address nor alone", name.shown());
        let diagnostic = Diagnostic::error("mixed-upstreams", name.location.clone(), message)
            .label(address.location.clone(), "this is an address")
            .help(format!("an address needs a port, as in `{}:8080`; a pool is named alone", name.shown()));
        lowering.report(diagnostic);
        return None;
    }
    if let Some(name) = names.first() {
        return named(lowering, line, name, &names, takes_retry);
    }
    let mut draft = PoolDraft { faulty: !all_read, ..PoolDraft::default() };
    for text in addresses {
        match UpstreamAddress::parse(&text.value) {
            Ok(address) => add_server(lowering, &mut draft, Server::new(address), text.location.clone()),
            Err(reason) => {
                draft.faulty = true;
                lowering.report(text.error("bad-address", reason));
            }
        }
    }
    pool::lower_children(lowering, &mut draft, line);
    if line.arguments().next().is_none() && draft.servers.is_empty() && draft.discover.is_empty() && !draft.faulty {
        let word = line.directive.name;
        let diagnostic = Diagnostic::error(
            "missing-argument",
            line.location(),
            format!("`{word}` needs the name of a pool, or upstream addresses"),
        )
        .help(format!("for example `{word} \"127.0.0.1:8080\"`"));
        lowering.report(diagnostic);
        return None;
    }
    let pool = pool::finish(lowering, draft, PoolName("".into()), line.location()).filter(|_| all_read)?;
    Some((share(lowering, pool), RouteRetry::OfPool))
}

fn named(
    lowering: &mut Lowering<'_>,
    line: &Line<'_>,
    name: &Text,
    names: &[&Text],
    takes_retry: bool,
) -> Option<(PoolName, RouteRetry)> {
    if let Some(second) = names.get(1) {
        let diagnostic = Diagnostic::error("too-many-arguments", second.location.clone(), "only one pool can be named")
            .help("an upstream address needs a port, as in `10.0.0.4:8080`");
        lowering.report(diagnostic);
    }
    let mut retry = RouteRetry::OfPool;
    for setting in line.lines(lowering) {
        if takes_retry && setting.directive.name == RETRY.name {
            retry = read_retry(lowering, &setting).map_or(RouteRetry::Off, RouteRetry::Own);
            continue;
        }
        lowering.note_influence();
        let message = format!("`{}` belongs in the pool", setting.directive.name);
        let mut diagnostic = Diagnostic::error("settings-of-a-named-pool", setting.location(), message);
        if let Some(at) = lowering.pools_written.get(&name.value) {
            diagnostic = diagnostic.label(at.clone(), "the pool");
        }
        lowering.report(diagnostic.help(if takes_retry {
            "behind the name of a pool only `retry` can stand here"
        } else {
            "behind the name of a pool no settings can stand here"
        }));
    }
    lowering.pools_used.insert(name.value.clone());
    if !lowering.pools_written.contains_key(&name.value) {
        lowering.note_influence();
        let diagnostic = name.error("unknown-pool", format!("there is no pool `{}`", shortened(&name.value)));
        let candidate = nearest(&name.value, lowering.pools_written.keys().map(String::as_str)).map(str::to_string);
        lowering.report(match candidate {
            Some(candidate) => diagnostic.help(format!("did you mean `{candidate}`?")),
            None if name.value.bytes().all(|byte| byte.is_ascii_digit()) => {
                diagnostic.help(format!("a server needs a host, as in `127.0.0.1:{}`", shortened(name.shown())))
            }
            None => diagnostic.help(format!("an upstream address needs a port, as in `{}:8080`", shortened(name.shown()))),
        });
        return None;
    }
    Some((PoolName(name.value.as_str().into()), retry))
}

/// Names a pool by what it contains, and keeps one of those that are equal.
fn share(lowering: &mut Lowering<'_>, mut pool: Pool) -> PoolName {
    pool.name = content_name(&pool);
    let name = pool.name.clone();
    lowering.pools_in_place.entry(name.clone()).or_insert_with(|| Arc::new(pool));
    name
}

/// Where its servers are; and when anything is not as by default, a digest of all settings, so that equal names are
/// equal pools.
fn content_name(pool: &Pool) -> PoolName {
    let servers = pool.servers.iter().map(|server| server.address.to_string());
    let addresses: Vec<String> = servers.chain(pool.discover.iter().map(source)).collect();
    let addresses = addresses.join(",");
    let addresses_alone = pool.servers.iter().map(|server| Server::new(server.address.clone())).collect();
    let is_plain = *pool == Pool::new(pool.name.clone(), addresses_alone);
    if is_plain {
        return PoolName(addresses.into());
    }
    let mut digest = Fnv(0xcbf2_9ce4_8422_2325);
    digest.write(format!("{pool:?}").as_bytes());
    // What is written of a secret is the same for all of them, and pools with different ones are different.
    for secret in secrets(pool) {
        digest.write(format!("{}:", secret.reveal().len()).as_bytes());
        digest.write(secret.reveal().as_bytes());
    }
    PoolName(format!("{addresses}#{:016x}", digest.finish()).into())
}

/// In the order in which they are written.
fn secrets(pool: &Pool) -> impl Iterator<Item = &Secret> {
    let of_discover = pool.discover.iter().filter_map(|discover| match discover {
        Discover::Consul(consul) => consul.token.as_ref(),
        Discover::Dns(_) | Discover::File { .. } | Discover::Docker(_) => None,
    });
    of_discover.chain(pool.sticky.iter().filter_map(|sticky| sticky.secret.as_ref()))
}

/// `dns:api.internal:8080`, `consul:api`
fn source(discover: &Discover) -> String {
    let asked = match discover {
        Discover::Dns(dns) => match &dns.question {
            DnsQuestion::Addresses { name, port } => format!("{name}:{port}"),
            DnsQuestion::Services { name } => name.clone(),
        },
        Discover::File { path } => path.display().to_string(),
        Discover::Docker(docker) => docker.label.clone(),
        Discover::Consul(consul) => consul.service.clone(),
    };
    format!("{}:{asked}", discover.kind())
}

/// FNV-1a: the standard library's hasher may change between releases, and the name is an identity over reloads.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

pub fn write(line: &mut Writer, pool: &PoolName, retry: &RouteRetry) {
    line.name("proxy").argument(&pool.0);
    write_retry(line, retry);
}

/// The block of a `proxy` with the name of a pool.
pub fn write_retry(line: &mut Writer, retry: &RouteRetry) {
    line.block([retry], |line, retry| match retry {
        RouteRetry::OfPool => {}
        RouteRetry::Off => {
            line.name("retry").argument("off");
        }
        RouteRetry::Own(retry) => retry::write(line, retry),
    });
}
