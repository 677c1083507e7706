//! `balance`: how a server is chosen. How a client stays with the one that it had is in `sticky`.

use super::PoolDraft;
use crate::diagnostics::Diagnostic;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property, Stage};
use crate::written_line::Writer;
use tidegate_foreign::joined_alike;
use tidegate_model::Balance;

pub static BALANCE: Directive = Directive {
    name: "balance",
    places: &[Place::Pool],
    arguments: &[Argument::one(
        "method",
        Kind::ChoiceOr(Balance::NAMES, ""),
        "`p2c`, `round-robin`, `least-conn`, `ewma`, `random` or `hash`.",
    )],
    properties: &[
        Property::once("key", Kind::Template(Stage::Request), "For `hash`: requests with the same key go to the same server."),
        Property::once(
            "load-max",
            Kind::Percent { min: 101, max: 1000 },
            "For `hash`: what a server may have of its fair share of the requests in flight before its keys go to the next one; any when left \
             out.",
        ),
    ],
    summary: "How a server is chosen.",
    details: "`p2c` draws two servers and takes the one with fewer requests in flight for its weight. `round-robin` takes them in turn. \
              `least-conn` takes the one with the fewest requests in flight. `ewma` draws two and takes the one that is expected to answer sooner: \
              its latency, as a moving average, times its requests in flight. `random` draws by weight. `hash` keeps a key with its server: when a server \
              leaves, hardly more than its own keys move.",
    default: "`p2c`",
    example: "balance \"hash\" key=\"{client.ip}\"",
    lower: Lower::Pool(lower_balance),
    ..Directive::PLAIN
};

fn lower_balance(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    let method = line.read_argument(lowering, 0);
    let key = line.template(lowering, "key");
    let load_percent_max = line.number(lowering, "load-max").map(|percent| percent as u32);
    let method = match method {
        Some(Read::Choice(method, _)) => method,
        Some(Read::Text(text)) => {
            let diagnostic = super::other_word(&text, "balance", Balance::NAMES, "");
            lowering.report(match of_others(&text.value) {
                Some(help) => diagnostic.help(help),
                None => diagnostic,
            });
            return;
        }
        _ => return,
    };
    if method != "hash" {
        for name in ["key", "load-max"] {
            if let Some(value) = line.property(name) {
                let message = format!("`{name}=` has no meaning for `balance \"{method}\"`");
                let diagnostic = Diagnostic::error("key-without-hash", value.location.clone(), message);
                lowering.report(diagnostic.help("use `balance \"hash\"`"));
            }
        }
    }
    draft.pool.balance = match method {
        "round-robin" => Balance::RoundRobin,
        "least-conn" => Balance::LeastConn,
        "random" => Balance::Random,
        "ewma" => Balance::Ewma,
        "hash" => match key {
            Some(key) => {
                if key.as_literal().is_some()
                    && let Some(value) = line.property("key")
                {
                    let message = "this key is the same for every request, so one server gets them all";
                    lowering.report(
                        Diagnostic::warning("constant-key", value.location.clone(), message)
                            .help("use a placeholder, as in `{client.ip}`"),
                    );
                }
                Balance::Hash { key, load_percent_max }
            }
            None => {
                if line.property("key").is_none() {
                    let diagnostic = Diagnostic::error("missing-key", line.location(), "`balance \"hash\"` needs a key")
                        .help("for example `balance \"hash\" key=\"{client.ip}\"`");
                    lowering.report(diagnostic);
                }
                return;
            }
        },
        _ => Balance::P2c,
    };
}

/// What is meant by the name that another proxy has for a way to choose.
fn of_others(method: &str) -> Option<&'static str> {
    match joined_alike(method).as_str() {
        "iphash" | "source" | "clientiphash" | "clientip" | "remoteaddr" | "hrw" => {
            Some("write `balance \"hash\" key=\"{client.ip}\"`")
        }
        "uri" | "urihash" | "path" | "url" => Some("write `balance \"hash\" key=\"{path}\"`"),
        "header" | "hdr" => Some("write `balance \"hash\" key=\"{request.header.X-User}\"`, with the field that decides"),
        "query" | "urlparam" => Some("write `balance \"hash\" key=\"{query}\"`"),
        "ringhash" | "maglev" | "consistent" | "consistenthash" | "ketama" => {
            Some("`hash` is consistent without a word: `balance \"hash\" key=\"{client.ip}\"`")
        }
        "cookie" | "sticky" | "rdpcookie" => {
            Some("a client stays with its server by `sticky cookie=\"tg_route\"`, a line of the pool beside `balance`")
        }
        "first" | "failover" | "priority" => Some("servers that stand by are marked: `server \"10.0.0.9:8080\" backup=#true`"),
        "rr" | "wrr" | "weightedroundrobin" | "staticrr" => {
            Some("write `balance \"round-robin\"`; shares are `weight=` of the servers")
        }
        "leasttime" | "peakewma" | "latency" => Some("write `balance \"ewma\"`"),
        "leastrequest" | "randomchoose" | "random2" | "powerof2" | "poweroftwo" => {
            Some("write `balance \"p2c\"`, which holds without a word as well")
        }
        "lc" | "wlc" | "leastconnections" => Some("write `balance \"least-conn\"`"),
        _ => None,
    }
}

pub fn write(line: &mut Writer, balance: &Balance) {
    line.name("balance").argument(balance.name());
    if let Balance::Hash { key, load_percent_max } = balance {
        line.property("key", key).optional("load-max", load_percent_max.map(|percent| format!("{percent}%")));
    }
}
