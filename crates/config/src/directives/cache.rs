//! `cache`: answers are kept and given again. In a site or route it says what is kept, at the top level where.

use crate::diagnostics::{Diagnostic, shortened};
use crate::forms::show_network;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::{Read, read};
use crate::table::{Argument, Kind, Place, Property, Repeat};
use crate::units::parse_duration;
use crate::written_line::{Writer, duration, size};
use std::time::Duration;
use tidegate_model::parse_network;
use tidegate_model::{Cache, CacheDisk, CacheStore, Purging, RouteOptions, Secret, Switched};

pub static CACHE: Directive = Directive {
    name: "cache",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: &[Argument::optional(
        "off",
        Kind::Text("`off`, or nothing"),
        "`off`: nothing is kept; for a route of a site that caches.",
    )],
    properties: &[
        Property::many(
            "fresh",
            Kind::Text("`status time`, as in `\"404 30s\"`"),
            "How long answers of a status are fresh when they do not say it themselves, as in `fresh=\"200 5m\" fresh=\"404 30s\"`.",
        ),
        Property::once(
            "heuristic",
            Kind::Percent { min: 0, max: 100 },
            "How long an answer is fresh that only has a `Last-Modified`: the part of the time since then, a day at most; `0%` when left out.",
        ),
        Property::once(
            "stale-while-revalidate",
            STALE,
            "How long a stale answer is given while one request asks for a new one, when the answer does not say it; `0s` when left out.",
        ),
        Property::once(
            "stale-if-error",
            STALE,
            "How long a stale answer is given when the upstream fails, when the answer does not say it; `0s` when left out.",
        ),
        Property::once(
            "client-control",
            Kind::Switch,
            "Whether `Cache-Control` and `Pragma` of requests reach the upstream, as a reload in a browser sends them; `#false` when left out.",
        ),
        Property::once(
            "whole-for-ranges",
            Kind::Switch,
            "Whether a request for a part of what is not kept fetches the whole; `#false` when left out.",
        ),
        Property::once(
            "set-cookie",
            Kind::Switch,
            "Whether answers that set a cookie are kept, and the cookie given to everybody; `#false` when left out.",
        ),
        Property::once(
            "cdn-cache-control",
            Kind::Switch,
            "Whether `CDN-Cache-Control` of answers goes before their `Cache-Control` and `Expires` (RFC 9213); `#false` when left out, for behind a CDN it is meant \
             for that one.",
        ),
        Property::once(
            "purge-from",
            Kind::Text("networks, separated by commas"),
            "Clients that may send `PURGE`; nobody when left out.",
        ),
        Property::once(
            "purge-token",
            Kind::Secret("a text of at least 16 characters"),
            "What a client sends as `Authorization: Bearer …` to be allowed to `PURGE`.",
        ),
    ],
    summary: "Keeps answers, and gives them again without asking the upstream.",
    details: "What may be kept is what RFC 9111 says of shared caches: answers to GET that say how long they are fresh (`Cache-Control`, `Expires`), and none that \
              are `private`, `no-store`, set a cookie, or answer a request with `Authorization` without being `public`. They are found by scheme, host, path, query and what \
              `Vary` names. `Cache-Status` says of each answer what was done, and `Age` how old it is.\n\n\
              **Many requests for the same are one to the upstream**: the others wait for its answer and read it along. Stale answers are asked about with `If-None-Match` or \
              `If-Modified-Since`; conditions and ranges of clients are answered here. A request that changes something (POST, PUT, DELETE …) removes what is kept of its URL. \
              With `compress` a page is compressed once and kept so.\n\n\
              **Purging**: `tidegate purge URL`, the admin API, or `PURGE` by clients that may: of a URL, of all that begins with it (`/news/*`), or of what has a tag, \
              given with `Surrogate-Key` or `Cache-Tag` by the upstream and in the request for the purge. With `Purge-Mode: soft` what is kept becomes stale instead.\n\n\
              Steps run before an answer is looked for, and those of the answer when it is given: `allow`, `rate-limit` and `header` mean for kept answers what they mean \
              for others. Routes with `match` keep their answers apart.\n\n\
              **Whoever has logged in has answers of its own**, and so has each certificate of a client: behind `basic-auth`, `jwt` and `client-auth` what an upstream calls `public` is kept for each user (and issuer) apart, \
              and so is what depends on a field that the site sets from a claim, a name, a certificate or a map. Where the upstream gets the token too, each token has its own.",
    default: "nothing is kept",
    example: "cache stale-if-error=\"1h\" fresh=\"404 30s\"",
    lower: Lower::Option(lower_option),
    ..Directive::PLAIN
};

