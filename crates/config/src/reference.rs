//! The reference of the configuration language in Markdown, made from the directive table; kept as
//! `docs/configuration.md`.

use crate::diagnostics::quoted_list;
use crate::directives::LANGUAGE;
use crate::language::{Directive, Lower};
use crate::table::{Argument, Block, Count, Kind, Place, Property, Repeat, Stage};
use crate::units::{show_duration, show_size};
use std::fmt::Write;
use tidegate_kdl::listed;
use tidegate_model::{ClientCertificateField, GeoField, LogField, Placeholder};

/// The sections, and what stands above the directives of each.
const SECTIONS: [(Place, &str, &str); Place::ALL.len()] = [
    (Place::Top, "Top level", "What stands outside every block."),
    (Place::Site, "In a `site`", "Steps, routes and certificates. The steps may also stand in a `route`."),
    (Place::Route, "In a `route`", "Everything that a site takes as a step, and conditions."),
    (Place::Header, "In the block of a `header`", "`match`, as in a route; for `response-header` and `request-header` as well."),
    (Place::Log, "In the `log` of a site or a route", ""),
    (Place::Split, "In a `split`", ""),
    (Place::Arm, "In an `arm`", "Each as it stands in a route, and run behind all steps of the route."),
    (Place::Tcp, "In a `tcp`", ""),
    (Place::Sni, "In an `sni`", ""),
    (Place::TcpSplit, "In the `split` of a `tcp`", ""),
    (
        Place::Pool,
        "In a `pool`",
        "Also the block of a `proxy`, a `fastcgi`, a `forward-auth` or an `error-page` that names addresses.",
    ),
    (
        Place::FastCgi,
        "In a `fastcgi`",
        "Behind addresses everything that a `pool` takes, behind the name of a pool its `retry`; and params of scripts.",
    ),
    (Place::Tls, "In the `tls` of a site", ""),
    (Place::Acme, "In an `acme`", "At the top level, and in the `tls` of a site."),
    (Place::Listener, "In a `listener`", ""),
    (Place::Limits, "In `limits`", ""),
    (Place::BasicAuth, "In a `basic-auth`", ""),
    (Place::Jwt, "In a `jwt`", ""),
    (Place::Oidc, "In an `oidc`", ""),
    (Place::OidcProvider, "In a `provider` of an `oidc`", ""),
    (
        Place::ForwardAuth,
        "In a `forward-auth`",
        "Behind addresses everything that a `pool` takes, behind the name of a pool its `retry`; and what is asked and told.",
    ),
    (
        Place::ErrorPage,
        "In an `error-page`",
        "Behind an address everything that a `pool` takes, behind the name of a pool its `retry`; and what is said of the error.",
    ),
    (Place::ApiKey, "In an `api-key`", ""),
    (Place::AuthAny, "In an `auth any`", "Each as it stands in a site."),
    (Place::Match, "In the block of a `match`", "Conditions that are made of others."),
    (Place::Conditions, "In an `any`, `all` or `not`", "Lines of conditions, as in a route, and further blocks."),
    (Place::Map, "In a `map`", ""),
    (Place::Docker, "In a `docker`", ""),
];

pub fn reference() -> String {
    let mut out = INTRODUCTION.replace("TERMINALS", &terminals());
    placeholders(&mut out);
    let mut described: Vec<&str> = Vec::new();
    for (place, title, introduction) in SECTIONS {
        let _ = write!(out, "\n## {title}\n");
        if !introduction.is_empty() {
            let _ = write!(out, "\n{introduction}\n");
        }
        for directive in LANGUAGE.at(place) {
            let is_elsewhere = directive.places[0] != place && described.contains(&directive.name);
            if !is_elsewhere {
                described.push(directive.name);
                describe(&mut out, directive);
            }
        }
    }
    not_available(&mut out);
    out
}

/// What answers, in the order of the reference.
fn terminals() -> String {
    let answers = LANGUAGE.at(Place::Route).filter(|directive| matches!(directive.lower, Lower::Terminal(_)));
    let names: Vec<String> = answers.map(|directive| format!("`{}`", directive.name)).collect();
    listed(&names.iter().map(String::as_str).collect::<Vec<_>>(), "and")
}

const INTRODUCTION: &str = r##"# Configuration

<!-- Made from the directive table in crates/config; `UPDATE=1 cargo test -p tidegate-config` writes it anew. -->

