//! Samples that HAProxy looks at in conditions, and what a condition of ours says of the same.

use super::conditions::{Condition, Test};
use super::lexer::OF_ENVIRONMENT;
use super::query_maps;
use super::samples::{self, NO_EXPRESSION, Sampled};
use crate::outline::DROPPED;
use crate::separators::crosses;
use crate::spelling;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_kdl::quoted;
use tidegate_model::{expression, is_claimed, parse_network};

/// What `set-var` has said before.
pub type Variables = BTreeMap<String, Variable>;

#[derive(Debug, Clone)]
pub struct Variable {
    /// What it was set to.
    pub expression: String,
    /// Where it is true, for one that is set to nothing else than that.
    pub condition: Option<Condition>,
    pub places: BTreeSet<usize>,
}

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Comparison {
    Whole,
    Beginning,
    End,
    Part,
    /// Between slashes.
    Folder,
    /// Between dots and slashes.
    Label,
    Expression,
    Found,
    Network,
    Number,
    Length,
    Yes,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostTest {
    pub comparison: Comparison,
    /// Without a port.
    pub value: String,
    /// As it stands in the file.
    pub written: String,
    pub is_case_blind: bool,
    /// Whether a port that the client has sent is taken off before.
    pub is_without_port: bool,
    /// Whether it asks for the name of a handshake, which no condition of ours knows apart from the host.
    pub is_of_handshake: bool,
    /// Whether the field is compared as it was sent, and not as a site is found by it.
    pub is_as_sent: bool,
}

/// How often somebody may do what is counted.
#[derive(Debug, Clone, PartialEq)]
pub struct RateTest {
    /// `http_req_rate`, `conn_cur`
    pub counter: String,
    /// The number of the `track-sc`; none of those that name their key themselves.
    pub number: Option<u32>,
    pub table: Option<String>,
    /// How many are let through.
    pub allowed: u64,
}

impl RateTest {
    pub fn why_not(&self) -> String {
        format!(
            "what `{}` counts is said by `rate-limit` or `concurrency-limit` of a route where it is requests, and else by nothing here",
            self.counter
        )
    }
}

impl HostTest {
    /// Whether a name fits; `None` where that hangs on what stands in the place of `*`.
    pub fn fits(&self, name: &str) -> Option<bool> {
        if self.is_as_sent {
            // What is sent may be the name of the site in another case, with a port, or with a final dot.
            let is_other = self.comparison == Comparison::Whole
                && !name.starts_with('*')
                && !self.value.ends_with('.')
                && !self.value.eq_ignore_ascii_case(name);
            return is_other.then_some(false);
        }
        let (value, name) = (self.value.to_ascii_lowercase(), name.to_ascii_lowercase());
        if let Some(domain) = name.strip_prefix('*') {
            return match self.comparison {
                Comparison::End if domain.ends_with(&value) => Some(true),
                Comparison::End if !value.ends_with(domain) => Some(false),
                Comparison::Part if domain.contains(&value) => Some(true),
                // Each name that is compared as a whole has a site of its own.
                Comparison::Whole => Some(false),
                _ => None,
            };
        }
        Some(match self.comparison {
            Comparison::Whole => name == value,
            Comparison::Beginning => name.starts_with(&value),
            Comparison::End => name.ends_with(&value),
            Comparison::Part => name.contains(&value),
            Comparison::Label => format!(".{name}.").contains(&format!(".{}.", value.trim_matches('.'))),
            Comparison::Expression => expression(&format!("(?i){}", self.value)).build().ok()?.is_match(name.as_bytes()),
            Comparison::Found => true,
            Comparison::Folder | Comparison::Network | Comparison::Number | Comparison::Length | Comparison::Yes => return None,
        })
    }

    /// A name that a site may have: its own, or that of all with one more label.
    pub fn site_name(&self) -> Option<String> {
        let is_name = |name: &str| {
            (name.contains('.') || name == "localhost")
                && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
                && name.chars().any(|c| c.is_ascii_alphabetic())
        };
        let value = self.value.to_ascii_lowercase();
        match (self.comparison, value.strip_prefix('.')) {
            (Comparison::Whole, None) if is_name(&value) => Some(value),
            (Comparison::End, Some(domain)) if is_name(domain) => Some(format!("*.{domain}")),
            _ => None,
        }
    }

    pub fn written(&self) -> String {
        if self.is_as_sent {
            return self.as_sent();
        }
        if self.comparison == Comparison::Whole && self.site_name().is_some() {
            return format!("host={}", quoted(&self.value.to_ascii_lowercase()));
        }
        let value = regex_syntax::escape(&self.value);
        let port = "(:[0-9]+)?$";
        let text = match self.comparison {
            Comparison::Whole => format!("^{value}{port}"),
            Comparison::Beginning => format!("^{value}"),
            Comparison::End => format!("{value}{port}"),
            Comparison::Label => format!("(^|\\.){}(\\.|:|$)", regex_syntax::escape(self.value.trim_matches('.'))),
            Comparison::Expression => self.value.clone(),
            _ => value,
        };
        format!("header={}", quoted(&format!("Host: ~(?i){text}")))
    }
}

impl HostTest {
    fn as_sent(&self) -> String {
        let value = regex_syntax::escape(&self.written);
        let port = if self.is_without_port { "(:[0-9]*)?" } else { "" };
        let label = regex_syntax::escape(self.written.trim_matches(['.', '/', ':', '?']));
        let text = match self.comparison {
            Comparison::Whole => format!("^{value}{port}$"),
            Comparison::Beginning => format!("^{value}"),
            Comparison::End => format!("{value}{port}$"),
            Comparison::Label => format!("(^|[./:?]){label}([./:?]|$)"),
            Comparison::Expression => self.written.clone(),
            _ => value,
        };
        let blind = if self.is_case_blind { "(?i)" } else { "" };
        format!("header={}", quoted(&format!("Host: ~{blind}{text}")))
    }
}

/// Names of conditions that need no `acl`.
pub fn predefined(name: &str) -> Condition {
    let written = |text: &str| Condition::Test(Test::Written(text.to_owned()));
    match name {
        "TRUE" | "HTTP" | "WAIT_END" | "REQ_CONTENT" | "HTTP_URL_SLASH" => Condition::True,
        "FALSE" => Condition::False,
        "HTTP_1.0" | "HTTP_1.1" | "HTTP_2.0" | "HTTP_3.0" => unknown("no condition asks for the version of HTTP"),
        "HTTP_URL_STAR" | "HTTP_URL_ABS" => unknown("no condition asks for the form of the request line"),
        "LOCALHOST" => Condition::Test(Test::Source(vec!["127.0.0.0/8".to_owned(), "::1".to_owned()])),
        "HTTP_CONTENT" => written("header=\"Content-Length: ~^[1-9]\""),
        "METH_GET" => written("method=\"GET,HEAD\""),
        "METH_CONNECT" | "METH_DELETE" | "METH_HEAD" | "METH_OPTIONS" | "METH_POST" | "METH_PUT" | "METH_TRACE" => {
            written(&format!("method=\"{}\"", &name[5..]))
        }
        _ => Condition::Test(Test::Unknown("a condition that it names is defined nowhere".to_owned())),
    }
}

pub fn of_variable(fetch: &str) -> String {
    format!("what `{}` holds is set on conditions or by what has no equal here", name_of(fetch))
}

/// Why what a variable holds is not compared.
pub const ONE_OF_MANY: &str =
    "a variable holds one of the values that a field, a cookie or a parameter may have, and conditions here ask for any of them";

/// Whether a variable holds one of several values of it, where a condition that asks without a variable asks for all.
pub fn has_many_values(words: &[&str]) -> bool {
    let Some((written, rest)) = words.split_first() else { return false };
    let (fetch, by_name) = without_comparison(&parts(written).0);
    let (name, argument) = fetch.split_once('(').map_or((fetch.as_str(), ""), |(name, rest)| (name, rest.trim_end_matches(')')));
    // That there is one at all is the same of each of them.
    let is_found = values(rest).is_some_and(|values| values.comparison.or(by_name) == Some(Comparison::Found));
    let is_of_host = argument.trim().eq_ignore_ascii_case("host");
    let is_list = matches!(name, "hdr" | "req.hdr" | "req.fhdr" | "fhdr" | "cook" | "req.cook" | "urlp" | "url_param");
    is_list && !is_found && !is_of_host
}

fn name_of(fetch: &str) -> &str {
    fetch.split(['(', ',']).next().unwrap_or_default()
}

/// The flags and values of a test.
struct FetchedValues<'v> {
    comparison: Option<Comparison>,
    is_case_blind: bool,
    file: Option<&'v str>,
    all: Vec<&'v str>,
}

