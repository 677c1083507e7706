//! `proxy "api"`, `proxy "10.0.0.4:8080" { … }`: hands the request to an upstream.

use crate::diagnostics::{Diagnostic, nearest, shortened};
use crate::directives::pool::connection::PROTOCOL;
use crate::directives::pool::retry::{self, RETRY, read_retry};
use crate::directives::pool::server::add_server;
use crate::directives::pool::{self, PoolDraft};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat};
use crate::written_line::Writer;
use std::hash::Hasher;
use std::sync::Arc;
use tidegate_model::discover::ContainersDiscover;
use tidegate_model::{
    Discover, KeepAlive, Pool, PoolName, Protocol, Retry, RouteRetry, Secret, Server, Terminal, UpstreamAddress,
};

pub const ARGUMENTS: &[Argument] = &[Argument::any(
    "upstreams",
    Kind::Text("the name of a pool, or upstream addresses"),
    "The name of a pool; or one or more addresses `[scheme://]host:port` or `unix:PATH`, which are a pool written in place.",
)];

/// Also of the lines of a `split`.
pub const REWRITE_LOCATION: Property = Property::once(
    "rewrite-location",
    Kind::Switch,
    "Whether `Location` and cookies of an application beneath a prefix are translated to what clients see; `#false` when left out.",
);

const ADDRESS_OF_SCRIPTS: &str = "for example `unix:/run/php/php8.2-fpm.sock` or `127.0.0.1:9000`";

pub static PROXY: Directive = Directive {
    name: "proxy",
    places: &[Place::Site, Place::Route, Place::Arm],
    repeat: Repeat::Many,
    arguments: ARGUMENTS,
    properties: &[REWRITE_LOCATION],
    block: Block::Optional(Place::Pool),
    summary: "Hands the request to an upstream.",
    details: "A text with a `:` is an address, any other is the name of a pool. Behind addresses the block takes everything that a `pool` takes; \
              behind the name of a pool it takes `retry` alone, which is then for the requests of this route. Pools written in place that are equal are one \
              pool.\n\n\
              In metrics and logs, a pool written in place is named by its addresses, as in `10.0.0.4:8080,10.0.0.5:8080`. When anything \
              in it is not as by default, a digest of its settings follows: `10.0.0.4:8080,10.0.0.5:8080#6a5f0b2c9d3e4178`.\n\n\
              `rewrite-location=#true` is for an application that `strip-prefix` has mounted beneath a prefix and that does not know of it: in `route \"/app/*\" { strip-prefix \"/app\"; proxy \"app\" rewrite-location=#true; }` \
              its `Location: /login` is `/app/login` for the client. So are `Content-Location`, the URL of `Refresh` and the `Path` of cookies; what `add-prefix` has put in front is taken off. URLs that name a server of the \
              pool, or the host that was asked for, are translated and lose the host; those of others stay, and so does what begins with the prefix already. A `Domain` of the server's own is left out, and a cookie `__Host-…` keeps its path. \
              The application is told the prefix in `X-Forwarded-Prefix`, behind that of a trusted proxy. `GET /app` is redirected to `/app/`, so that relative links lead into it. Links in pages are not changed, and neither is what a `rewrite` does undone.",
    example: "proxy \"10.0.0.4:8080\" \"10.0.0.5:8080\" {\n    balance \"least-conn\"\n}",
    lower: Lower::Terminal(lower),
    said_otherwise: &[(
        &["pool", "upstream", "backend", "cluster", "service", "to", "server", "url"],
        "the pool or the servers stand behind `proxy`, as in `proxy \"app\"` or `proxy \"127.0.0.1:9000\"`",
    )],
    ..Directive::PLAIN
};

/// What a line sends to its pool.
pub enum Sends<'d> {
    Requests,
    /// Copies of requests, which nobody sends again.
    Copies,
    /// Connections as they are, whatever is spoken on them.
    Connections,
    /// Requests that scripts answer. Lines of the block that are no settings of a pool go there.
    ToScripts(&'d mut dyn FnMut(&mut Lowering<'_>, &Line<'_>)),
    /// Questions about requests. Paths behind the addresses go to `paths`, whether one of these is `grpc://` to
    /// `is_grpc`, lines of the block that are no settings of a pool to `take`.
    Questions {
        paths: &'d mut Vec<Text>,
        is_grpc: &'d mut bool,
        take: &'d mut dyn FnMut(&mut Lowering<'_>, &Line<'_>),
    },
}

impl Sends<'_> {
    fn takes_retry(&self) -> bool {
        !matches!(self, Sends::Copies)
    }

    /// Why the line does not fit to what its pool speaks, and what to do.
    fn conflict(&self, is_fastcgi: bool) -> Option<(&'static str, &'static str)> {
        match (self, is_fastcgi) {
            (Sends::Requests | Sends::Copies | Sends::Questions { .. }, true) => Some((
                "HTTP is sent here, and the servers of the pool speak FastCGI",
                "scripts answer with `fastcgi`, as in `fastcgi \"php\" root=\"/srv/www\"`",
            )),
            (Sends::ToScripts(_), false) => Some((
                "scripts are asked by FastCGI, and the servers of the pool speak HTTP",
                "add `protocol \"fastcgi\"` to the pool, or hand requests on with `proxy`",
            )),
            (Sends::Requests | Sends::Copies | Sends::Questions { .. }, false)
            | (Sends::ToScripts(_), true)
            | (Sends::Connections, _) => None,
        }
    }
}