A configuration is a [KDL 2](https://kdl.dev) file. A line is a directive: a name, arguments, properties `name=value`, and for some a
block in braces. `//` and `/* */` are comments; `/-` switches off the directive, argument or block behind it. `tidegate check FILE`
shows everything that is wrong with a file, `tidegate fmt FILE` puts it into its canonical layout.

```kdl
site "example.com" {
    tls "internal"
    proxy "10.0.0.4:8080"
}
```

## Values

| Value | Written |
| --- | --- |
| text | in quotes; `"""` for several lines, `#"…"#` where a backslash stands for itself |
| number | `8`, `10_000` |
| yes or no | `#true`, `#false`; also `"on"`, `"off"` |
| duration | `"250ms"`, `"5s"`, `"2m"`, `"1h"`, `"1h30m"`; a unit is required |
| size | `"64KiB"` (1,024), `"10MB"` (1,000,000), or a number of bytes |
| rate | `"1KiB/s"` |
| share | `"20%"` |
| path of a file | relative to the file it is written in |

In every text, `{env.NAME}` is the environment variable of that name and `{file.PATH}` the content of a file without its last line
break. Both are filled in when the file is read; a variable or file that does not exist is an error. What they hold is never shown in
messages. `{{` and `}}` are braces that stand for themselves; in regular expressions braces need no doubling.

## What is settled

- File order wins: of the routes of a site, the first that matches is taken.
- A path pattern is `/a` (exactly), `/a/*` (`/a` and everything below it), `/a*` (whatever begins so, `/ab` as well) or `~` with a regular
  expression. It is compared with the decoded and normalised path.
- Regular expressions, wherever they stand, compare bytes, since clients may send any: `.`, `[^/]` and `\D` stand for each of them, be it part of
  a character or none, or the end of a line. Letters and digits of `\w`, `\d` and `(?i)` are those of ASCII. A part that is to compare characters is written
  `(?u:…)`, as in `~^(?u:\p{L})+$`. Look-around and back-references are not known: the time an expression takes is linear in what it is held against.
- Steps written in a site run before those of the route that is taken. TERMINALS answer; every route has exactly one of them.
- The path goes to the upstream in its normal form unless a step changes it: percent-encoded letters, digits, `-`, `.`, `_` and `~`
  are decoded, other percent-encodings are in upper case, and `.` and `..` segments are resolved. `//` is `/` for routes and goes on as it was sent, and `%2F` stays as it is,
  unless [`path-policy`](#path-policy) says otherwise.
- A word that is unknown, a wrong type, a duplicate or a missing file is an error, and no part of such a configuration is used.
"##;

fn placeholders(out: &mut String) {
    out.push_str(
        "\n## Placeholders\n\nIn texts that are marked as templates below:\n\n| Placeholder | Meaning |\n| --- | --- |\n",
    );
    for (name, placeholder) in Placeholder::PLAIN {
        let _ = writeln!(out, "| `{{{name}}}` | {} |", meaning(placeholder));
    }
    let _ = writeln!(out, "| `{{request.header.NAME}}` | {} |", meaning(&Placeholder::RequestHeader(String::new())));
    let _ = writeln!(out, "| `{{request.query.NAME}}` | {} |", meaning(&Placeholder::RequestQuery(String::new())));
    let _ = writeln!(
        out,
        "| `{{request.cookie.NAME}}`, `{{cookie.NAME}}` | {} |",
        meaning(&Placeholder::RequestCookie(String::new()))
    );
    let _ = writeln!(out, "| `{{jwt.CLAIM}}` | {} |", meaning(&Placeholder::JwtClaim(String::new())));
    let _ = writeln!(out, "| `{{response.header.NAME}}` | {} |", meaning(&Placeholder::ResponseHeader(String::new())));
    let _ = writeln!(out, "| `{{map.NAME}}` | {} |", meaning(&Placeholder::Map(String::new())));
    out.push_str("\nWhat needs a response can be used in `response-header`, `header` and the access log.\n");
    out.push_str(
        "\nOnly in the format of the access log, and named as in its JSON form:\n\n| Placeholder | Meaning |\n| --- | --- |\n",
    );
    for (name, field) in LogField::NAMES {
        let _ = writeln!(out, "| `{{{name}}}` | {} |", meaning(&Placeholder::Log(*field)));
    }
    let _ = writeln!(out, "| `{{log.NAME}}` | {} |", meaning(&Placeholder::LogOwn(String::new())));
    out.push_str("\nWhat is absent is shown there as `-`.\n");
}

fn meaning_of_log_field(field: LogField) -> &'static str {
    match field {
        LogField::Time => "when the request came, as in `2026-01-31T11:15:57.123Z`",
        LogField::Site => "the site: its first address",
        LogField::Protocol => "`HTTP/1.1`, `HTTP/2`",
        LogField::Status => "the status of the answer",
        LogField::RequestBytes => "bytes of the request's body",
        LogField::ResponseBytes => "bytes of the answer's body",
        LogField::DurationUs => "microseconds from the request's head to the end of the answer",
        LogField::Pool => "the pool the request went to",
        LogField::Arm => "the arm of the route's `split` that the request has taken",
        LogField::Retries => "attempts after the first",
        LogField::Reason => "why the proxy itself made the answer",
        LogField::Route => "the route's `name=`",
        LogField::Origin => "where the route, or its site, comes from: the `origin` line",
        LogField::TraceId => "the trace of a valid `traceparent`, which came or was made",
        LogField::QueueUs => "microseconds in queues for a server",
        LogField::UpstreamStatus => "the status that the server said",
        LogField::UpstreamProtocol => "`HTTP/1.1`, `HTTP/2` or `FastCGI`",
        LogField::UpstreamConnectUs => "microseconds until a connection to the server stood, where one was opened",
        LogField::UpstreamTlsUs => "microseconds of its TLS handshake",
        LogField::UpstreamFirstByteUs => "microseconds from the request sent to the first byte of the answer",
        LogField::UpstreamBodyUs => "microseconds from there to the end of the answer",
        LogField::AuthStatus => "the status that the server of a `forward-auth` answered with",
        LogField::AuthUs => "how long that took, in microseconds",
    }
}

fn meaning_of_place(field: GeoField) -> &'static str {
    match field {
        GeoField::Country => "the country of the client's address by [`geoip`](#geoip), as in `DE`; empty where none is known",
        GeoField::Continent => "its continent, as in `EU`",
        GeoField::Region => "the part of its country, as in `BY`",
        GeoField::City => "its city, by its English name",
        GeoField::Asn => "the number of its autonomous system, as in `64500`",
        GeoField::Organization => "who has that",
    }
}

