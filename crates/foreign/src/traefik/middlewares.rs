//! What middlewares of Traefik do, as steps of ours, one for each word of the manual that has an equal here.

use super::fields;
use crate::accounts::Origin;
use crate::matching::{Asked, Matching, PathPattern};
use crate::outline::{is_plain, upstream};
use crate::texts::literal;
use crate::tree::Tree;
use tidegate_kdl::quoted;
use tidegate_model::parse_network;

const WHOLE_PATH: &str = "the expression is replaced within the path there, and the whole path here";
const ALL_REGEX: &str = "each prefix that the expression takes is taken off by one rewrite here";
const LONGER_EACH_TIME: &str =
    "each pause is twice as long as the one before and longer by chance, up to ten times the first one";
const AT_ONCE: &str = "another server is tried at once here, without a pause";
const OUTLIER: &str = "a server that fails is out by itself here (`outlier`), where Traefik closes the whole service";

const SECOND: &str = "there is one of its kind before, and both would have to hold: here a route has one of them";
const OF_CONNECTION: &str = "`sourceRange` is asked of the connection there, and `allow` of the address that `trusted-proxies` report: \
                             write `allow` for the clients that you mean, or take away whom `trusted-proxies` names";
const COUNTED: &str = "counted is the address of the connection there, and here what `trusted-proxies` report of it";
const ONE_PREFIX: &str = "`/apix` begins with `/api` too there; here it is a whole segment that is taken off";

/// What servers are told of a path that was replaced.
const REPLACED: &str = "request-header \"X-Replaced-Path\" \"{path}\"";

/// The address that a client has at an entry point: that of its connection, or a reported one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    Connection,
    /// Of the connection, and here what a proxy in front says of it in a field.
    Field,
    /// What a proxy in front says of it before the first byte, whoever that is.
    Anybody,
}

impl Trust {
    pub fn of(point: &Tree) -> Trust {
        let (header, fields) = (point.get("proxyProtocol"), point.get("forwardedHeaders"));
        if point.has("proxyProtocol") && header.get("trustedIPs").texts().is_empty() {
            Trust::Anybody
        } else if !fields.get("trustedIPs").texts().is_empty() || fields.get("insecure").is_true() {
            Trust::Field
        } else {
            Trust::Connection
        }
    }
}