/// Also the lines of a `split`.
pub fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Terminal> {
    let rewrites_location = line.switch(lowering, REWRITE_LOCATION.name).unwrap_or(false);
    let (pool, retry) = read_pool(lowering, line, Sends::Requests)?;
    Some(Terminal::Proxy { pool, retry, rewrites_location })
}

/// The pool that a line names or writes in place.
pub fn read_pool(lowering: &mut Lowering<'_>, line: &Line<'_>, sends: Sends<'_>) -> Option<(PoolName, RouteRetry)> {
    let texts: Vec<Text> = line.read_arguments(lowering).into_iter().map(Read::text).collect();
    let all_read = texts.len() == line.arguments().count();
    read_pool_of(lowering, line, (texts, all_read), sends)
}

/// The pool that these texts name, or are the addresses of, with the settings in the block of the line. The flag says
/// whether all that stand there are among them.
pub fn read_pool_of(
    lowering: &mut Lowering<'_>,
    line: &Line<'_>,
    (mut texts, all_read): (Vec<Text>, bool),
    mut sends: Sends<'_>,
) -> Option<(PoolName, RouteRetry)> {
    if let Sends::Questions { paths, is_grpc, .. } = &mut sends {
        paths.extend(texts.iter_mut().filter_map(Text::take_path));
        for text in &mut texts {
            if let Some(rest) = text.value.strip_prefix("grpc").filter(|rest| rest.starts_with("://") || rest.starts_with("s://"))
            {
                text.value = format!("http{rest}");
                **is_grpc = true;
            }
        }
    }
    let (addresses, names): (Vec<&Text>, Vec<&Text>) = texts.iter().partition(|text| text.value.contains([':', '/']));
    if let (Some(name), Some(address)) = (names.first(), addresses.first()) {
        let message = format!("`{}` is neither an address nor alone", name.shown());
        let diagnostic = Diagnostic::error("mixed-upstreams", name.location.clone(), message)
            .label(address.location.clone(), "this is an address")
            .help(format!("an address needs a port, as in `{}:8080`; a pool is named alone", name.shown()));
        return lowering.refuse(diagnostic);
    }
    if let Some(name) = names.first() {
        return named(lowering, line, name, &names, sends);
    }
    let mut draft = PoolDraft { faulty: !all_read, ..PoolDraft::default() };
    let is_scripts = matches!(sends, Sends::ToScripts(_));
    if is_scripts {
        draft.pool.protocol = Protocol::FastCgi;
    }
    let has_addresses = !addresses.is_empty();
    for text in addresses {
        match parse_address(&text.value, is_scripts) {
            Ok(address) => add_server(lowering, &mut draft, Server::new(address), text.location.clone()),
            Err(reason) => {
                draft.faulty = true;
                let diagnostic = text.error("bad-address", reason);
                lowering.report(if is_scripts { diagnostic.help(ADDRESS_OF_SCRIPTS) } else { diagnostic });
            }
        }
    }
    for setting in line.lines(lowering) {
        match (setting.directive.lower, &mut sends) {
            (Lower::Inside, Sends::ToScripts(take) | Sends::Questions { take, .. }) => take(lowering, &setting),
            _ => pool::lower_line(lowering, &mut draft, &setting),
        }
    }
    if let (Some((message, help)), Some(at)) =
        (sends.conflict(draft.pool.protocol == Protocol::FastCgi), draft.at.get(PROTOCOL.name))
    {
        return lowering.refuse(Diagnostic::error("conflicting-protocol", at.clone(), message).help(help));
    }
    if !has_addresses && draft.servers.is_empty() && draft.discover.is_empty() && !draft.faulty {
        let word = line.directive.name;
        let diagnostic = Diagnostic::error(
            "missing-argument",
            line.location(),
            format!("`{word}` needs the name of a pool, or upstream addresses"),
        )
        .help(format!("for example `{word} \"127.0.0.1:8080\"`"));
        return lowering.refuse(if is_scripts { diagnostic.help(ADDRESS_OF_SCRIPTS) } else { diagnostic });
    }
    let pool = pool::finish(lowering, draft, PoolName("".into()), line.location()).filter(|_| all_read)?;
    Some((share(lowering, pool), RouteRetry::OfPool))
}

fn parse_address(text: &str, is_scripts: bool) -> Result<UpstreamAddress, String> {
    match text.split_once("://") {
        Some((scheme, rest)) if is_scripts && scheme != "unix" => Err(format!("FastCGI has no `{scheme}://`; write `{rest}`")),
        Some(_) | None => UpstreamAddress::parse(text),
    }
}