fn meaning(placeholder: &Placeholder) -> &'static str {
    match placeholder {
        Placeholder::Host => "the host of the request, without the port",
        Placeholder::Path => "the path, after the rewrites before this step",
        Placeholder::Query => "the query, without the question mark",
        Placeholder::QuerySuffix => "the query with its question mark; empty where there is none",
        Placeholder::Uri => "path and query",
        Placeholder::AskedUri => "path and query as the client has asked for them, whatever steps have made of them since",
        Placeholder::AskedUriEscaped => "the same as one piece of a URL, as in `?back={asked.uri.escaped}`",
        Placeholder::Method => "the method",
        Placeholder::Scheme => "`http` or `https`, as the client came in",
        Placeholder::Port => "the port that the client came to, as it is public",
        Placeholder::ClientIp => "the client's address; behind `trusted-proxies` the one they report",
        Placeholder::ClientPort => "the client's port",
        Placeholder::TlsSni => "the server name of the TLS handshake",
        Placeholder::TlsVersion => "the version of TLS",
        Placeholder::TlsClient(ClientCertificateField::Subject) => {
            "the subject of the client's certificate, as in `CN=ops,O=Example`"
        }
        Placeholder::TlsClient(ClientCertificateField::Issuer) => "who signed it",
        Placeholder::TlsClient(ClientCertificateField::Serial) => "its serial number, in hexadecimal digits",
        Placeholder::TlsClient(ClientCertificateField::San) => "its names (DNS, IP, mail, URI), with commas between",
        Placeholder::TlsClient(ClientCertificateField::Fingerprint) => "its SHA-256, in lower case hexadecimal digits",
        Placeholder::TlsClient(ClientCertificateField::NotAfter) => "when it ends, as in `2026-01-31T11:15:57Z`",
        Placeholder::TlsClient(ClientCertificateField::Verified) => {
            "`yes` when the client has shown a good certificate, else `no`"
        }
        Placeholder::TlsJa4 => {
            "what software the client is, by its TLS handshake (JA4), as in `t13d1516h2_8daaf6152771_d8a2da3f94cd`"
        }
        Placeholder::ProxyAuthority => "the name that the client has asked for, as the header of `accept-proxy-protocol` says it",
        Placeholder::ProxyUniqueId => {
            "the connection's identifier in that header; in hexadecimal digits where it is not printable ASCII"
        }
        Placeholder::ForwardedFor => {
            "`X-Forwarded-For` as servers are told it: what trusted proxies have said, and the address that has sent the request"
        }
        Placeholder::RequestHeader(_) => "a header field of the request",
        Placeholder::RequestQuery(_) => "a parameter of the query, decoded; the first of its name",
        Placeholder::RequestCookie(_) => "a cookie of the request, as it was sent; the first of its name",
        Placeholder::ResponseHeader(_) => "a header field of the response; needs a response",
        Placeholder::UpstreamAddress => "the server that was chosen; needs a response",
        Placeholder::RequestId => "an identifier of this request",
        Placeholder::AuthUser => "who has logged in, behind `basic-auth`, `jwt` or `oidc`, or whose key it is, behind `api-key`",
        Placeholder::JwtClaim(_) => {
            "a claim of the token, behind `jwt` or `oidc`; of a nested one the names with dots between them"
        }
        Placeholder::StatusText => "what the status means, as in `Not Found`; in an `error-page`",
        Placeholder::TimeUnixMs => "milliseconds since 1970",
        Placeholder::Geo(field) => meaning_of_place(*field),
        Placeholder::Map(_) => "what the [`map`](#map) of that name has for its key",
        Placeholder::LogOwn(_) => "a field that the `log` of a site or a route adds",
        Placeholder::Log(field) => meaning_of_log_field(*field),
    }
}