fn values<'v>(words: &[&'v str]) -> Option<FetchedValues<'v>> {
    let mut values = FetchedValues { comparison: None, is_case_blind: false, file: None, all: Vec::new() };
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            // Behind the first value there are no flags.
            word if !values.all.is_empty() => values.all.push(word),
            "-i" => values.is_case_blind = true,
            "-n" | "-u" => {}
            "--" => {
                values.all.extend(words);
                break;
            }
            "-f" => values.file = words.next(),
            "-M" => return None,
            "-m" => values.comparison = Some(of_word(words.next()?)?),
            word => values.all.push(word),
        }
    }
    Some(values)
}

fn of_word(word: &str) -> Option<Comparison> {
    Some(match word {
        "str" => Comparison::Whole,
        "beg" => Comparison::Beginning,
        "end" => Comparison::End,
        "sub" => Comparison::Part,
        "dir" => Comparison::Folder,
        "dom" => Comparison::Label,
        "reg" => Comparison::Expression,
        "found" => Comparison::Found,
        "ip" => Comparison::Network,
        "int" => Comparison::Number,
        "len" => Comparison::Length,
        "bool" => Comparison::Yes,
        _ => return None,
    })
}

/// `hdr_beg(host)` as `hdr(host)` and how it is compared.
fn without_comparison(fetch: &str) -> (String, Option<Comparison>) {
    let (name, arguments) = fetch.split_once('(').map_or((fetch, None), |(name, rest)| (name, Some(rest)));
    for kind in ["beg", "end", "sub", "dir", "dom", "reg"] {
        if let Some(stem) = name.strip_suffix(kind).and_then(|stem| stem.strip_suffix('_')) {
            let arguments = arguments.map(|rest| format!("({rest}")).unwrap_or_default();
            return (format!("{stem}{arguments}"), of_word(kind));
        }
    }
    (fetch.to_owned(), None)
}