pub static CACHE_STORE: Directive = Directive {
    name: "cache",
    places: &[Place::Top],
    properties: &[
        Property::once(
            "memory",
            Kind::Size { min: MEMORY_BYTES_MIN, max: 1 << 50 },
            "What answers may take of memory; `256MiB` when left out, and no more than a quarter of what the process may use.",
        ),
        Property::once(
            "object",
            Kind::Size { min: 1 << 10, max: 4 << 30 },
            "The largest answer that is kept; `8MiB` when left out.",
        ),
        Property::once(
            "disk",
            Kind::Path,
            "A folder in which answers are kept too, over restarts. It belongs to this process alone.",
        ),
        Property::once(
            "disk-size",
            Kind::Size { min: 1 << 20, max: 1 << 50 },
            "What the files in it may take together; `10GiB` when left out.",
        ),
    ],
    summary: "Where `cache` keeps answers.",
    details: "All routes share it. What is asked for once passes through without pushing out what is asked for again. Sizes can change while it runs.\n\n\
              The folder is made when it is not there. A file in it is whole or it is thrown away: checksums are looked at before a byte is given out. When its disk is full \
              or fails, the cache goes on in memory and tries again after a minute.",
    default: "256 MiB of memory, and no disk",
    example: "cache memory=\"512MiB\" disk=\"/var/cache/tidegate\" disk-size=\"20GiB\"",
    lower: Lower::Top(lower_store),
    ..Directive::PLAIN
};

const STALE: Kind = Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(365 * 86_400) };
/// Below this there is no room for a few of the largest answers.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// Each is compared with the status of an answer that is to be kept.
const FRESH_MAX: usize = 100;
/// Less than this can be guessed.
const TOKEN_CHARACTERS_MIN: usize = 16;
const NETWORKS_MAX: usize = 1000;

fn lower_option(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    if line.written_arguments().first().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
        let meant = "write `cache fresh=\"200 60s\"`, for answers that do not say it themselves".to_owned();
        let _: Option<()> =
            line.refuse_whole(lowering, "how long answers are kept is what they say, or `fresh=` for a status", meant);
        return;
    }
    if line.is_off(lowering) {
        options.cache = Switched::Off;
        return;
    }
    let duration = |lowering: &mut Lowering<'_>, name: &str| line.duration(lowering, name).unwrap_or_default();
    let switch = |lowering: &mut Lowering<'_>, name: &str| line.switch(lowering, name).unwrap_or(false);
    options.cache = Switched::On(Box::new(Cache {
        fresh: fresh(lowering, line),
        heuristic_percent: line.number(lowering, "heuristic").unwrap_or(0) as u8,
        stale_while_revalidate: duration(lowering, "stale-while-revalidate"),
        stale_if_error: duration(lowering, "stale-if-error"),
        obeys_clients: switch(lowering, "client-control"),
        whole_for_ranges: switch(lowering, "whole-for-ranges"),
        keeps_set_cookie: switch(lowering, "set-cookie"),
        obeys_cdn_cache_control: switch(lowering, "cdn-cache-control"),
        purging: purging(lowering, line),
    }));
}

