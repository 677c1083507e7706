//! `oidc`: who may ask, by a log-in at an OpenID provider.

use super::jwt;
use crate::diagnostics::{Diagnostic, shortened};
use crate::forms::{check_url, is_token};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat};
use crate::written_line::{Writer, duration};
use std::path::PathBuf;
use std::time::Duration;
use tidegate_kdl::quoted;
use tidegate_model::{Oidc, OidcProvider, Secret, Step};

const ISSUER: Property = Property::once(
    "issuer",
    Kind::Text("an address"),
    "Who logs people in, exactly as the provider's document says it. That is at `/.well-known/openid-configuration` behind it.",
);
const CLIENT: Property =
    Property::once("client", Kind::Text("an identifier"), "What the provider calls this site (`client_id`).");
const SECRET: Property =
    Property::once("secret", Kind::Secret("a secret"), "The client's secret. Without one PKCE speaks alone (a public client).");
const CA: Property = Property::once(
    "ca",
    Kind::Path,
    "Certificates in PEM that the provider's certificate is verified against, in place of the system's.",
);
const SCOPE: Property = Property::many(
    "scope",
    Kind::Text("a scope"),
    "What is asked for; `openid`, `profile` and `email` when left out. `openid` is always asked for.",
);

pub static OIDC: Directive = Directive {
    name: "oidc",
    places: &[Place::Site, Place::Route, Place::AuthAny],
    arguments: &[Argument::optional(
        "off",
        Kind::ChoiceOr(&["off"], ""),
        "`off`: nobody is asked, in a route of a site that asks.",
    )],
    properties: &[
        ISSUER,
        CLIENT,
        SECRET,
        CA,
        SCOPE,
        Property::once(
            "session",
            Kind::Duration { min: Duration::from_secs(60), max: Oidc::SESSION_MAX },
            "How long a log-in holds, whatever is refreshed meanwhile; `8h` when left out.",
        ),
        Property::once(
            "domain",
            Kind::Text("a domain"),
            "Sites of this domain that say the same have one log-in. This host alone when left out.",
        ),
        Property::once(
            "callback",
            Kind::Text("a path or an address"),
            "Where the provider sends people back to; `/.tidegate/oidc/callback` when left out. With `domain=` it may be a whole address of one of the sites.",
        ),
        Property::once(
            "logout",
            Kind::Text("a path"),
            "Who goes there is logged out, here and at the provider; `/.tidegate/oidc/logout` when left out.",
        ),
        Property::once("after-logout", Kind::Text("a path"), "Where people are then; `/` when left out."),
        Property::once(
            "user",
            Kind::Text("a claim"),
            "What `{auth.user}` is; `sub` when left out, and for who has no such claim.",
        ),
        Property::once(
            "forward-access",
            Kind::Text("a header name"),
            "The field in which the upstream gets the access token; in none when left out. `Authorization` has it behind `Bearer`.",
        ),
        Property::once(
            "forward-id",
            Kind::Text("a header name"),
            "The field in which the upstream gets the ID token; in none when left out.",
        ),
        Property::once(
            "userinfo",
            Kind::Switch,
            "Whether the provider is asked for claims that the ID token does not have, once for each log-in and each refresh (its userinfo endpoint); `#false` when left out.",
        ),
        Property::once("optional", Kind::Switch, "Whether who has not logged in goes on; `#false` when left out."),
        Property::once(
            "leeway",
            Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(3600) },
            "How far clocks may be apart; `60s` when left out.",
        ),
    ],
    block: Block::Optional(Place::Oidc),
    summary: "Asks for a log-in at an OpenID provider.",
    details: "Who comes with a browser is sent to the provider (authorization code flow with PKCE) and returns to the page that he wanted. Only navigations begin a log-in. Scripts, WebSockets, prefetches, methods with content and \
              whatever is no browser get 401 with `WWW-Authenticate: OpenID login=\"/.tidegate/oidc/login…\"`; a script sends its page there with `return=` and a path of this site.\n\n\
              A session lies in cookies (`__Host-`, `Secure`, `HttpOnly`, `SameSite=Lax`), encrypted with AES-256-GCM, and nowhere else. Keys are made in the `storage`, a new one each day, so hosts with the same storage know each \
              other's sessions, and a restart ends none. Longer ones lie in up to five cookies. The cookies are taken out of what upstreams get. Browsers keep `Secure` cookies over TLS, or of `localhost`.\n\n\
              With a refresh token, claims are renewed before the access token ends: once for all tabs of a browser, on all hosts of the storage. While the provider is away sessions go on to their end.\n\n\
              `/.tidegate/oidc/back-channel` takes the provider's word that a session has ended (back-channel logout); every host refuses it within 5 s.\n\n\
              The provider's document is fetched beside the workers, and again each hour. A start does not wait for it: log-ins do, for 5 s, and get 503 with `oidc_provider_away` then. The callback, \
              `/.tidegate/oidc/login` and the log-out are answered in front of all routes of a site that has `oidc` anywhere.\n\n\
              `{jwt.email}` and the like are claims of the ID token, and with `userinfo=` what the provider says beside it, for steps behind this one. `require` lines that are not met are answered with 403. Of the `oidc` of a site and of its route the route's counts.",
    default: "nobody is asked",
    example: "oidc issuer=\"https://idp.example.com\" client=\"tidegate\" secret=\"a secret of the provider\" user=\"email\" {\n    require \"groups\" contains=\"staff\"\n    header \"X-User\" claim=\"email\"\n}",
    lower: Lower::Step(lower),
    ..Directive::PLAIN
};

