//! `api-key`: which programs may ask, each by a key of its own.

use super::failures;
use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::forms::is_token;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat};
use crate::written_line::Writer;
use tidegate_model::{ApiKeyAuth, ApiKeyPlace, ApiKeySource, ListedApiKey, Secret, Step};
use tidegate_passwords::{ApiKeyFault, ApiKeys};

pub static API_KEY: Directive = Directive {
    name: "api-key",
    places: &[Place::Site, Place::Route, Place::AuthAny],
    arguments: &[Argument::optional(
        "off",
        Kind::ChoiceOr(&["off"], ""),
        "`off`: nobody is asked, in a route of a site that asks.",
    )],
    properties: &[
        Property::once(
            "file",
            Kind::Path,
            "Keys, a line `name:hash` each as `tidegate hash-key` writes it. Watched: a changed file counts at once, and one that cannot be used not at all.",
        ),
        Property::once(
            "field",
            Kind::Text("a header name"),
            "The field in which a key stands; `X-API-Key` when no place is named.",
        ),
        Property::once(
            "authorization",
            Kind::Text("a scheme"),
            "A key stands in `Authorization`, behind this word: `Bearer`, `ApiKey` or another.",
        ),
        Property::once(
            "query",
            Kind::Text("the name of a parameter"),
            "A key stands in a parameter of the query, which no log shows.",
        ),
        Property::once(
            "header",
            Kind::Text("a header name"),
            "A field of the request by which the upstream hears the key's name.",
        ),
        Property::once("realm", Kind::Text("a name"), "What `WWW-Authenticate` says; nothing when left out."),
        Property::once("forward", Kind::Switch, "Whether the upstream gets the key too; `#false` when left out."),
        Property::once(
            failures::NAME,
            failures::KIND,
            "How many unknown keys an address may try before it hears 429; `100/10m` when left out. `off`: any number.",
        ),
    ],
    block: Block::Optional(Place::ApiKey),
    summary: "Asks for a key, as programs have one.",
    details: "A key stands in the field `X-API-Key`, or where `field=`, `authorization=` and `query=` say; the first of these places that has one counts, and two in one place are refused with 400. Who has none, an unknown \
              one or one that has ended is answered with 401; `api_key_missing`, `api_key_unknown` or `api_key_expired` in the log.\n\n\
              **Keys are not kept, only their SHA-256**: in the block, or in a file with a line `name:hash` each, where `#` begins a remark and `:expires=2027-01-31` behind the hash says the last day (or the moment, as \
              `expires=2027-01-31T12:00:00Z`). `tidegate hash-key NAME` makes a key, shows it once, and writes its line. Names and keys stand once. A key that is guessable is none: it is verified as fast as it is sent, so make it long and random.\n\n\
              The key's name is `{auth.user}`, for all other steps, for limits (`rate-limit \"100/m\" by=\"{auth.user}\"`) and for the access log; the upstream hears it by `header=`, a field that is taken out of every request of the site \
              first, in all spellings. **The key itself goes no further**: it is taken out of what is sent on, unless `forward=#true`, and a parameter of the query out of logs in any case.\n\n\
              Of the `api-key` of a site and of its route the route's counts. Preflights that a `cors` answers, `allow`, `deny` and limits by client come before it, wherever they stand.",
    default: "nobody is asked",
    example: "api-key header=\"X-Client\" {\n    key \"ci\" \"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed\" expires=\"2027-01-31\"\n}",
    lower: Lower::Step(lower),
    ..Directive::PLAIN
};

pub static KEY: Directive = Directive {
    name: "key",
    places: &[Place::ApiKey],
    repeat: Repeat::Many,
    arguments: &[
        Argument::one("name", Kind::Text("a name"), "By which logs, limits and the upstream know it. Without `:`."),
        Argument::one(
            "hash",
            Kind::Secret("the SHA-256 of a key"),
            "64 hexadecimal digits, as `tidegate hash-key` writes them behind the name.",
        ),
    ],
    properties: &[Property::once(
        "expires",
        Kind::Text("a date"),
        "The last day, as `2027-01-31`, or the moment of the end, as `2027-01-31T12:00:00Z`; both in UTC.",
    )],
    summary: "A name and the hash of its key.",
    example: "key \"ci\" \"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed\"",
    ..Directive::PLAIN
};

