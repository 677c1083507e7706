//! `jwt`: who may ask, by a signed token.

use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::forms::{check_url, is_token};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::syntax::Literal;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat};
use crate::written_line::{Writer, duration, size};
use std::path::PathBuf;
use std::time::Duration;
use tidegate_kdl::quoted;
use tidegate_model::{ClaimHeader, ClaimRequirement, ClaimTest, Jwt, KeySource, Step, TokenIssuer, TokenPlace};

const JWKS: Property = Property::once(
    "jwks",
    Kind::Text("a URL or a file"),
    "Where the keys are: the address of a JWK set, or a file with one, which is watched.",
);
const CA: Property = Property::once(
    "ca",
    Kind::Path,
    "Certificates in PEM that the HTTPS of the keys' address is verified against, in place of the system's.",
);
const ISSUER: Property = Property::once("issuer", Kind::Text("a name"), "Who has issued the token, exactly as `iss` says it.");
const AUDIENCE: Property =
    Property::many("audience", Kind::Text("a name"), "For whom it is: one of these has to stand in `aud`. Whomever, without.");

pub static JWT: Directive = Directive {
    name: "jwt",
    places: &[Place::Site, Place::Route, Place::AuthAny],
    arguments: &[Argument::optional(
        "off",
        Kind::ChoiceOr(&["off"], ""),
        "`off`: nobody is asked, in a route of a site that asks.",
    )],
    properties: &[
        JWKS,
        CA,
        ISSUER,
        AUDIENCE,
        Property::once("type", Kind::Text("a media type"), "What the token's `typ` has to be, such as `at+jwt` (RFC 9068)."),
        Property::once("field", Kind::Text("a header name"), "A field in which a token may stand too."),
        Property::once("cookie", Kind::Text("a cookie name"), "A cookie in which a token may stand too."),
        Property::once(
            "query",
            Kind::Text("the name of a parameter"),
            "A parameter of the query in which a token may stand too.",
        ),
        Property::once("user", Kind::Text("a claim"), "What `{auth.user}` is; `sub` when left out."),
        Property::once("realm", Kind::Text("a name"), "What `WWW-Authenticate` says; nothing when left out."),
        Property::once(
            "optional",
            Kind::Switch,
            "Whether requests without a token go on; `#false` when left out. Those with a bad one never do.",
        ),
        Property::once("forward", Kind::Switch, "Whether the upstream gets the token too; `#true` when left out."),
        Property::once("expiry", Kind::Switch, "Whether a token has to say when it ends (`exp`); `#true` when left out."),
        Property::once(
            "leeway",
            Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(3600) },
            "How far clocks may be apart; `60s` when left out.",
        ),
        Property::once(
            "token-bytes",
            Kind::Size { min: 256, max: 64 * 1024 },
            "Longer tokens are refused; `16KiB` when left out.",
        ),
    ],
    block: Block::Optional(Place::Jwt),
    summary: "Asks for a signed token (JWT).",
    details: "A token stands in `Authorization: Bearer …`, or where `field=`, `cookie=` or `query=` say; the first of these places that has one counts. Two in one place are refused with 400. \
              Without a token the answer is 401, with one that cannot be taken 401 with `error=\"invalid_token\"`, and where a `require` is not met 403 with `error=\"insufficient_scope\"` (RFC 6750).\n\n\
              How a token is signed is a property of the key and never of the token: RS, PS, ES (P-256, P-384, P-521), EdDSA (Ed25519), and HS with keys of a file. Keys embedded in a token, `crit` and \
              names that stand twice are refused. `exp` and `nbf` hold, `iss` and `aud` where `issuer=` and `audience=` stand.\n\n\
              Keys of an address are fetched beside the workers, and again before they end (`max-age`). A start does not wait for them: requests do, for 5 s, and get 503 with `token_keys_missing` then. A token \
              that names an unknown key has them fetched again, once in 30 s at most, and waits for it. Keys at hand stay while the issuer is away. Redirects are not followed. `tidegate status` says of each set how many keys it has, since when, and why it could not be had again. Verified tokens are remembered.\n\n\
              `{jwt.sub}` and the like are claims, for all other steps; of nested ones the names stand with dots between them, as in `{jwt.realm_access.roles}`. What a `header` of the block or a \
              `request-header` with `{jwt.…}`, `{auth.user}` or `{tls.client.…}` sets is taken out of every request of the site first, in all spellings (`X-User`, `x_user`, `X.User`), so that nobody forges it on any route.\n\n\
              Several issuers stand as `other-issuer` lines in the block. The user's name has the issuer in front then, with `|` between, so that no issuer has one in its name. Of the `jwt` of a site and of its route the route's counts. \
              Preflights that a `cors` answers, `allow`, `deny` and limits by client come before it, wherever they stand; all else comes behind it.",
    default: "nobody is asked",
    example: "jwt jwks=\"https://idp.example.com/jwks.json\" issuer=\"https://idp.example.com\" audience=\"api\" {\n    require \"scope\" contains=\"write\"\n    header \"X-User\" claim=\"sub\"\n}",
    lower: Lower::Step(lower),
    ..Directive::PLAIN
};