fn named(
    lowering: &mut Lowering<'_>,
    line: &Line<'_>,
    name: &Text,
    names: &[&Text],
    mut sends: Sends<'_>,
) -> Option<(PoolName, RouteRetry)> {
    if let Some(second) = names.get(1) {
        let diagnostic = Diagnostic::error("too-many-arguments", second.location.clone(), "only one pool can be named")
            .help("an upstream address needs a port, as in `10.0.0.4:8080`");
        lowering.report(diagnostic);
    }
    let mut retry = RouteRetry::OfPool;
    for setting in line.lines(lowering) {
        if sends.takes_retry() && setting.directive.name == RETRY.name {
            retry = read_retry(lowering, &setting).map_or(RouteRetry::Off, RouteRetry::Own);
            continue;
        }
        if let (Lower::Inside, Sends::ToScripts(take) | Sends::Questions { take, .. }) = (setting.directive.lower, &mut sends) {
            take(lowering, &setting);
            continue;
        }
        lowering.note_influence();
        let message = format!("`{}` belongs in the pool", setting.directive.name);
        let mut diagnostic = Diagnostic::error("settings-of-a-named-pool", setting.location(), message);
        if let Some(pool) = lowering.pools_written.get(&name.value) {
            diagnostic = diagnostic.label(pool.at.clone(), "the pool");
        }
        lowering.report(diagnostic.help(match sends {
            Sends::Requests | Sends::Connections | Sends::Questions { .. } => {
                "behind the name of a pool only `retry` can stand here"
            }
            Sends::Copies => "behind the name of a pool no settings can stand here",
            Sends::ToScripts(_) => "behind the name of a pool only `env` and `retry` can stand here",
        }));
    }
    lowering.pools_used.insert(name.value.clone());
    let Some(pool) = lowering.pools_written.get(&name.value) else {
        lowering.note_influence();
        let diagnostic = name.error("unknown-pool", format!("there is no pool `{}`", shortened(&name.value)));
        let candidate = nearest(&name.value, lowering.pools_written.keys().map(String::as_str)).map(str::to_string);
        return lowering.refuse(match candidate {
            Some(candidate) => diagnostic.help(format!("did you mean `{candidate}`?")),
            None if name.value.bytes().all(|byte| byte.is_ascii_digit()) => {
                diagnostic.help(format!("a server needs a host, as in `127.0.0.1:{}`", shortened(name.shown())))
            }
            None if name.value.starts_with('$') => diagnostic.help(
                "no variable stands there: which pool is asked is looked up by `split to=\"{map.tenants}\"`, in a `map \"tenants\" key=\"{host}\" { row \"a.example\" \"app\" }`",
            ),
            None => diagnostic.help(format!("an upstream address needs a port, as in `{}:8080`", shortened(name.shown()))),
        });
    };
    if let Some((message, help)) = sends.conflict(pool.is_fastcgi) {
        let diagnostic = name.error("conflicting-protocol", message).label(pool.at.clone(), "the pool").help(help);
        lowering.note_influence();
        return lowering.refuse(diagnostic);
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
/// equal pools. Servers that speak
/// another protocol than HTTP are others than those of the same addresses that speak it.
fn content_name(pool: &Pool) -> PoolName {
    let servers = pool.servers.iter().map(|server| server.address.to_string());
    let addresses: Vec<String> = servers.chain(pool.discover.iter().map(source)).collect();
    let addresses = addresses.join(",");
    let addresses_alone = pool.servers.iter().map(|server| Server::new(server.address.clone())).collect();
    let (protocol, keep_alive) = (pool.protocol, KeepAlive::of(pool.protocol));
    let mut usual = Pool { protocol, keep_alive, ..Pool::new(pool.name.clone(), addresses_alone) };
    if pool.servers.is_empty() && matches!(pool.discover.as_slice(), [Discover::Containers(_)]) {
        usual.discover.clone_from(&pool.discover);
        usual.retry = usual.retry.map(|retry| Retry { wait: Some(ContainersDiscover::WAIT), ..retry });
    }
    let is_plain = *pool == usual;
    if is_plain && protocol == Protocol::Auto {
        return PoolName(addresses.into());
    }
    if is_plain && !protocol.is_http() {
        return PoolName(format!("{addresses}#{}", protocol.name()).into());
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
    pool.discover.iter().filter_map(Discover::secret).chain(pool.sticky.iter().filter_map(|sticky| sticky.secret.as_ref()))
}

/// `dns:api.internal:8080`, `consul:api`
fn source(discover: &Discover) -> String {
    format!("{}:{}", discover.kind(), discover.asked())
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

pub fn write(line: &mut Writer, pool: &PoolName, retry: &RouteRetry, rewrites_location: bool) {
    line.name("proxy").argument(&pool.0).switch_unless(false, REWRITE_LOCATION.name, rewrites_location);
    write_retry(line, retry);
}

/// The block of a `proxy` with the name of a pool.
pub fn write_retry(line: &mut Writer, retry: &RouteRetry) {
    line.block([retry], write_retry_line);
}

/// Nothing where the pool's holds.
pub fn write_retry_line(line: &mut Writer, retry: &RouteRetry) {
    match retry {
        RouteRetry::OfPool => {}
        RouteRetry::Off => line.off("retry"),
        RouteRetry::Own(retry) => retry::write(line, retry),
    }
}