pub static PROVIDER: Directive = Directive {
    name: "provider",
    places: &[Place::Oidc],
    repeat: Repeat::Many,
    arguments: &[Argument::one(
        "name",
        Kind::Text("a name"),
        "What people know it by: it is the text of its link, as in `Google`.",
    )],
    properties: &[ISSUER, CLIENT, SECRET, CA, SCOPE],
    block: Block::Optional(Place::OidcProvider),
    summary: "One of several providers by which somebody may log in.",
    details: "Where there are several, whoever comes without a session gets a page of Tidegate's own at `/.tidegate/oidc/login` with a link for each, or goes straight to one by `provider=` and its name there.               It has no script, asks no other server for anything, and follows the browser's light or dark. `require`, `header`, `user=` and all else of the `oidc` hold for each of them. Up to ten.",
    example: "provider \"Google\" issuer=\"https://accounts.google.com\" client=\"tidegate\" secret=\"a secret of the provider\" {\n    parameter \"prompt\" \"select_account\"\n}",
    ..Directive::PLAIN
};

pub static PARAMETER: Directive = Directive {
    name: "parameter",
    places: &[Place::Oidc, Place::OidcProvider],
    repeat: Repeat::Many,
    arguments: &[
        Argument::one("name", Kind::Text("a name"), "The parameter, such as `prompt`, `audience`, `access_type` or `hd`."),
        Argument::one("value", Kind::Text("a value"), "Its value."),
    ],
    summary: "One more parameter of the request for a log-in.",
    example: "parameter \"prompt\" \"select_account\"",
    ..Directive::PLAIN
};