pub static JWT_ISSUER: Directive = Directive {
    name: "other-issuer",
    places: &[Place::Jwt],
    repeat: Repeat::Many,
    arguments: &[Argument::one("name", Kind::Text("a name"), "Exactly as `iss` says it.")],
    properties: &[JWKS, CA, AUDIENCE],
    summary: "One more issuer whose tokens are taken.",
    example: "other-issuer \"https://other.example.com\" jwks=\"https://other.example.com/keys\" audience=\"api\"",
    ..Directive::PLAIN
};

pub static REQUIRE: Directive = Directive {
    name: "require",
    places: &[Place::Jwt, Place::Oidc],
    repeat: Repeat::Many,
    arguments: &[Argument::one("claim", Kind::Text("a claim"), "Its name; of a nested one the names with dots between them.")],
    properties: &[
        Property::once("equals", Kind::Text("a value"), "The claim has to be this text, number, `true` or `false`."),
        Property::once(
            "contains",
            Kind::Text("a value"),
            "The claim is a list that has this, or a text that has it as a word, as `scope` is.",
        ),
        Property::many("one-of", Kind::Text("a value"), "The claim has to be one of these."),
    ],
    summary: "A claim that a token has to have; with 403 otherwise.",
    details: "Without a property it has to be there. Several lines all have to hold.",
    example: "require \"scope\" contains=\"write\"",
    ..Directive::PLAIN
};

pub static JWT_HEADER: Directive = Directive {
    name: "header",
    places: &[Place::Jwt, Place::Oidc],
    repeat: Repeat::Many,
    arguments: &[Argument::one("name", Kind::Text("a header name"), "The field.")],
    properties: &[Property::once("claim", Kind::Text("a claim"), "What it says.")],
    summary: "A field of the request by which the upstream hears of a claim.",
    details: "Lists are written with commas between; in JSON where an element has a comma of its own. A claim that is not there sets nothing, nor does a text with control characters or space around it, which would become another one \
              in a field; and no client sets it instead.",
    example: "header \"X-User\" claim=\"sub\"",
    ..Directive::PLAIN
};