/// What a list of middlewares comes to.
#[derive(Debug, Default)]
pub struct MiddlewareEffects {
    pub steps: Vec<String>,
    /// Why single statements are not carried.
    pub reasons: Vec<(usize, &'static str)>,
    /// Lines of the pool behind them.
    pub pool_lines: Vec<String>,
    /// What is asked of certificates of clients, and passed on.
    pub forwards_certificate: bool,
}

/// Each with the place that names it, in their order, for requests that these conditions take.
pub fn effects(middlewares: &[(&Tree, usize)], when: &Matching, trust: Trust, origin: &mut Origin) -> MiddlewareEffects {
    let mut effects = MiddlewareEffects::default();
    for (middleware, _) in middlewares {
        for (word, said) in middleware.entries() {
            let count = effects.steps.len();
            let mut own = Origin::default();
            one(word, said, (when, trust), &mut own, &mut effects);
            // Who asks twice has to be answered twice, and a route asks once.
            let word = |step: &String| step.split(' ').next().unwrap_or_default().to_owned();
            let asks = |step: &String| matches!(word(step).as_str(), "basic-auth" | "forward-auth");
            let (known, new) = effects.steps.split_at(count);
            if new.iter().any(|step| asks(step) && known.iter().any(|other| word(other) == word(step))) {
                effects.steps.truncate(count);
                origin.within.extend(own.within);
                effects.reasons.extend(said.statements().into_iter().map(|at| (at, SECOND)));
                continue;
            }
            origin.add(&own);
        }
    }
    // Two lists both have to hold, and of two lines of ours one is enough.
    let lists = effects.steps.iter().filter(|step| step.starts_with("allow ")).count();
    if lists > 1 {
        effects.steps.retain(|step| !step.starts_with("allow "));
        for (middleware, _) in middlewares {
            for word in ["ipAllowList", "ipWhiteList"] {
                middleware.get(word).statements().iter().for_each(|at| {
                    origin.carried.remove(at);
                });
            }
        }
    }
    effects
}

fn one(word: &str, said: &Tree, (when, trust): (&Matching, Trust), origin: &mut Origin, effects: &mut MiddlewareEffects) {
    match crate::alike::joined_alike(word).as_str() {
        "chain" | "redirectscheme" | "redirectregex" => {}
        "addprefix" => {
            if let Some(prefix) = said.get("prefix").text().filter(|prefix| prefix.len() > 1) {
                let prefix = prefix.trim_end_matches('/');
                effects.steps.push(format!("add-prefix {}", quoted(&format!("/{}", prefix.trim_start_matches('/')))));
                origin.carry_all(said.statements());
            }
        }
        "stripprefix" => strip_prefixes(said, when, origin, effects),
        "stripprefixregex" => strip_regex(said, origin, effects),
        "replacepath" => {
            if let Some(path) = said.get("path").text().filter(|path| path.starts_with('/') && !path.contains(['{', '$'])) {
                effects.steps.push(REPLACED.to_owned());
                effects.steps.push(format!("rewrite {}", quoted(path)));
                origin.carry_all(said.statements());
            }
        }
        "replacepathregex" => replace_regex(said, origin, effects),
        "basicauth" => basic_auth(said, origin, effects),
        "forwardauth" => forward_auth(said, origin, effects),
        "ipallowlist" | "ipwhitelist" => allow_list(said, trust, origin, effects),
        "ratelimit" => rate_limit(said, trust, origin, effects),
        "inflightreq" => in_flight(said, trust, origin, effects),
        "headers" => fields::of(said, origin, &mut effects.steps),
        "compress" => compress(said, origin, effects),
        "buffering" => buffering(said, origin, effects),
        "retry" => {
            let attempts = said.get("attempts").number().unwrap_or(1).saturating_sub(1);
            if (1..=10).contains(&attempts) {
                let pause = said.get("initialInterval");
                let backoff = pause.text().and_then(super::statics::duration);
                let written = backoff.as_ref().map(|pause| format!(" backoff={}", quoted(pause))).unwrap_or_default();
                effects.pool_lines.push(format!("retry attempts={attempts}{written}"));
                origin.carry_all(said.get("attempts").statements());
                let how = if backoff.is_some() { LONGER_EACH_TIME } else { AT_ONCE };
                pause.statements().into_iter().for_each(|at| origin.differ(at, how));
            } else {
                effects.pool_lines.push("retry \"off\"".into());
                origin.carry_all(said.get("attempts").statements());
            }
        }
        "circuitbreaker" => said.statements().into_iter().for_each(|at| origin.differ(at, OUTLIER)),
        "contenttype" => origin.carry_all(said.statements()),
        "passtlsclientcert" => pass_certificate(said, origin, effects),
        _ => {}
    }
}

/// The first prefix that a path has is taken off there, and told in a field.
fn strip_prefixes(said: &Tree, when: &Matching, origin: &mut Origin, effects: &mut MiddlewareEffects) {
    let prefixes: Vec<String> = said.get("prefixes").texts().into_iter().filter(|prefix| prefix.starts_with('/')).collect();
    let bare: Vec<&str> =
        prefixes.iter().map(|prefix| prefix.trim_end_matches('/')).filter(|prefix| !prefix.is_empty()).collect();
    origin.carry_all(said.statements());
    if bare.is_empty() || bare.len() < prefixes.len() {
        return;
    }
    for (index, prefix) in bare.iter().enumerate() {
        let told = format!("request-header \"X-Forwarded-Prefix\" {}", quoted(prefix));
        let escaped = |prefix: &&str| regex_syntax::escape(prefix);
        if bare.len() == 1 && is_below(when, prefix) {
            effects.steps.push(told);
            continue;
        }
        let mut others = String::new();
        for other in &bare[..index] {
            others.push_str(&format!(" not path={}", quoted(&format!("~^{}", escaped(other)))));
        }
        let own = quoted(&format!("~^{}", escaped(prefix)));
        effects.steps.push(format!("{told} {{ match path={own}{others}; }}"));
    }
    if let [prefix] = bare.as_slice() {
        effects.steps.push(format!("strip-prefix {}", quoted(prefix)));
        if !is_below(when, prefix) {
            said.statements().into_iter().for_each(|at| origin.differ(at, ONE_PREFIX));
        }
        return;
    }
    let all: Vec<String> = bare.iter().map(|prefix| regex_syntax::escape(prefix)).collect();
    effects.steps.push(format!("rewrite {} \"/$1\"", quoted(&format!("~^(?:{})/?(.*)$", all.join("|")))));
}

/// Whether all that is taken begins with the prefix.
fn is_below(when: &Matching, prefix: &str) -> bool {
    let is_path = |path: &PathPattern| {
        let begins = |text: &str| text.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let own = path.byte_prefix.as_deref().unwrap_or(&path.pattern);
        begins(own) || own.strip_prefix("~^").is_some_and(|regex| begins(&regex.replace('\\', "")))
    };
    let clause_is = |clause: &crate::matching::AskedClause| {
        clause.iter().any(|literal| match &literal.asked {
            Asked::Paths(paths) => !literal.is_negated && paths.iter().all(is_path),
            Asked::Hosts(_) | Asked::Condition(_) => false,
        })
    };
    !when.clauses.is_empty() && when.clauses.iter().all(clause_is)
}

fn strip_regex(said: &Tree, origin: &mut Origin, effects: &mut MiddlewareEffects) {
    let regexes = said.get("regex");
    let all = regexes.texts();
    if all.is_empty() || all.iter().any(|regex| regex.contains('{') && !regex.starts_with('^')) {
        return;
    }
    for regex in all {
        let bare = regex.trim_start_matches('^');
        // Groups of its own would be counted as well.
        if bare.contains('(') && !bare.contains("(?:") {
            return;
        }
        effects.steps.push(format!("rewrite {} \"/$1\"", quoted(&format!("~^(?:{bare})/?(.*)$"))));
    }
    for at in said.statements() {
        origin.differ(at, ALL_REGEX);
    }
}

fn replace_regex(said: &Tree, origin: &mut Origin, effects: &mut MiddlewareEffects) {
    let Some((regex, to)) = said.get("regex").text().zip(said.get("replacement").text()) else { return };
    let to = groups(&to.replace("$$", "$"));
    if !to.starts_with('/') || to.contains('{') {
        return;
    }
    effects.steps.push(format!("{REPLACED} {{ match path={}; }}", quoted(&format!("~{regex}"))));
    effects.steps.push(format!("rewrite {} {}", quoted(&format!("~{regex}")), quoted(&to)));
    let is_whole = regex.starts_with('^') && (regex.ends_with('$') || regex.ends_with("(.*)") || regex.ends_with(".*"));
    for at in said.statements() {
        if is_whole { origin.carry(at) } else { origin.differ(at, WHOLE_PATH) }
    }
}

/// `${1}` is `$1`.
pub fn groups(text: &str) -> String {
    let mut out = text.to_owned();
    for number in 0..10 {
        out = out.replace(&format!("${{{number}}}"), &format!("${number}"));
    }
    out
}

/// What Traefik says where nothing is written.
const REALM: &str = "traefik";

fn basic_auth(said: &Tree, origin: &mut Origin, effects: &mut MiddlewareEffects) {
    let mut properties = String::new();
    let (file, realm, removed, field) =
        (said.get("usersFile"), said.get("realm"), said.get("removeHeader"), said.get("headerField"));
    let users = said.get("users");
    let mut lines = Vec::new();
    for user in users.texts() {
        let user = user.replace("$$", "$");
        let Some((name, hash)) = user.split_once(':') else { return };
        lines.push(format!("user {} {};", quoted(&without_braces(name)), quoted(&without_braces(hash))));
    }
    if let Some(file) = file.text() {
        properties.push_str(&format!(" file={}", quoted(file)));
    } else if lines.is_empty() {
        return;
    }
    properties.push_str(&format!(" realm={}", quoted(&without_braces(realm.text().unwrap_or(REALM)))));
    if removed.is_true() {
        properties.push_str(" forward=#false");
    }
    let block = if lines.is_empty() { String::new() } else { format!(" {{ {} }}", lines.join(" ")) };
    effects.steps.push(format!("basic-auth{properties}{block}"));
    if let Some(field) = field.text().filter(|field| is_plain(field)) {
        effects.steps.push(format!("request-header {} \"{{auth.user}}\"", quoted(field)));
    }
    origin.carry_all(said.statements());
}

/// Marks around the name of a variable of the environment, in a text that was filled in from there: no file has them.
pub const VARIABLE: [char; 2] = ['\u{e000}', '\u{e001}'];

/// A text with braces that stand for themselves, and variables where the file has them.
pub fn without_braces(text: &str) -> String {
    let text = literal(text);
    text.replace(VARIABLE[0], "{env.").replace(VARIABLE[1], "}")
}

fn forward_auth(said: &Tree, origin: &mut Origin, effects: &mut MiddlewareEffects) {
    let address = said.get("address");
    let Some(url) = address.text().filter(|url| url.contains("://") && !url.contains(['{', '$'])) else { return };
    let Some((scheme, rest)) = url.split_once("://") else { return };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let Some(server) = upstream(&format!("{scheme}://{authority}")) else { return };
    let server = if server.contains("://") { server } else { format!("http://{server}") };
    origin.carry_all(address.statements());
    let mut lines = Vec::new();
    let (copied, by_regex, asked, cookies) = (
        said.get("authResponseHeaders"),
        said.get("authResponseHeadersRegex"),
        said.get("authRequestHeaders"),
        said.get("addAuthCookiesToResponse"),
    );
    let mut names: Vec<String> = copied.texts();
    if let Some(name) = by_regex.text().and_then(named_by) {
        names.push(name);
        origin.carry_all(by_regex.statements());
    }
    let listed = |names: &[String]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(" ");
    for (word, names, tree) in
        [("copy", names, copied), ("request-headers", asked.texts(), asked), ("cookies", cookies.texts(), cookies)]
    {
        if !names.is_empty() {
            lines.push(format!("{word} {}", listed(&names)));
            origin.carry_all(tree.statements());
        }
    }
    let verify = said.at(&["tls", "insecureSkipVerify"]);
    let ca = said.at(&["tls", "ca"]);
    if verify.is_true() {
        lines.push("tls verify=#false".into());
        origin.carry_all(verify.statements());
    } else if let Some(file) = ca.text() {
        lines.push(format!("tls ca={}", quoted(file)));
        origin.carry_all(ca.statements());
    }
    let mut properties = String::new();
    if said.get("preserveRequestMethod").is_true() {
        properties.push_str(" method=\"request\"");
    }
    if said.get("forwardBody").is_true() {
        let most = said.get("maxBodySize").number().filter(|bytes| (1..=4_194_304).contains(bytes)).unwrap_or(4_194_304);
        properties.push_str(&format!(" body={most}"));
        origin.carry_all(said.get("maxBodySize").statements());
    }
    if let Some(field) = said.get("headerField").text().filter(|field| is_plain(field)) {
        properties.push_str(&format!(" user={}", quoted(field)));
        origin.carry_all(said.get("headerField").statements());
    }
    for word in ["preserveRequestMethod", "forwardBody", "trustForwardHeader", "preserveLocationHeader"] {
        origin.carry_all(said.get(word).statements());
    }
    let block = if lines.is_empty() { String::new() } else { format!(" {{ {}; }}", lines.join("; ")) };
    effects.steps.push(format!("forward-auth {}{properties}{block}", quoted(&format!("{server}{path}"))));
}

/// `X-Auth-*` of `^X-Auth-`: what an expression takes is taken out of what clients send, so it has to be all of it.
fn named_by(regex: &str) -> Option<String> {
    let own = regex.strip_prefix('^')?;
    let is_plain = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if let Some(name) = own.strip_suffix('$').filter(|name| is_plain(name)) {
        return Some(name.to_owned());
    }
    let name = own.trim_end_matches('$').trim_end_matches(".*").trim_end_matches(".+");
    is_plain(name).then(|| format!("{name}*"))
}

fn allow_list(said: &Tree, trust: Trust, origin: &mut Origin, effects: &mut MiddlewareEffects) {
    let ranges = said.get("sourceRange").texts();
    // A proxy in front may say whose address a request's is.
    let is_own = said.get("ipStrategy").is_nothing() && trust == Trust::Connection;
    if said.get("ipStrategy").is_nothing() && trust == Trust::Field {
        effects.reasons.extend(said.statements().into_iter().map(|at| (at, OF_CONNECTION)));
    }
    let is_403 = said.get("rejectStatusCode").number().is_none_or(|status| status == 403);
    if !ranges.is_empty() && is_own && is_403 && ranges.iter().all(|range| parse_network(range).is_ok()) {
        let ranges: Vec<String> = ranges.iter().map(|range| quoted(range)).collect();
        effects.steps.push(format!("allow {}", ranges.join(" ")));
        origin.carry_all(said.statements());
    }
}

/// What is counted as one; `None` where no text of ours says it.
fn counted(said: &Tree, without: &str, trust: Trust) -> Option<String> {
    let is_behind_another = trust == Trust::Anybody;
    let by = said.get("sourceCriterion");
    if let Some(field) = by.get("requestHeaderName").text() {
        return is_plain(field).then(|| format!("{{request.header.{field}}}"));
    }
    if by.get("requestHost").is_true() {
        return Some("{host}".into());
    }
    if by.has("ipStrategy") {
        let is_last = by.at(&["ipStrategy", "depth"]).number().is_none_or(|depth| depth == 0)
            && by.at(&["ipStrategy", "excludedIPs"]).is_nothing();
        return (is_last && !is_behind_another).then(|| "client-ip".into());
    }
    (without != "client-ip" || !is_behind_another).then(|| without.to_owned())
}

/// Says that another address is counted, where it is.
fn say_counted(said: &Tree, by: &str, trust: Trust, origin: &mut Origin) {
    if by == "client-ip" && trust == Trust::Field {
        said.statements().into_iter().for_each(|at| origin.differ(at, COUNTED));
    }
}

fn rate_limit(said: &Tree, trust: Trust, origin: &mut Origin, effects: &mut MiddlewareEffects) {
    let unit = match said.get("period").text() {
        None | Some("1s" | "1") => "s".to_owned(),
        Some("1m" | "60s" | "1m0s") => "m".to_owned(),
        Some("1h") => "h".to_owned(),
        Some(period) => {
            let digits = period.find(|c: char| !c.is_ascii_digit()).unwrap_or(period.len());
            let is_one = digits > 0 && matches!(&period[digits..], "" | "s" | "m" | "h");
            if !is_one {
                return;
            }
            if digits == period.len() { format!("{period}s") } else { period.to_owned() }
        }
    };
    let Some(average) = said.get("average").number().filter(|average| *average > 0) else { return };
    let Some(by) = counted(said, "client-ip", trust) else { return };
    say_counted(said, &by, trust, origin);
    let burst = said.get("burst").number().unwrap_or(1).max(1);
    let by = if by == "client-ip" { String::new() } else { format!(" by={}", quoted(&by)) };
    effects.steps.push(format!("rate-limit \"{average}/{unit}\" burst={burst}{by}"));
    origin.carry_all(said.statements());
    let redis = said.get("redis").statements();
    for at in redis {
        origin.differ(at, "this process counts for itself, and asks no Redis");
    }
}

fn in_flight(said: &Tree, trust: Trust, origin: &mut Origin, effects: &mut MiddlewareEffects) {
    let Some(amount) = said.get("amount").number().filter(|amount| (1..=1_000_000).contains(amount)) else { return };
    let Some(by) = counted(said, "{host}", trust) else { return };
    say_counted(said, &by, trust, origin);
    effects.steps.push(format!("concurrency-limit {amount} by={} status=429", quoted(&by)));
    origin.carry_all(said.statements());
}

fn compress(said: &Tree, origin: &mut Origin, effects: &mut MiddlewareEffects) {
    let mut line = "compress".to_owned();
    let codings: Vec<String> =
        said.get("encodings").texts().into_iter().filter(|coding| matches!(coding.as_str(), "zstd" | "br" | "gzip")).collect();
    if codings.is_empty() {
        line.push_str(" \"gzip\" \"br\" \"zstd\"");
    }
    for coding in &codings {
        line.push_str(&format!(" {}", quoted(coding)));
    }
    let least = said.get("minResponseBodyBytes");
    line.push_str(&format!(" min-size={}", least.number().unwrap_or(1024)));
    let included = said.get("includedContentTypes").texts();
    if !included.is_empty() {
        line.push_str(&format!(" types={}", quoted(&included.join(","))));
    }
    effects.steps.push(line);
    origin.carry_all(said.statements());
    for at in said.get("excludedContentTypes").statements() {
        origin.differ(at, "what is compressed is said by `types=` here, and is text, JSON, XML, JavaScript and SVG without it");
    }
    for at in said.get("defaultEncoding").statements() {
        origin.differ(at, "a client that says nothing of codings gets the answer as it is");
    }
}

fn buffering(said: &Tree, origin: &mut Origin, effects: &mut MiddlewareEffects) {
    let most = said.get("maxRequestBodyBytes");
    if let Some(size) = most.number().filter(|size| *size > 0) {
        effects.steps.push(format!("body-limit {size}"));
        origin.carry_all(most.statements());
    }
    // Bodies stream, so there is nothing that memory has to be told.
    for word in ["memRequestBodyBytes", "memResponseBodyBytes"] {
        for at in said.get(word).statements() {
            origin.differ(at, "bodies pass as they come, so none is held in memory for it");
        }
    }
}

fn pass_certificate(said: &Tree, origin: &mut Origin, effects: &mut MiddlewareEffects) {
    if said.get("pem").is_true() {
        effects.forwards_certificate = true;
    }
    if said.has("info") {
        let fields = "request-header \"X-Forwarded-Tls-Client-Cert-Info\" \"Subject=\\\"{tls.client.subject}\\\";Issuer=\\\"{tls.client.issuer}\\\"\"";
        effects.steps.push(fields.to_owned());
        for at in said.get("info").statements() {
            origin.differ(at, "subject and issuer go on as a whole, as `{tls.client.subject}` has them");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::named_by;

    #[test]
    fn fields_by_an_expression_are_all_that_it_takes() {
        let check = |regex: &str, expected: Option<&str>| assert_eq!(named_by(regex).as_deref(), expected, "{regex}");
        check("^X-Auth-", Some("X-Auth-*"));
        check("^X-Auth-.*$", Some("X-Auth-*"));
        check("^X-User$", Some("X-User"));
        check("X-Auth-.*", None);
        check("^X.Auth-.*", None);
        check("^X-(User|Group)$", None);
        check("^", None);
    }
}