const TEXT_BYTES_MAX: usize = 1000;
const SCOPES_MAX: usize = 50;
/// Links of a page.
const PROVIDERS_MAX: usize = 10;
/// Of the text of a link.
const NAME_BYTES_MAX: usize = 60;
/// What the flow itself says.
const OWN_PARAMETERS: [&str; 9] = [
    "response_type",
    "response_mode",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
];
/// Fields that say something else to everybody.
const NOT_FOR_TOKENS: [&str; 2] = ["cookie", "host"];

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let errors_before = lowering.diagnostics.len();
    let is_off = match line.read_argument(lowering, 0) {
        Some(Read::Text(text)) => {
            let message = format!("`oidc` cannot be `{}`", shortened(text.shown()));
            let help =
                format!("who logs people in is said by `issuer=`, as in `oidc issuer={}`", quoted(&shortened(text.shown())));
            lowering.report(text.error("bad-value", message).help(help));
            false
        }
        read => read.is_some(),
    };
    if is_off {
        let fault = line.settings_of_off();
        return fault.map_or(Some(Step::Oidc(None)), |fault| lowering.refuse(fault));
    }
    let children = line.lines(lowering);
    let of = |name: &str| children.iter().filter(move |child| child.directive.name == name).collect::<Vec<_>>();
    let (named, parameters) = (of("provider"), of("parameter"));
    let (provider, others) = if named.is_empty() {
        (provider(lowering, line, &parameters, String::new()), Vec::new())
    } else {
        let mut several = several(lowering, (line, &parameters), &named).into_iter();
        (several.next(), several.collect())
    };
    let domain = cookie_domain(lowering, line);
    let oidc = Oidc {
        session: line.duration(lowering, "session").unwrap_or(Oidc::SESSION),
        callback: callback(lowering, line, domain.as_deref()).unwrap_or_else(|| Oidc::CALLBACK.to_owned()),
        domain,
        logout: path(lowering, line, "logout").unwrap_or_else(|| Oidc::LOGOUT.to_owned()),
        after_logout: path(lowering, line, "after-logout").unwrap_or_else(|| Oidc::AFTER_LOGOUT.to_owned()),
        user: jwt::claim(lowering, line, "user").unwrap_or_else(|| Oidc::USER.to_owned()),
        requirements: jwt::requirements(lowering, &of("require")),
        headers: jwt::headers(lowering, &of("header")),
        access_token: field(lowering, line, "forward-access"),
        id_token: field(lowering, line, "forward-id"),
        asks_user_info: line.switch(lowering, "userinfo").unwrap_or(false),
        is_optional: line.switch(lowering, "optional").unwrap_or(false),
        leeway: line.duration(lowering, "leeway").unwrap_or(Oidc::LEEWAY),
        provider: provider?,
        others,
    };
    check_paths(lowering, line, &oidc);
    let is_faulty = lowering.diagnostics[errors_before..].iter().any(Diagnostic::is_error);
    (!is_faulty).then(|| Step::Oidc(Some(Box::new(oidc))))
}

/// Providers that a page asks about.
fn several(lowering: &mut Lowering<'_>, (line, parameters): (&Line<'_>, &[&Line<'_>]), named: &[&Line<'_>]) -> Vec<OidcProvider> {
    let own = ["issuer", "client", "secret", "ca", "scope"].iter().find(|name| line.property(name).is_some());
    if own.is_some() || !parameters.is_empty() {
        let what = own.map_or("a `parameter`".to_owned(), |name| format!("`{name}=`"));
        let message = format!("{what} of an `oidc` with `provider` lines is of none of them");
        let help = "write it into the `provider` line that it is of";
        lowering.report(Diagnostic::error("conflicting-settings", line.location(), message).help(help));
    }
    if let Some(first) = named.get(PROVIDERS_MAX) {
        let message = format!("an `oidc` has at most {PROVIDERS_MAX} providers");
        lowering.report(Diagnostic::error("too-many", first.location(), message).help("remove some of them"));
    }
    let mut providers: Vec<OidcProvider> = Vec::new();
    for child in named {
        let Some(name) = child.read_argument(lowering, 0).map(Read::text) else { continue };
        let is_fine = (1..=NAME_BYTES_MAX).contains(&name.value.len())
            && name.value.trim() == name.value
            && !name.value.chars().any(char::is_control);
        if !is_fine {
            let message = format!("a provider's name has 1 to {NAME_BYTES_MAX} bytes on one line");
            lowering.report(name.error("bad-value", message).help("for example `provider \"Google\" …`"));
        }
        if providers.iter().any(|known| known.name == name.value) {
            let message = format!("there are two providers `{}`", shortened(name.shown()));
            lowering.report(name.error("duplicate-provider", message).help("give each a name of its own"));
        }
        let children = child.lines(lowering);
        let parameters: Vec<&Line<'_>> = children.iter().collect();
        let Some(provider) = provider(lowering, child, &parameters, name.value) else { continue };
        let is_same = |known: &&OidcProvider| {
            let of = |one: &OidcProvider| (one.issuer.clone(), one.client.clone(), one.scopes.clone(), one.parameters.clone());
            of(known) == of(&provider)
        };
        if let Some(known) = providers.iter().find(is_same) {
            let message = format!("`{}` and `{}` are the same log-in", known.name, provider.name);
            lowering.report(Diagnostic::error("duplicate-provider", child.location(), message).help("remove one of them"));
        }
        providers.push(provider);
    }
    providers
}