/// `hdr(host),lower` as the fetch with its arguments, and the converters behind it.
fn parts(written: &str) -> (String, Vec<String>) {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in written.chars() {
        match c {
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        parts.last_mut().into_iter().for_each(|part| part.push(c));
    }
    let fetch = parts.remove(0);
    (fetch, parts)
}

fn unknown(why: impl Into<String>) -> Condition {
    Condition::Test(Test::Unknown(why.into()))
}

/// `hdr(host) -i a.com b.com`
pub fn test(words: &[&str]) -> Condition {
    let Some((written, rest)) = words.split_first() else { return unknown("its condition is empty") };
    if words.iter().any(|word| word.contains(OF_ENVIRONMENT)) {
        return unknown("a value of its condition comes from the environment: write it");
    }
    let (fetch, converters) = parts(written);
    let (fetch, by_name) = without_comparison(&fetch);
    let Some(mut values) = values(rest) else { return unknown("its values are in a map: `match map=` of a `map` asks for them") };
    let comparison = values.comparison.or(by_name);
    let (mut is_decoded, mut is_without_port) = (false, false);
    let is_of_name = fetch.to_ascii_lowercase().contains("(host") || fetch.contains("_sni");
    for converter in &converters {
        match converter.as_str() {
            "lower" | "upper" => {
                let is_other = |c: char| if converter == "lower" { c.is_ascii_uppercase() } else { c.is_ascii_lowercase() };
                if !values.is_case_blind && values.all.iter().any(|value| value.contains(is_other)) {
                    return unknown(format!("no value is what it is compared with behind `{converter}`"));
                }
                values.is_case_blind = true;
            }
            "url_dec" if matches!(fetch.as_str(), "path" | "url" | "pathq") => is_decoded = true,
            "field(1,:)" | "field(1,':')" | "host_only" | "word(1,:)" | "word(1,':')" if is_of_name => is_without_port = true,
            "ltrim(/)" if is_of_name => {}
            _ => return unknown(format!("`{}` has no equal in a condition", name_of(converter))),
        }
    }
    let (name, argument) = fetch.split_once('(').map_or((fetch.as_str(), ""), |(name, rest)| (name, rest.trim_end_matches(')')));
    if values.file.is_some() && !matches!(name, "src" | "req.hdr_ip") {
        return unknown("its values are in a file of their own: a `map` with `file=` and `match map=` asks for them");
    }
    let compared = comparison.unwrap_or(Comparison::Whole);
    let field = argument.split(',').next().unwrap_or_default();
    match name {
        "hdr" | "req.hdr" | "req.fhdr" | "fhdr" if field.eq_ignore_ascii_case("host") => {
            any(&values.all, |value| host((value, &values), compared, FetchedName::Field { is_without_port }), compared)
        }
        "ssl_fc_sni" => any(&values.all, |value| host((value, &values), compared, FetchedName::Handshake), compared),
        "req.ssl_sni" | "req_ssl_sni" | "fc_pp_authority" => {
            any(&values.all, |value| host((value, &values), compared, FetchedName::HandedOn), compared)
        }
        "hdr" | "req.hdr" | "req.fhdr" | "fhdr" if !field.is_empty() => {
            // The protocol that is switched to is one here.
            let is_whole = name.ends_with("fhdr") || field.eq_ignore_ascii_case("upgrade");
            let sampled = if is_whole { Sampled::Line } else { Sampled::Element };
            in_header((sampled, argument), compared, &values)
        }
        "hdr_cnt" | "req.hdr_cnt" | "req.fhdr_cnt" if is_claimed(field) => unknown(DROPPED),
        "hdr_cnt" | "req.hdr_cnt" | "req.fhdr_cnt" if !field.is_empty() => {
            is_there(&values.all, Condition::Test(Test::Written(format!("header={}", quoted(field)))))
        }
        "cook" | "req.cook" if !field.is_empty() => in_parts(Sampled::Cookie(argument), compared, &values),
        "cook_cnt" | "req.cook_cnt" if !field.is_empty() => {
            is_there(&values.all, in_parts(Sampled::Cookie(argument), Comparison::Found, &values))
        }
        "urlp" | "url_param" if argument.contains(',') => unknown("parameters are parted and named otherwise there"),
        "urlp" | "url_param" if !field.is_empty() => in_parts(Sampled::Parameter(argument), compared, &values),
        "path" | "url" | "pathq" | "uri" | "capture.req.uri" => path((name, is_decoded), compared, &values),
        "base" => base(compared, &values),
        "method" | "capture.req.method" if compared == Comparison::Whole && !values.all.is_empty() => {
            let methods = values.all.join(",").to_ascii_uppercase();
            Condition::Test(Test::Written(format!("method={}", quoted(&methods))))
        }
        _ => of_connection(name, argument, compared, &values),
    }
}

/// What is not in the head of a request.
fn of_connection(name: &str, argument: &str, compared: Comparison, values: &FetchedValues<'_>) -> Condition {
    let field = argument.split(',').next().unwrap_or_default();
    match name {
        "src" => source(values),
        "ssl_fc" => yes_or_no(&values.all, Condition::Test(Test::OverTls)),
        "dst_port" | "fc_dst_port" => ports(&values.all),
        "ssl_c_used" | "ssl_fc_has_crt" => {
            yes_or_no(&values.all, Condition::Test(Test::Written("client-subject=\"~.\"".to_owned())))
        }
        "ssl_c_verify" if values.all == ["0"] => Condition::Test(Test::Written("client-subject=\"~.\"".to_owned())),
        "ssl_c_s_dn" if compared == Comparison::Whole => any(&values.all, |value| subject(field, value), compared),
        "ssl_c_sha1" => unknown("certificates are known by their SHA-256 here: `match client-fingerprint=`"),
        "http_auth" => Condition::Test(Test::Login(argument.to_owned(), Vec::new())),
        "http_auth_group" => {
            Condition::Test(Test::Login(argument.to_owned(), values.all.iter().map(|group| (*group).to_owned()).collect()))
        }
        "always_true" | "req.proto_http" | "req_proto_http" | "wait_end" => yes_or_no(&values.all, Condition::True),
        "always_false" => yes_or_no(&values.all, Condition::False),
        "bool" => {
            if matches!(argument, "1" | "true") {
                Condition::True
            } else {
                Condition::False
            }
        }
        "req.ssl_hello_type" | "req_ssl_hello_type" if values.all == ["1"] => Condition::True,
        "status" => statuses(&values.all),
        "req.body_size" | "req.body_len" | "req.hdr_val" | "hdr_val" if beyond(&values.all).is_some() => {
            let is_length = !name.ends_with("hdr_val") || field.eq_ignore_ascii_case("content-length");
            match beyond(&values.all).filter(|_| is_length) {
                Some(bytes) => Condition::Test(Test::BodyBeyond(bytes)),
                None => unknown("a field is compared as a number"),
            }
        }
        _ if counter(name).is_some() => rate(name, argument, &values.all),
        _ if name.starts_with("src_") => {
            of_source(name, argument, &values.all).unwrap_or_else(|| unknown(format!("`{name}` has no equal in a condition")))
        }
        "nbsrv" | "srv_is_up" | "avg_queue" | "queue" | "be_conn" | "connslots" | "be_sess_rate" | "fe_conn" | "fe_sess_rate"
        | "srv_conn" | "be_conn_free" | "stopping" => unknown(format!(
            "`{name}` asks how busy or well servers are: servers with `backup=#true` come in where none else is up, and `max-requests` has a queue"
        )),
        "rand" => unknown("chance decides: `split` shares requests out by weight"),
        _ => unknown(format!("`{}` has no equal in a condition", name_of(name))),
    }
}

fn any(values: &[&str], one: impl Fn(&str) -> Condition, compared: Comparison) -> Condition {
    match (values.is_empty(), compared) {
        (true, Comparison::Found) => one(""),
        (true, _) => unknown("its condition has no value"),
        (false, _) => Condition::any(values.iter().map(|value| one(value)).collect()),
    }
}

/// What a name is taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FetchedName {
    Field {
        is_without_port: bool,
    },
    Handshake,
    /// Of a handshake that is handed on as it is.
    HandedOn,
}