/// Compared with each token.
const ISSUERS_MAX: usize = 100;
const NAME_BYTES_MAX: usize = 1000;
const REALM_BYTES_MAX: usize = 200;
/// Fields that say something else to everybody.
const NOT_FOR_CLAIMS: [&str; 3] = ["authorization", "cookie", "host"];

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let errors_before = lowering.diagnostics.len();
    let is_off = match line.read_argument(lowering, 0) {
        Some(Read::Text(text)) => {
            let message = format!("`jwt` cannot be `{}`", shortened(text.shown()));
            let help = format!("where the keys are is said by `jwks=`, as in `jwt jwks={}`", quoted(&shortened(text.shown())));
            lowering.report(text.error("bad-value", message).help(help));
            false
        }
        read => read.is_some(),
    };
    if is_off {
        let fault = line.settings_of_off();
        return fault.map_or(Some(Step::Jwt(None)), |fault| lowering.refuse(fault));
    }
    let children = line.lines(lowering);
    let of = |name: &str| children.iter().filter(move |child| child.directive.name == name).collect::<Vec<_>>();
    let issuers = issuers(lowering, line, &of("other-issuer"));
    let places = places(lowering, line);
    let (requirements, headers) = (requirements(lowering, &of("require")), headers(lowering, &of("header")));
    let jwt = Jwt {
        issuers,
        forwards: forwards(lowering, line, &places),
        places,
        requirements,
        headers,
        user: claim(lowering, line, "user").unwrap_or_else(|| Jwt::USER.to_owned()),
        realm: realm(lowering, line),
        is_optional: line.switch(lowering, "optional").unwrap_or(false),
        needs_expiry: line.switch(lowering, "expiry").unwrap_or(true),
        leeway: line.duration(lowering, "leeway").unwrap_or(Jwt::LEEWAY),
        kind: line.text(lowering, "type").map(|text| text.value),
        token_bytes_max: line.number(lowering, "token-bytes").map_or(Jwt::TOKEN_BYTES_MAX, |bytes| bytes as usize),
    };
    let is_faulty = lowering.has_errors_since(errors_before);
    (!is_faulty).then(|| Step::Jwt(Some(Box::new(jwt))))
}

/// The issuer of the line, and those of the block. Faults are reported.
fn issuers(lowering: &mut Lowering<'_>, line: &Line<'_>, children: &[&Line<'_>]) -> Vec<TokenIssuer> {
    let mut issuers = Vec::new();
    let mut places = Vec::new();
    if let Some(keys) = keys(lowering, line) {
        let name = line.text(lowering, "issuer");
        places.push(name.as_ref().map_or_else(|| line.location(), |name| name.location.clone()));
        issuers.push(TokenIssuer { keys, issuer: name.map(|name| name.value), audiences: audiences(lowering, line) });
    } else if line.property("jwks").is_none() && line.property("issuer").is_some() {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "`jwt` needs the keys of its issuer");
        lowering.report(diagnostic.help("say where they are, as in `jwks=\"https://idp.example.com/jwks.json\"`"));
    }
    for child in children {
        let name = child.read_argument(lowering, 0).map(Read::text);
        if child.property("jwks").is_none() {
            let diagnostic = Diagnostic::error("missing-argument", child.location(), "an `other-issuer` needs its keys");
            lowering.report(diagnostic.help("say where they are, as in `jwks=\"https://idp.example.com/jwks.json\"`"));
        }
        let (keys, audiences) = (keys(lowering, child), audiences(lowering, child));
        if let (Some(keys), Some(name)) = (keys, name) {
            places.push(name.location.clone());
            issuers.push(TokenIssuer { keys, issuer: Some(name.value), audiences });
        }
    }
    check_issuers(lowering, line, &issuers, &places);
    issuers
}