fn fresh(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<(u16, Duration)> {
    let mut fresh: Vec<(u16, Duration)> = Vec::new();
    for entry in line.properties("fresh") {
        let read = read(lowering, &entry.value, Kind::Text("`status time`"), "`fresh=`");
        let Some(text) = read.map(Read::text) else { continue };
        let status = |text: &str| text.parse().ok().filter(|status| (200..=599).contains(status) && !matches!(status, 206 | 304));
        let parts =
            text.value.trim().split_once(' ').and_then(|(code, time)| Some((status(code)?, parse_duration(time.trim()).ok()?)));
        match parts {
            Some((status, _)) if fresh.iter().any(|(known, _)| *known == status) => {
                lowering.report(text.error("bad-value", format!("{status} is named twice")).help("remove one of them"));
            }
            Some(parts) => fresh.push(parts),
            None => {
                let message = format!("`{}` is not a status and a time", shortened(&text.value));
                let help = "for example `fresh=\"404 30s\"`; 206 and 304 are never kept by themselves";
                lowering.report(text.error("bad-value", message).help(help));
            }
        }
    }
    if fresh.len() > FRESH_MAX {
        lowering.report(Diagnostic::error("bad-value", line.location(), format!("there are more than {FRESH_MAX} statuses")));
    }
    fresh
}

fn purging(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Purging {
    let mut purging = Purging::default();
    if let Some(text) = line.text(lowering, "purge-from") {
        for network in text.value.split(',').map(str::trim) {
            match parse_network(network) {
                Ok(network) => purging.from.push(network),
                Err(reason) => {
                    lowering.report(text.error("bad-value", reason).help("for example `purge-from=\"127.0.0.1,10.0.0.0/8\"`"));
                }
            }
        }
        if purging.from.len() > NETWORKS_MAX {
            lowering.report(text.error("bad-value", format!("there are more than {NETWORKS_MAX} networks")));
        }
    }
    if let Some(text) = line.text(lowering, "purge-token") {
        if text.value.chars().count() < TOKEN_CHARACTERS_MIN {
            let message = format!("a token needs at least {TOKEN_CHARACTERS_MIN} characters");
            lowering.report(
                text.error("bad-value", message).help("for example one made by `openssl rand -hex 16`, from `{env.PURGE_TOKEN}`"),
            );
        }
        purging.token = Some(Secret::new(text.value));
    }
    purging
}

fn lower_store(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let mut store = CacheStore { memory_bytes: line.number(lowering, "memory"), ..CacheStore::default() };
    let object = line.number(lowering, "object");
    store.object_bytes_max = object.unwrap_or(store.object_bytes_max);
    let folder = line.text(lowering, "disk").map(|text| lowering.path(&text.value, &text.location));
    let disk_bytes = line.number(lowering, "disk-size");
    if folder.is_none()
        && let Some(value) = line.property("disk-size")
    {
        let diagnostic = Diagnostic::error("bad-value", value.location.clone(), "`disk-size=` says nothing without `disk=`");
        lowering.report(diagnostic.help("name the folder, as in `disk=\"/var/cache/tidegate\"`, or remove it"));
    }
    // A part is set aside for what is on its way in, and one object may not take all that is left.
    let memory = store.memory_bytes.unwrap_or(CacheStore::MEMORY_BYTES);
    if store.object_bytes_max > memory / 4
        && let Some(value) = line.property("object").or_else(|| line.property("memory"))
    {
        if object.is_some() {
            let diagnostic =
                Diagnostic::error("bad-value", value.location.clone(), "one answer may take a quarter of `memory=` at most");
            lowering.report(diagnostic.help("raise `memory=`, or lower `object=`"));
        } else {
            store.object_bytes_max = memory / 4;
        }
    }
    store.disk = folder.map(|folder| CacheDisk { folder, bytes_max: disk_bytes.unwrap_or(CacheStore::DISK_BYTES) });
    lowering.configuration.cache = store;
}

pub fn write(line: &mut Writer, cache: &Cache) {
    line.name("cache");
    for (status, time) in &cache.fresh {
        line.property("fresh", format_args!("{status} {}", duration(time)));
    }
    line.unless(&0, "heuristic", &cache.heuristic_percent, |percent| format!("{percent}%"));
    line.unless(&Duration::ZERO, "stale-while-revalidate", &cache.stale_while_revalidate, duration);
    line.unless(&Duration::ZERO, "stale-if-error", &cache.stale_if_error, duration);
    line.switch_unless(false, "client-control", cache.obeys_clients);
    line.switch_unless(false, "whole-for-ranges", cache.whole_for_ranges);
    line.switch_unless(false, "set-cookie", cache.keeps_set_cookie);
    line.switch_unless(false, "cdn-cache-control", cache.obeys_cdn_cache_control);
    line.list("purge-from", &cache.purging.from, show_network);
    line.secret_property("purge-token", cache.purging.token.as_ref());
}

pub fn write_store(line: &mut Writer, CacheStore { memory_bytes, object_bytes_max, disk }: &CacheStore) {
    line.name("cache").optional("memory", memory_bytes.as_ref().map(size)).property("object", size(object_bytes_max));
    if let Some(CacheDisk { folder, bytes_max }) = disk {
        line.property("disk", folder.display()).property("disk-size", size(bytes_max));
    }
}