fn provider(lowering: &mut Lowering<'_>, line: &Line<'_>, parameters: &[&Line<'_>], name: String) -> Option<OidcProvider> {
    let (issuer, client) = (issuer(lowering, line), written(lowering, line, "client"));
    let missing = ["issuer", "client"].iter().any(|name| line.property(name).is_none());
    if missing && (!name.is_empty() || line.argument(0).is_none()) {
        let directive = line.directive.name;
        let message = format!("`{directive}` needs who logs people in, and what this site is called there");
        let beginning = if name.is_empty() { directive.to_owned() } else { format!("{directive} {}", quoted(&shortened(&name))) };
        let help = format!(
            "for example `{beginning} issuer=\"https://idp.example.com\" client=\"tidegate\" secret=\"{{env.OIDC_SECRET}}\"`"
        );
        lowering.report(Diagnostic::error("missing-argument", line.location(), message).help(help));
    }
    let secret = line.text(lowering, "secret").and_then(|text| secret(lowering, &text));
    let ca = ca_file(lowering, line, issuer.as_deref());
    let scopes = scopes(lowering, line);
    let mut pairs: Vec<(String, String)> = Vec::new();
    for child in parameters {
        let mut arguments = child.read_arguments(lowering).into_iter().map(Read::text);
        let (Some(name), Some(value)) = (arguments.next(), arguments.next()) else { continue };
        let is_one =
            !name.value.is_empty() && name.value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        if !is_one || OWN_PARAMETERS.contains(&name.value.as_str()) {
            let message = format!("`{}` is not a parameter that can be added", shortened(name.shown()));
            lowering.report(
                name.error("bad-value", message).help("for example `parameter \"prompt\" \"login\"`; scopes stand in `scope=`"),
            );
        } else if value.value.len() > TEXT_BYTES_MAX {
            let message = format!("a parameter has at most {TEXT_BYTES_MAX} bytes");
            lowering.report(value.error("bad-value", message).help("requests for a log-in are addresses, and these have bounds"));
        } else if pairs.iter().any(|(known, _)| *known == name.value) {
            let message = format!("the parameter `{}` is written twice", shortened(name.shown()));
            lowering.report(name.error("duplicate-parameter", message).help("remove one of them"));
        } else {
            pairs.push((name.value, value.value));
        }
    }
    Some(OidcProvider { name, issuer: issuer?, client: client?, ca, secret, scopes, parameters: pairs })
}

fn issuer(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<String> {
    let text = line.text(lowering, "issuer")?;
    let url = text.parsed(lowering, "bad-url", check_url(&text.value, "the issuer", &["https", "http"]))?;
    if let Some(known) = ["/.well-known/openid-configuration", "?", "#"].iter().find(|part| url.contains(**part)) {
        let message = format!("an issuer has no `{known}`: its document is found behind it");
        let help = format!("write `issuer={}`", quoted(url.split(known).next().unwrap_or_default()));
        return lowering.refuse(text.error("bad-url", message).help(help));
    }
    if let Some(rest) = url.strip_prefix("http://")
        && !jwt::is_this_machine(rest)
    {
        let message = "whoever is on the way can log in as anybody";
        let diagnostic = Diagnostic::warning("plain-issuer", text.location.clone(), message);
        lowering.report(diagnostic.help("use `https://`"));
    }
    Some(url)
}

/// Of a provider over TLS; of plain HTTP nothing is verified.
fn ca_file(lowering: &mut Lowering<'_>, line: &Line<'_>, issuer: Option<&str>) -> Option<PathBuf> {
    let ca = line.text(lowering, "ca")?;
    if issuer.is_some_and(|issuer| issuer.starts_with("http://")) {
        let message = "`ca=` is for a provider at an `https://` address";
        return lowering.refuse(ca.error("conflicting-settings", message).help("remove it, or use `https://`"));
    }
    let path = lowering.path(&ca.value, &ca.location);
    lowering.spans.files.push((path.clone(), ca.location));
    Some(path)
}

/// A name of printable letters.
fn written(lowering: &mut Lowering<'_>, line: &Line<'_>, property: &str) -> Option<String> {
    let text = line.text(lowering, property)?;
    let is_fine = (1..=TEXT_BYTES_MAX).contains(&text.value.len()) && !text.value.chars().any(char::is_control);
    if !is_fine {
        let message = format!("`{property}=` has 1 to {TEXT_BYTES_MAX} bytes on one line");
        return lowering.refuse(text.error("bad-value", message).help(format!("for example `{property}=\"tidegate\"`")));
    }
    Some(text.value)
}

/// As it comes from a file, with the line end that editors put there.
fn secret(lowering: &mut Lowering<'_>, text: &Text) -> Option<Secret> {
    let value = text.value.trim_end_matches(['\r', '\n']);
    let is_fine = (1..=TEXT_BYTES_MAX).contains(&value.len()) && !value.chars().any(char::is_control);
    if !is_fine {
        let message = format!("`secret=` has 1 to {TEXT_BYTES_MAX} bytes on one line");
        return lowering.refuse(text.error("bad-value", message).help("for example `secret=\"{env.OIDC_SECRET}\"`"));
    }
    Some(Secret::new(value))
}

fn scopes(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<String> {
    let written = line.texts(lowering, "scope");
    if written.is_empty() {
        return Oidc::SCOPES.map(str::to_owned).into();
    }
    let mut scopes = vec!["openid".to_owned()];
    for text in written {
        // RFC 6749 section 3.3. Several may stand in one text, as they are written elsewhere.
        for scope in text.value.split_ascii_whitespace() {
            let is_one = scope.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
            if !is_one || scopes.len() >= SCOPES_MAX {
                let message = format!("`{}` is not a scope that can be asked for", shortened(text.shown()));
                lowering.report(text.error("bad-value", message).help("for example `scope=\"email\" scope=\"groups\"`"));
                return scopes;
            }
            if !scopes.iter().any(|known| known == scope) {
                scopes.push(scope.to_owned());
            }
        }
    }
    scopes
}

/// The domain in `domain=` that a cookie is for.
pub fn cookie_domain(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<String> {
    let text = line.text(lowering, "domain")?;
    let name = text.value.trim_start_matches('.').to_ascii_lowercase();
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let labels = name.split('.').count();
    if labels < 2 || name.len() > 253 || !name.split('.').all(is_label) || name.parse::<std::net::IpAddr>().is_ok() {
        let message = format!("`{}` is not a domain that cookies can be for", shortened(text.shown()));
        return lowering.refuse(text.error("bad-value", message).help("for example `domain=\"example.com\"`"));
    }
    Some(name)
}

fn callback(lowering: &mut Lowering<'_>, line: &Line<'_>, domain: Option<&str>) -> Option<String> {
    let text = line.text(lowering, "callback")?;
    let Some((_, rest)) = text.value.split_once("://") else { return path(lowering, line, "callback") };
    let url = text.parsed(lowering, "bad-url", check_url(&text.value, "the callback", &["https", "http"]))?;
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.split(':').next().unwrap_or_default();
    let is_of = |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|before| before.ends_with('.'));
    if !domain.is_some_and(is_of) {
        let message = "a callback with a host needs a `domain=` that it is in, for whose sites the cookies are";
        return lowering.refuse(text.error("conflicting-settings", message).help("write a path alone, or `domain=` as well"));
    }
    checked_path(lowering, &text, &rest[authority.len()..], "callback").map(|_| url)
}

fn path(lowering: &mut Lowering<'_>, line: &Line<'_>, property: &str) -> Option<String> {
    let text = line.text(lowering, property)?;
    checked_path(lowering, &text, &text.value, property)
}

fn checked_path(lowering: &mut Lowering<'_>, text: &Text, value: &str, property: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let is_fine = value.starts_with('/') && value.len() <= TEXT_BYTES_MAX && value.bytes().all(is_plain);
    if !is_fine || value.contains("//") || value.split('/').any(|segment| segment == "." || segment == "..") {
        let message = format!("`{property}=` is a path of this site, of letters, digits, `-`, `.`, `_` and `~`");
        return lowering.refuse(text.error("bad-value", message).help(format!("for example `{property}=\"/goodbye\"`")));
    }
    Some(value.to_owned())
}

fn check_paths(lowering: &mut Lowering<'_>, line: &Line<'_>, oidc: &Oidc) {
    let own = [oidc.callback_path(), &oidc.logout, Oidc::LOG_IN, Oidc::BACK_CHANNEL];
    let twice = (1..own.len()).find(|position| own[..*position].contains(&own[*position]));
    if let Some(position) = twice {
        let message = format!("`{}` is the address of two things", own[position]);
        let diagnostic = Diagnostic::error("conflicting-settings", line.location(), message);
        lowering.report(diagnostic.help("give `callback=` and `logout=` paths of their own"));
    }
}

fn field(lowering: &mut Lowering<'_>, line: &Line<'_>, property: &str) -> Option<String> {
    let text = line.text(lowering, property)?;
    if !is_token(&text.value) || NOT_FOR_TOKENS.iter().any(|other| text.value.eq_ignore_ascii_case(other)) {
        let message = format!("`{}` is not a field that a token can be in", shortened(text.shown()));
        return lowering.refuse(text.error("bad-header", message).help(format!("for example `{property}=\"X-Token\"`")));
    }
    Some(text.value)
}

pub fn write(line: &mut Writer, oidc: &Oidc) {
    let Oidc {
        provider,
        others,
        session,
        domain,
        callback,
        logout,
        after_logout,
        user,
        requirements,
        headers,
        access_token,
        id_token,
        asks_user_info,
        is_optional,
        leeway,
    } = oidc;
    line.name("oidc");
    let is_named = !provider.name.is_empty();
    if !is_named {
        write_provider(line, provider);
    }
    line.unless(&Oidc::SESSION, "session", session, duration);
    line.optional("domain", domain.as_ref());
    line.unless(&Oidc::CALLBACK, "callback", &callback.as_str(), ToString::to_string);
    line.unless(&Oidc::LOGOUT, "logout", &logout.as_str(), ToString::to_string);
    line.unless(&Oidc::AFTER_LOGOUT, "after-logout", &after_logout.as_str(), ToString::to_string);
    line.unless(&Oidc::USER, "user", &user.as_str(), ToString::to_string);
    line.optional("forward-access", access_token.as_ref());
    line.optional("forward-id", id_token.as_ref());
    line.switch_unless(false, "userinfo", *asks_user_info);
    line.switch_unless(false, "optional", *is_optional);
    line.unless(&Oidc::LEEWAY, "leeway", leeway, duration);
    line.lines(|lines| {
        if is_named {
            lines.extend(std::iter::once(provider).chain(others), |line, provider| {
                write_provider(line.name("provider").argument(&provider.name), provider);
                line.block(&provider.parameters, write_parameter);
            });
        } else {
            lines.extend(&provider.parameters, write_parameter);
        }
        lines.extend(requirements, jwt::write_requirement);
        lines.extend(headers, jwt::write_header);
    });
}

fn write_provider(line: &mut Writer, provider: &OidcProvider) {
    let OidcProvider { name: _, issuer, client, ca, secret, scopes, parameters: _ } = provider;
    line.property("issuer", issuer).property("client", client).secret_property("secret", secret.as_ref());
    line.optional("ca", ca.as_ref().map(|ca| ca.display()));
    if *scopes != Oidc::SCOPES {
        // `openid` stands in front of the others, and alone it has to be said.
        let said = if scopes.len() > 1 { &scopes[1..] } else { &scopes[..] };
        for scope in said {
            line.property("scope", scope);
        }
    }
}

fn write_parameter(line: &mut Writer, (name, value): &(String, String)) {
    line.name("parameter").argument(name).argument(value);
}