/// The longest realm: it stands in each refusal.
const REALM_BYTES_MAX: usize = 200;
/// Fields that say something else to everybody.
const NOT_FOR_NAMES: [&str; 3] = ["authorization", "cookie", "host"];

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let errors_before = lowering.diagnostics.len();
    let is_off = match line.read_argument(lowering, 0) {
        Some(Read::Text(text)) => {
            let message = format!("`api-key` cannot be `{}`", shortened(text.shown()));
            let help = format!("a file of keys is named with `file=`, as in `api-key file=\"{}\"`", shortened(text.shown()));
            lowering.report(text.error("bad-value", message).help(help));
            false
        }
        read => read.is_some(),
    };
    if is_off {
        let fault = line.settings_of_off();
        return fault.map_or(Some(Step::ApiKey(None)), |fault| lowering.refuse(fault));
    }
    let (keys, places) = (keys(lowering, line), places(lowering, line));
    let (header, realm) = (header(lowering, line, &places), realm(lowering, line));
    let forwards = line.switch(lowering, "forward").unwrap_or(false);
    let failures = failures::read(lowering, line, ApiKeyAuth::FAILURES);
    let is_faulty = lowering.has_errors_since(errors_before);
    let auth = ApiKeyAuth { keys: keys?, places, header, realm, forwards, failures };
    (!is_faulty).then(|| Step::ApiKey(Some(Box::new(auth))))
}