fn host((written, values): (&str, &FetchedValues<'_>), comparison: Comparison, from: FetchedName) -> Condition {
    let value = if comparison == Comparison::Expression {
        if expression(written).build().is_err() {
            return unknown("its expression is none of ours: there are no look-arounds and no back-references");
        }
        written
    } else {
        written.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(written, |(name, _)| name)
    };
    match comparison {
        Comparison::Network | Comparison::Number | Comparison::Length | Comparison::Yes | Comparison::Folder => {
            return unknown("names are not compared so in a condition");
        }
        Comparison::Found if from == FetchedName::HandedOn => return Condition::True,
        _ => {}
    }
    let test = HostTest {
        comparison,
        value: value.to_owned(),
        written: written.to_owned(),
        is_case_blind: values.is_case_blind,
        is_without_port: from == FetchedName::Field { is_without_port: true },
        is_of_handshake: !matches!(from, FetchedName::Field { .. }),
        is_as_sent: false,
    };
    Condition::Test(if from == FetchedName::HandedOn { Test::Sni(test) } else { Test::Host(test) })
}

/// A value as the patterns of conditions have it.
fn pattern(value: &str, comparison: Comparison, is_case_blind: bool) -> Option<String> {
    let blind = if is_case_blind { "(?i)" } else { "" };
    let escaped = regex_syntax::escape(value);
    let is_plain =
        !is_case_blind && !value.is_empty() && !value.starts_with('~') && !value.contains(['*', '{', '}', ',', '"', '\\']);
    Some(match comparison {
        Comparison::Whole if is_plain => value.to_owned(),
        Comparison::Beginning if is_plain => format!("{value}*"),
        Comparison::End if is_plain => format!("*{value}"),
        Comparison::Whole => format!("~{blind}^{escaped}$"),
        Comparison::Beginning => format!("~{blind}^{escaped}"),
        Comparison::End => format!("~{blind}{escaped}$"),
        Comparison::Part => format!("~{blind}{escaped}"),
        Comparison::Folder => format!("~{blind}(^|/){}(/|$)", regex_syntax::escape(value.trim_matches(['/', '?']))),
        Comparison::Label => {
            format!("~{blind}(^|[./:]){}([./:]|$)", regex_syntax::escape(value.trim_matches(['.', '/', ':', '?'])))
        }
        Comparison::Expression => {
            expression(value).build().ok()?;
            format!("~{blind}{value}")
        }
        Comparison::Found | Comparison::Network | Comparison::Number | Comparison::Length | Comparison::Yes => return None,
    })
}

const OVER_TLS: &str = "scheme=\"https\"";
const PLAIN: &str = "scheme=\"http\"";

/// What a rule asks of the scheme that a proxy in front names. Only whoever comes without TLS may be refused or sent on
/// by it: all that no such proxy says comes so here.
pub enum ReportedScheme {
    /// Nothing of it.
    No,
    /// Whether a client comes without TLS.
    OfPlain,
    /// Anything else.
    Otherwise,
}

pub fn reported_scheme(condition: &Condition) -> ReportedScheme {
    let is = |condition: &Condition, wanted: &str| matches!(condition, Condition::Test(Test::Written(text)) if text == wanted);
    let of = |one: &Condition| match one {
        Condition::Not(inner) if is(inner, OVER_TLS) => ReportedScheme::OfPlain,
        one if is(one, PLAIN) => ReportedScheme::OfPlain,
        Condition::Not(inner) if is(inner, PLAIN) => ReportedScheme::Otherwise,
        one if is(one, OVER_TLS) => ReportedScheme::Otherwise,
        Condition::All(of) | Condition::Any(of) => of.iter().map(reported_scheme).fold(ReportedScheme::No, ReportedScheme::with),
        Condition::True | Condition::False | Condition::Test(_) | Condition::Not(_) => ReportedScheme::No,
    };
    of(condition)
}

impl ReportedScheme {
    fn with(self, other: ReportedScheme) -> ReportedScheme {
        match (self, other) {
            (ReportedScheme::Otherwise, _) | (_, ReportedScheme::Otherwise) => ReportedScheme::Otherwise,
            (ReportedScheme::OfPlain, _) | (_, ReportedScheme::OfPlain) => ReportedScheme::OfPlain,
            (ReportedScheme::No, ReportedScheme::No) => ReportedScheme::No,
        }
    }
}

const NUMBERED: &str =
    "which of several values of a field is asked for cannot be said: `req.fhdr` or `hdr` without a number asks for all";

fn in_header((sampled, argument): (Sampled<'_>, &str), comparison: Comparison, values: &FetchedValues<'_>) -> Condition {
    let (field, number) = argument.split_once(',').map_or((argument, ""), |(field, number)| (field.trim(), number.trim()));
    let is_of_connection = ["connection", "te", "transfer-encoding", "keep-alive", "proxy-connection", "trailer"]
        .contains(&field.to_ascii_lowercase().as_str());
    if is_of_connection {
        return unknown("the field is of one connection, and taken out before conditions are asked");
    }
    if is_claimed(field) {
        let is_scheme = field.eq_ignore_ascii_case("x-forwarded-proto") && comparison == Comparison::Whole;
        return match values.all.as_slice() {
            [scheme @ ("https" | "http")] if is_scheme => {
                Condition::Test(Test::Written(if *scheme == "https" { OVER_TLS } else { PLAIN }.to_owned()))
            }
            _ => unknown(DROPPED),
        };
    }
    let written = |text: String| Condition::Test(Test::Written(format!("header={}", quoted(&text))));
    if !number.is_empty() {
        return unknown(NUMBERED);
    }
    if comparison == Comparison::Found {
        return written(field.to_owned());
    }
    let one = |value: &str| {
        let plain = pattern(value, comparison, values.is_case_blind);
        match sampled.expression(value, comparison, values.is_case_blind) {
            Ok(_) if sampled == Sampled::Line && !matches!(comparison, Comparison::Folder | Comparison::Label) => {
                plain.map_or_else(|| unknown(NO_EXPRESSION), |plain| written(format!("{field}: {plain}")))
            }
            Ok(text) if comparison == Comparison::Expression && crosses(sampled.separators(), value) => {
                let text = format!("header={}", quoted(&format!("{field}: ~{text}")));
                Condition::Test(Test::Loose { text, how: samples::OVER_COMMAS })
            }
            Ok(text) => written(format!("{field}: ~{text}")),
            Err(why) => unknown(why),
        }
    };
    any(&values.all, one, comparison)
}

/// A cookie, or a parameter of the query.
fn in_parts(sampled: Sampled<'_>, comparison: Comparison, values: &FetchedValues<'_>) -> Condition {
    let one = |value: &str| match (sampled.expression(value, comparison, values.is_case_blind), sampled) {
        (Ok(text), Sampled::Parameter(_)) => query_maps::asked(&text),
        (Ok(text), Sampled::Cookie(_) | Sampled::Line | Sampled::Element) => {
            Condition::Test(Test::Written(format!("header={}", quoted(&format!("Cookie: ~{text}")))))
        }
        (Err(why), _) => unknown(why),
    };
    if comparison == Comparison::Found { one("") } else { any(&values.all, one, comparison) }
}

/// `gt 0`, `ge 1`, `eq 0`, `0`: whether there is one at all.
fn is_there(values: &[&str], there: Condition) -> Condition {
    match values {
        ["gt", "0"] | ["ge", "1"] | ["1:"] => there,
        ["eq" | "le", "0"] | ["lt", "1"] | ["0"] => there.negated(),
        _ => unknown("how often a field is there is not compared"),
    }
}

fn yes_or_no(values: &[&str], yes: Condition) -> Condition {
    match values {
        [] | ["1" | "true"] | ["eq", "1"] => yes,
        ["0" | "false"] | ["eq", "0"] => yes.negated(),
        _ => unknown("its condition has a value that none is compared with"),
    }
}

fn path((fetch, is_decoded): (&str, bool), comparison: Comparison, values: &FetchedValues<'_>) -> Condition {
    let has_query = fetch != "path";
    let one = |value: &str| {
        // What may stand in the query as well is not about the path alone.
        let is_of_both = has_query && (value.contains('?') || !matches!(comparison, Comparison::Beginning | Comparison::Whole));
        if is_of_both {
            return unknown(format!(
                "`{fetch}` has the query in it, and conditions ask for the path and for a name in the query"
            ));
        }
        let blind = if values.is_case_blind { "(?i)" } else { "" };
        let plain = comparison == Comparison::Whole && blind.is_empty() && value.starts_with('/') && !value.ends_with('*');
        // A URL that is compared as a whole has no query.
        let bare = if has_query && comparison == Comparison::Whole { query_maps::asked(".").negated() } else { Condition::True };
        if is_decoded {
            return decoded_path(value, comparison, blind)
                .map_or_else(unknown, |text| Condition::all(vec![Condition::Test(Test::Path(text)), bare]));
        }
        if plain {
            return Condition::all(vec![Condition::Test(Test::Path(value.to_owned())), bare]);
        }
        let is_pattern = !matches!(comparison, Comparison::Whole | Comparison::Beginning | Comparison::End);
        let text = match comparison {
            Comparison::Beginning if value == "/" => return Condition::True,
            Comparison::Whole => Some(format!("~{blind}^{}$", regex_syntax::escape(value))),
            Comparison::Beginning => Some(format!("~{blind}^{}", regex_syntax::escape(value))),
            Comparison::End => Some(format!("~{blind}{}$", regex_syntax::escape(value))),
            _ if is_pattern => pattern(value, comparison, values.is_case_blind),
            _ => None,
        };
        let sent = text.map(|text| spelling::with_any_codes(&text));
        sent.map_or_else(|| unknown(NO_EXPRESSION), |text| Condition::all(vec![Condition::Test(Test::Path(text)), bare]))
    };
    any(&values.all, one, comparison)
}

/// A path that is decoded before it is compared, as clients send it.
fn decoded_path(value: &str, comparison: Comparison, blind: &str) -> Result<String, &'static str> {
    let spelled = spelling::in_either_spelling(value).replace('/', "(?:/|%2F)");
    Ok(match comparison {
        Comparison::Whole => format!("~{blind}^{spelled}$"),
        Comparison::Beginning => format!("~{blind}^{spelled}"),
        Comparison::End => format!("~{blind}{spelled}$"),
        Comparison::Part => format!("~{blind}{spelled}"),
        Comparison::Expression => {
            let sent = spelling::sent_expression(value).filter(|sent| expression(sent).build().is_ok());
            format!("~{blind}{}", sent.ok_or(NO_EXPRESSION)?)
        }
        Comparison::Folder
        | Comparison::Label
        | Comparison::Found
        | Comparison::Network
        | Comparison::Number
        | Comparison::Length
        | Comparison::Yes => return Err(NO_EXPRESSION),
    })
}

/// `example.com/path`
fn base(comparison: Comparison, values: &FetchedValues<'_>) -> Condition {
    let one = |value: &str| {
        let Some((name, rest)) =
            value.split_once('/').filter(|_| matches!(comparison, Comparison::Beginning | Comparison::Whole))
        else {
            return unknown("`base` is host and path in one: conditions ask for each");
        };
        let rest = format!("/{rest}");
        let of_path = FetchedValues { comparison: None, is_case_blind: values.is_case_blind, file: None, all: vec![&rest] };
        let of_host = host((name, values), Comparison::Whole, FetchedName::Field { is_without_port: false });
        Condition::all(vec![of_host, path(("path", false), comparison, &of_path)])
    };
    any(&values.all, one, comparison)
}

fn source(values: &FetchedValues<'_>) -> Condition {
    let mut networks: Vec<String> = values.file.map(|file| format!("file:{file}")).into_iter().collect();
    networks.extend(values.all.iter().map(|value| (*value).to_owned()));
    let is_network = |network: &String| network.starts_with("file:/") || parse_network(network).is_ok();
    if networks.is_empty() || !networks.iter().all(is_network) {
        return unknown("what it is compared with are no networks");
    }
    Condition::Test(Test::Source(networks))
}

fn ports(values: &[&str]) -> Condition {
    let numbers: Option<Vec<u16>> = values.iter().filter(|value| **value != "eq").map(|value| value.parse().ok()).collect();
    match numbers {
        Some(ports) if !ports.is_empty() => Condition::Test(Test::Port(ports)),
        _ => unknown("ports are told by the address of a site, one by one"),
    }
}

fn subject(part: &str, value: &str) -> Condition {
    if part.is_empty() {
        return unknown("a subject is written otherwise here: `match client-subject=` takes a pattern of it");
    }
    let text = format!("~(^|,){}={}(,|$)", part.to_ascii_uppercase(), regex_syntax::escape(value));
    Condition::Test(Test::Written(format!("client-subject={}", quoted(&text))))
}

fn statuses(values: &[&str]) -> Condition {
    let numbers: Vec<&str> = values.iter().copied().filter(|value| *value != "eq").collect();
    let one = |value: &&str| {
        let (from, to) = value.split_once(':').unwrap_or((value, value));
        let is_status = |text: &str| text.parse::<u16>().is_ok_and(|status| (100..=599).contains(&status));
        (is_status(from) && is_status(to)).then(|| if from == to { from.to_owned() } else { format!("{from}-{to}") })
    };
    match (numbers.as_slice(), numbers.iter().map(one).collect::<Option<Vec<_>>>()) {
        (["ge", from], _) if from.parse::<u16>().is_ok() => Condition::Test(Test::Status(format!("{from}-599"))),
        (_, Some(all)) if !all.is_empty() => Condition::Test(Test::Status(all.join(","))),
        _ => unknown("statuses are written as numbers and ranges here"),
    }
}

/// `gt 1000`: more than so many.
fn beyond(values: &[&str]) -> Option<u64> {
    match values {
        ["gt", count] => count.parse().ok(),
        ["ge", count] => count.parse::<u64>().ok().map(|count| count.saturating_sub(1)),
        _ => None,
    }
}

/// `sc_http_req_rate`, `sc0_http_req_rate`, `src_http_req_rate` as what they count.
fn counter(fetch: &str) -> Option<(&str, Option<u32>)> {
    let rest = fetch.strip_prefix("sc")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number = rest[..digits].parse().ok();
    if let Some(counter) = rest[digits..].strip_prefix('_') {
        return Some((counter, number));
    }
    None
}

fn rate(fetch: &str, argument: &str, values: &[&str]) -> Condition {
    let Some((counter, of_name)) = counter(fetch) else { return unknown("what is counted is not known") };
    let mut arguments = argument.split(',').map(str::trim);
    let number = of_name.or_else(|| arguments.next().and_then(|number| number.parse().ok()));
    let table = arguments.next().filter(|table| !table.is_empty()).map(str::to_owned);
    let Some(allowed) = beyond(values) else { return unknown(format!("`{counter}` is compared as none of our limits does")) };
    Condition::Test(Test::Rate(RateTest { counter: counter.to_owned(), number, table, allowed }))
}

/// `src_http_req_rate(table) gt 10`: by the client's address, without a `track-sc`.
fn of_source(fetch: &str, argument: &str, values: &[&str]) -> Option<Condition> {
    let counter = fetch.strip_prefix("src_")?;
    let allowed = beyond(values)?;
    let table = (!argument.is_empty()).then(|| argument.to_owned());
    Some(Condition::Test(Test::Rate(RateTest { counter: counter.to_owned(), number: None, table, allowed })))
}