fn check_issuers(lowering: &mut Lowering<'_>, line: &Line<'_>, issuers: &[TokenIssuer], places: &[Location]) {
    let names_keys = ["jwks", "issuer"].iter().any(|name| line.property(name).is_some())
        || line.children().iter().any(|node| node.name.text == "other-issuer");
    if !names_keys && line.argument(0).is_none() {
        let message = "`jwt` needs the keys that tokens are verified with";
        let help = "for example `jwt jwks=\"https://idp.example.com/jwks.json\" issuer=\"https://idp.example.com\"`";
        lowering.report(Diagnostic::error("missing-argument", line.location(), message).help(help));
    }
    if issuers.len() > ISSUERS_MAX {
        let message = format!("there are more than {ISSUERS_MAX} issuers");
        lowering.report(Diagnostic::error("too-many", line.location(), message).help("routes may have different ones"));
    }
    for (position, issuer) in issuers.iter().enumerate() {
        if issuer.issuer.is_none() && issuers.len() > 1 {
            let message = "with several issuers each needs its name, by which a token finds its keys";
            let diagnostic = Diagnostic::error("missing-argument", places[position].clone(), message);
            lowering.report(diagnostic.help("add `issuer=\"…\"`, as `iss` says it"));
        }
        let is_apart = issuer.issuer.as_ref().is_none_or(|name| is_part_of_name(name));
        if !is_apart && issuers.len() > 1 {
            let message = "with several issuers the name of one stands in front of its users', so it has no `|`, no control characters and no space around it";
            let diagnostic = Diagnostic::error("bad-issuer", places[position].clone(), message);
            lowering.report(
                diagnostic.help("give it a `jwt` of its own, in a `route`, where `{auth.user}` is the user's name alone"),
            );
        }
        let first = issuers[..position].iter().position(|other| other.issuer.is_some() && other.issuer == issuer.issuer);
        if let Some(first) = first {
            let diagnostic = Diagnostic::error("duplicate-issuer", places[position].clone(), "this issuer is written twice");
            lowering.report(diagnostic.label(places[first].clone(), "the first one").help("remove one of them"));
        }
    }
}

/// Whether `issuer|user` can be read in one way alone.
fn is_part_of_name(issuer: &str) -> bool {
    !issuer.is_empty() && issuer.trim() == issuer && !issuer.chars().any(|c| c == '|' || c.is_control())
}