fn describe(out: &mut String, directive: &Directive) {
    let _ = write!(out, "\n### `{}`\n\n{}\n\n", directive.name, directive.summary);
    let _ = writeln!(out, "```text\n{}\n```", synopsis(directive));
    let places: Vec<&str> = directive.places.iter().map(|place| place.describe()).collect();
    let repeat = match directive.repeat {
        Repeat::Once => "at most once",
        Repeat::Many => "any number of times",
    };
    let _ = write!(out, "\nStands {}, {repeat}.", places.join(" or "));
    if directive.default.is_empty() {
        out.push('\n');
    } else {
        let _ = writeln!(out, " Default: {}.", directive.default);
    }
    if !directive.arguments.is_empty() || !directive.properties.is_empty() {
        out.push_str("\n| | Value | |\n| --- | --- | --- |\n");
        for Argument { name, kind, summary, .. } in directive.arguments {
            let _ = writeln!(out, "| *{name}* | {} | {summary} |", describe_kind(*kind));
        }
        for Property { name, kind, summary, .. } in directive.properties {
            let _ = writeln!(out, "| `{name}=` | {} | {summary} |", describe_kind(*kind));
        }
    }
    if !directive.details.is_empty() {
        let _ = write!(out, "\n{}\n", directive.details);
    }
    let _ = write!(out, "\n```kdl\n{}\n```\n", directive.example);
}

/// `name <required> [optional] […]`
fn synopsis(directive: &Directive) -> String {
    let mut line = directive.name.to_string();
    for argument in directive.arguments {
        let _ = match argument.count {
            Count::One => write!(line, " <{}>", argument.name),
            Count::Optional => write!(line, " [{}]", argument.name),
            Count::OneOrMore => write!(line, " <{}>…", argument.name),
            Count::Any => write!(line, " [{}]…", argument.name),
        };
    }
    for property in directive.properties {
        let _ = match property.repeat {
            Repeat::Once => write!(line, " [{}=]", property.name),
            Repeat::Many => write!(line, " [{}=]…", property.name),
        };
    }
    match directive.block {
        Block::None => {}
        Block::Optional(_) => line.push_str(" [{ … }]"),
        Block::Required(_) => line.push_str(" { … }"),
    }
    line
}

fn describe_kind(kind: Kind) -> String {
    match kind {
        Kind::Text(form) | Kind::Secret(form) => form.to_string(),
        Kind::Template(Stage::Request) => "a template, before there is a response".into(),
        Kind::Template(Stage::Response) => "a template".into(),
        Kind::Template(Stage::Error) => "a template, with what is known of the error".into(),
        Kind::Template(Stage::Log) => "a template for the access log".into(),
        Kind::Path => "a path".into(),
        Kind::Choice(names) | Kind::ChoiceOr(names, "") => quoted_list(names),
        Kind::ChoiceOr(names, form) => format!("{}, or {form}", quoted_list(names)),
        Kind::Statuses => "a status as a number, or a range as text".into(),
        Kind::AutoOrInteger { min, max } => format!("`\"auto\"`, or a number from {min} to {max}"),
        Kind::Integer { min, max } => format!("a number from {min} to {max}"),
        Kind::Duration { min, max } => format!("a duration from {} to {}", show_duration(min), show_duration(max)),
        Kind::Size { min, max } => format!("a size from {} to {}", show_size(min), show_size(max)),
        Kind::ByteRate { min, max } => format!("a rate from {} to {} a second", show_size(min), show_size(max)),
        Kind::Sample => "a share from 0% to 100%, as in `\"0.5%\"`".into(),
        Kind::Percent { min, max } => format!("a share from {min}% to {max}%"),
        Kind::Switch => "`#true` or `#false`".into(),
    }
}

fn not_available(out: &mut String) {
    out.push_str("\n## Not in this version\n\nThese words are reserved for later versions, and are an error that says so:\n\n");
    for (place, names) in LANGUAGE.reserved {
        // What a route takes is what a site takes.
        if *place != Place::Route && !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(out, "- {}: {}", place.describe(), names.join(", "));
        }
    }
    out.push_str("- `protocol \"h3\"`\n");
}