/// Where the keys are. `None`: a fault was reported.
fn keys(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<ApiKeySource> {
    let file = line.text(lowering, "file");
    let has_block = !line.children().is_empty();
    let listed = listed(lowering, line);
    match (file, has_block) {
        (Some(file), false) => {
            let path = lowering.path(&file.value, &file.location);
            lowering.spans.files.push((path.clone(), file.location));
            Some(ApiKeySource::File(path))
        }
        (None, true) => listed.map(ApiKeySource::Listed),
        (Some(file), true) => {
            let diagnostic =
                Diagnostic::error("conflicting-keys", file.location, "keys stand in a file or in the block, not in both");
            lowering.refuse(diagnostic.help("move them into the file, or remove `file=`"))
        }
        (None, false) if line.property("file").is_some() => None,
        (None, false) => {
            let diagnostic = Diagnostic::error("missing-argument", line.location(), "`api-key` needs keys");
            lowering.refuse(diagnostic.help("for example `api-key file=\"/etc/tidegate/keys\"`, or a block with `key` lines"))
        }
    }
}

/// The keys of the block. Faults are reported, one after the other so that all that is wrong is told at once.
fn listed(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Vec<ListedApiKey>> {
    let errors_before = lowering.diagnostics.len();
    let mut good: Vec<(ListedApiKey, Location)> = Vec::new();
    for child in line.lines(lowering) {
        let name = child.read_argument(lowering, 0).map(Read::text);
        let hash = child.read_argument(lowering, 1).map(Read::text);
        let expires = child.text(lowering, "expires");
        if let Some((name, hash)) = name.zip(hash) {
            let location = name.location.clone();
            good.extend(checked(lowering, (name, hash, expires), &good).map(|key| (key, location)));
        }
    }
    (!lowering.has_errors_since(errors_before)).then(|| good.into_iter().map(|(key, _)| key).collect())
}

fn checked(
    lowering: &mut Lowering<'_>,
    (name, hash, expires): (Text, Text, Option<Text>),
    before: &[(ListedApiKey, Location)],
) -> Option<ListedApiKey> {
    let end = expires.as_ref().map(|text| text.value.as_str());
    let fault = ApiKeys::listed([(name.value.as_str(), hash.value.as_str(), end)]).err().map(|(_, fault)| fault);
    let (at, code) = match fault {
        Some(ApiKeyFault::NotAHash | ApiKeyFault::PasswordHash) => (&hash, "bad-hash"),
        Some(ApiKeyFault::Expiry) => (expires.as_ref().unwrap_or(&hash), "bad-expiry"),
        Some(_) | None => (&name, "bad-name"),
    };
    if let Some(fault) = fault {
        return lowering.refuse(at.error(code, format!("of `{}`: {fault}", name.shown())).help(fault.help()));
    }
    if let Some((_, first)) = before.iter().find(|(known, _)| known.name == name.value) {
        let diagnostic = name.error("duplicate-key", format!("`{}` is written twice", name.shown()));
        let diagnostic = diagnostic.label(first.clone(), "the first one");
        return lowering.refuse(diagnostic.help(ApiKeyFault::NameTwice(0).help()));
    }
    if let Some((known, first)) = before.iter().find(|(known, _)| known.hash.reveal().eq_ignore_ascii_case(&hash.value)) {
        let diagnostic = hash.error("duplicate-key", format!("`{}` has the key of `{}`", name.shown(), known.name));
        let diagnostic = diagnostic.label(first.clone(), "the first one");
        return lowering.refuse(diagnostic.help(ApiKeyFault::HashTwice(0).help()));
    }
    Some(ListedApiKey { name: name.value, hash: Secret::new(hash.value), expires: expires.map(|text| text.value) })
}

fn places(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<ApiKeyPlace> {
    let mut named = |property: &str, example: &str| {
        let text = line.text(lowering, property)?;
        let is_elsewhere = property == "field" && is_of_others(&text.value);
        if is_elsewhere {
            let message = format!("a key does not stand alone in `{}`", shortened(text.shown()));
            lowering
                .report(text.error("bad-value", message).help("`authorization=\"Bearer\"` takes `Authorization: Bearer KEY`"));
        } else if !is_token(&text.value) {
            let message = format!("`{}` is not a name that `{property}=` can have", shortened(text.shown()));
            lowering.report(text.error("bad-value", message).help(format!("for example `{property}=\"{example}\"`")));
        } else if property == "authorization" && text.value.eq_ignore_ascii_case("Basic") {
            let message = "`Authorization: Basic` has a name and a password, in base64, and no key";
            let help = "names and passwords are what `basic-auth` asks for; keys stand behind `Bearer`, or a scheme of your own";
            lowering.report(text.error("bad-value", message).help(help));
        }
        Some(text.value)
    };
    let mut places = Vec::new();
    places.extend(named("field", "X-API-Key").map(|name| ApiKeyPlace::Field(name.to_ascii_lowercase())));
    places.extend(named("authorization", "Bearer").map(ApiKeyPlace::Authorization));
    places.extend(named("query", "api_key").map(ApiKeyPlace::Query));
    if places.is_empty() {
        places.push(ApiKeyPlace::Field(ApiKeyAuth::FIELD.to_owned()));
    }
    places
}

fn is_of_others(name: &str) -> bool {
    NOT_FOR_NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
}

fn header(lowering: &mut Lowering<'_>, line: &Line<'_>, places: &[ApiKeyPlace]) -> Option<String> {
    let name = line.text(lowering, "header")?;
    if !is_token(&name.value) || is_of_others(&name.value) {
        let message = format!("`{}` is not a field that a name can be in", shortened(name.shown()));
        return lowering.refuse(name.error("bad-header", message).help("for example `header=\"X-Client\"`"));
    }
    let is_same = |place: &ApiKeyPlace| matches!(place, ApiKeyPlace::Field(field) if name.value.eq_ignore_ascii_case(field));
    if places.iter().any(is_same) {
        let message = format!("`{}` cannot have the key and its name", shortened(name.shown()));
        return lowering.refuse(name.error("bad-header", message).help("for example `header=\"X-Client\"`"));
    }
    Some(name.value)
}

fn realm(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<String> {
    let text = line.text(lowering, "realm")?;
    if text.value.is_empty() || text.value.len() > REALM_BYTES_MAX || text.value.chars().any(char::is_control) {
        let message = format!("`realm=` is a name of 1 to {REALM_BYTES_MAX} bytes on one line");
        return lowering.refuse(text.error("bad-value", message).help("for example `realm=\"Orders\"`"));
    }
    Some(text.value)
}

/// Names of keys, and not their hashes.
pub fn write(line: &mut Writer, auth: &ApiKeyAuth) {
    let ApiKeyAuth { keys, places, header, realm, forwards, failures } = auth;
    line.name("api-key");
    let listed: &[_] = match keys {
        ApiKeySource::File(path) => {
            line.property("file", path.display());
            &[]
        }
        ApiKeySource::Listed(keys) => keys,
    };
    let is_usual = matches!(&**places, [ApiKeyPlace::Field(name)] if name == ApiKeyAuth::FIELD);
    for place in places.iter().filter(|_| !is_usual) {
        match place {
            ApiKeyPlace::Field(name) => line.property("field", name),
            ApiKeyPlace::Authorization(scheme) => line.property("authorization", scheme),
            ApiKeyPlace::Query(name) => line.property("query", name),
        };
    }
    line.optional("header", header.as_ref());
    line.optional("realm", realm.as_ref());
    line.switch_unless(false, "forward", *forwards);
    failures::write(line, *failures, ApiKeyAuth::FAILURES);
    line.block(listed, |line, ListedApiKey { name, hash, expires }| {
        let hash = line.secret(true, hash.reveal());
        line.name("key").argument(name).argument(hash);
        line.optional("expires", expires.as_ref());
    });
}