fn audiences(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<String> {
    line.texts(lowering, "audience").into_iter().map(|text| text.value).collect()
}

fn keys(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<KeySource> {
    let ca = ca_file(lowering, line);
    let text = line.text(lowering, "jwks")?;
    if !text.value.contains("://") {
        let path = lowering.path(&text.value, &text.location);
        lowering.spans.files.push((path.clone(), text.location));
        return Some(KeySource::File(path));
    }
    let url = text.parsed(lowering, "bad-url", check_url(&text.value, "the address of the keys", &["https", "http"]))?;
    if let Some(rest) = url.strip_prefix("http://")
        && !is_this_machine(rest)
    {
        let message = "whoever is on the way can exchange these keys, and sign tokens that are taken";
        let diagnostic = Diagnostic::warning("plain-keys", text.location.clone(), message);
        lowering.report(diagnostic.help("use `https://`"));
    }
    Some(KeySource::Url { url, ca })
}

/// Of an address over TLS; of a file and of plain HTTP nothing is verified.
fn ca_file(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<PathBuf> {
    let ca = line.text(lowering, "ca")?;
    let is_over_tls = line
        .property("jwks")
        .is_some_and(|keys| matches!(&keys.literal, Literal::Text(text) if text.starts_with("https://") || text.contains('{')));
    if !is_over_tls {
        let message = "`ca=` is for keys that come over `https://`";
        return lowering
            .refuse(ca.error("conflicting-settings", message).help("remove it, or name such an address with `jwks=`"));
    }
    let path = lowering.path(&ca.value, &ca.location);
    lowering.spans.files.push((path.clone(), ca.location));
    Some(path)
}

/// Of what stands behind `http://`.
pub fn is_this_machine(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn places(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<TokenPlace> {
    let mut places = vec![TokenPlace::Authorization];
    let mut named = |property: &str| {
        let text = line.text(lowering, property)?;
        if !is_token(&text.value) {
            let message = format!("`{}` is not a name that `{property}=` can have", shortened(text.shown()));
            lowering.report(text.error("bad-value", message).help(format!("for example `{property}=\"access_token\"`")));
        }
        Some(text.value)
    };
    places.extend(named("field").map(|name| TokenPlace::Header(name.to_ascii_lowercase())));
    places.extend(named("cookie").map(TokenPlace::Cookie));
    places.extend(named("query").map(TokenPlace::Query));
    places
}

fn forwards(lowering: &mut Lowering<'_>, line: &Line<'_>, places: &[TokenPlace]) -> bool {
    let forwards = line.switch(lowering, "forward").unwrap_or(true);
    let stays = places.iter().any(|place| matches!(place, TokenPlace::Cookie(_) | TokenPlace::Query(_)));
    if !forwards
        && stays
        && let Some(value) = line.property("forward")
    {
        let message = "a token in a cookie or in the query goes on to the upstream with them";
        let diagnostic = Diagnostic::error("conflicting-settings", value.location.clone(), message);
        lowering.report(diagnostic.help("remove `forward=`, or take tokens from fields only"));
    }
    forwards
}

fn realm(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<String> {
    let text = line.text(lowering, "realm")?;
    if text.value.is_empty() || text.value.len() > REALM_BYTES_MAX || text.value.chars().any(char::is_control) {
        let message = format!("`realm=` is a name of 1 to {REALM_BYTES_MAX} bytes on one line");
        return lowering.refuse(text.error("bad-value", message).help("for example `realm=\"Orders\"`"));
    }
    Some(text.value)
}

pub fn claim(lowering: &mut Lowering<'_>, line: &Line<'_>, property: &str) -> Option<String> {
    let text = line.text(lowering, property)?;
    checked_claim(lowering, text)
}

fn checked_claim(lowering: &mut Lowering<'_>, text: Text) -> Option<String> {
    if text.value.is_empty() || text.value.len() > NAME_BYTES_MAX {
        let message = format!("the name of a claim has 1 to {NAME_BYTES_MAX} bytes");
        return lowering.refuse(text.error("bad-value", message).help("for example `sub`"));
    }
    Some(text.value)
}

pub fn requirements(lowering: &mut Lowering<'_>, children: &[&Line<'_>]) -> Vec<ClaimRequirement> {
    let mut requirements = Vec::new();
    for child in children {
        let claim = child.read_argument(lowering, 0).map(Read::text);
        let claim = claim.and_then(|text| checked_claim(lowering, text));
        let (equals, contains) = (child.text(lowering, "equals"), child.text(lowering, "contains"));
        let one_of = child.texts(lowering, "one-of");
        for text in equals.iter().chain(&contains).chain(&one_of).filter(|text| text.value.is_empty()) {
            let help = "write the value, or leave the property out where it is enough that the claim is there";
            lowering.report(text.error("bad-value", "what a claim has to be is empty here").help(help));
        }
        let one_of: Vec<String> = one_of.into_iter().map(|text| text.value).collect();
        let tests = [equals.is_some(), contains.is_some(), !one_of.is_empty()];
        if tests.iter().filter(|is_there| **is_there).count() > 1 {
            let message = "a `require` has one of `equals=`, `contains=` and `one-of=`";
            let diagnostic = Diagnostic::error("conflicting-settings", child.location(), message);
            lowering.report(diagnostic.help("write a line for each: all of them have to hold"));
        }
        let test = match (equals, contains, one_of.is_empty()) {
            (Some(text), _, _) => ClaimTest::Equals(text.value),
            (None, Some(text), _) => ClaimTest::Contains(text.value),
            (None, None, false) => ClaimTest::OneOf(one_of),
            (None, None, true) => ClaimTest::Present,
        };
        requirements.extend(claim.map(|claim| ClaimRequirement { claim, test }));
    }
    requirements
}

pub fn headers(lowering: &mut Lowering<'_>, children: &[&Line<'_>]) -> Vec<ClaimHeader> {
    let mut headers: Vec<ClaimHeader> = Vec::new();
    for child in children {
        let name = child.read_argument(lowering, 0).map(Read::text);
        if child.property("claim").is_none() {
            let diagnostic = Diagnostic::error("missing-argument", child.location(), "a `header` here says what a claim says");
            lowering.report(diagnostic.help("for example `header \"X-User\" claim=\"sub\"`"));
        }
        let claim = claim(lowering, child, "claim");
        let Some(name) = name else { continue };
        if !is_token(&name.value) || NOT_FOR_CLAIMS.iter().any(|other| name.value.eq_ignore_ascii_case(other)) {
            let message = format!("`{}` is not a field that a claim can be in", shortened(name.shown()));
            lowering.report(name.error("bad-header", message).help("for example `X-User`"));
        } else if headers.iter().any(|known| known.name.eq_ignore_ascii_case(&name.value)) {
            let message = format!("`{}` is written twice", shortened(name.shown()));
            lowering.report(name.error("duplicate-header", message).help("remove one of them"));
        } else {
            headers.extend(claim.map(|claim| ClaimHeader { name: name.value, claim }));
        }
    }
    headers
}

pub fn write(line: &mut Writer, jwt: &Jwt) {
    let Jwt {
        issuers,
        places,
        requirements,
        headers,
        user,
        realm,
        is_optional,
        forwards,
        needs_expiry,
        leeway,
        kind,
        token_bytes_max,
    } = jwt;
    line.name("jwt");
    if let Some(first) = issuers.first() {
        write_issuer(line, first, |line, name| line.optional("issuer", name));
    }
    line.optional("type", kind.as_ref());
    for place in places {
        match place {
            TokenPlace::Authorization => &mut *line,
            TokenPlace::Header(name) => line.property("field", name),
            TokenPlace::Cookie(name) => line.property("cookie", name),
            TokenPlace::Query(name) => line.property("query", name),
        };
    }
    line.unless(&Jwt::USER, "user", &user.as_str(), ToString::to_string);
    line.optional("realm", realm.as_ref());
    line.switch_unless(false, "optional", *is_optional);
    line.switch_unless(true, "forward", *forwards);
    line.switch_unless(true, "expiry", *needs_expiry);
    line.unless(&Jwt::LEEWAY, "leeway", leeway, duration);
    line.unless(&(Jwt::TOKEN_BYTES_MAX as u64), "token-bytes", &(*token_bytes_max as u64), size);
    line.lines(|lines| {
        lines.extend(issuers.iter().skip(1), |line, issuer| {
            line.name("other-issuer").argument(issuer.issuer.as_deref().unwrap_or_default());
            write_issuer(line, issuer, |line, _| line);
        });
        lines.extend(requirements, write_requirement);
        lines.extend(headers, write_header);
    });
}

/// Keys of an issuer, its name where the line has it as a property, and for whom its tokens are.
fn write_issuer<'w, 'f>(
    line: &'w mut Writer<'f>,
    issuer: &TokenIssuer,
    write_name: impl FnOnce(&'w mut Writer<'f>, Option<&String>) -> &'w mut Writer<'f>,
) {
    let line = match &issuer.keys {
        KeySource::Url { url, ca } => line.property("jwks", url).optional("ca", ca.as_ref().map(|ca| ca.display())),
        KeySource::File(path) => line.property("jwks", path.display()),
    };
    let line = write_name(line, issuer.issuer.as_ref());
    for audience in &issuer.audiences {
        line.property("audience", audience);
    }
}

pub fn write_header(line: &mut Writer, header: &ClaimHeader) {
    line.name("header").argument(&header.name).property("claim", &header.claim);
}

pub fn write_requirement(line: &mut Writer, requirement: &ClaimRequirement) {
    line.name("require").argument(&requirement.claim);
    match &requirement.test {
        ClaimTest::Present => line,
        ClaimTest::Equals(text) => line.property("equals", text),
        ClaimTest::Contains(text) => line.property("contains", text),
        ClaimTest::OneOf(texts) => {
            for text in texts {
                line.property("one-of", text);
            }
            line
        }
    };
}
