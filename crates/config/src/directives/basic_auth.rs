//! `basic-auth`: who may ask, by name and password.

use super::failures;
use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat};
use crate::written_line::Writer;
use tidegate_kdl::quoted;
use tidegate_model::{AuthUsers, BasicAuth, Secret, Step};
use tidegate_passwords::{PasswordHash, UserFault, Users};

pub static BASIC_AUTH: Directive = Directive {
    name: "basic-auth",
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
            "Users and their hashes, a line each as `htpasswd -B` writes it. Watched: a changed file counts at once, and one that cannot be used not at all.",
        ),
        Property::once(
            "users",
            Kind::Secret("a text as `htpasswd` writes it"),
            "The text itself instead of `file`, as in `users=\"{env.USERS}\"`; the same as a block with its lines.",
        ),
        Property::once("realm", Kind::Text("a name"), "What browsers show, and keep passwords by; `Restricted` when left out."),
        Property::once(
            "forward",
            Kind::Switch,
            "Whether the upstream gets the `Authorization` field too; `#true` when left out.",
        ),
        Property::once(
            failures::NAME,
            failures::KIND,
            "How many wrong passwords an address may try for a name, and five times as many in all, before it has to wait; `10/10m` when left out. `off`: any number.",
        ),
    ],
    block: Block::Optional(Place::BasicAuth),
    summary: "Asks for a name and a password.",
    details: "Who gives none, or not the right ones, is answered with 401 and `not_authenticated` in the log. Passwords are never compared as text: bcrypt (`htpasswd -B`), Argon2id, Argon2i \
              and SHA-crypt (`$5$`, `$6$`) are taken; so are MD5 (`$apr1$`) and `{SHA}`, which `htpasswd` writes unless told otherwise, with a warning, since whoever gets them has most passwords soon. Plain text, `crypt` and all else are \
              refused when the file is read. `tidegate hash-password` makes a good hash.\n\n\
              A hash may cost a second, not a minute: bcrypt up to 15, Argon2 up to 256 MiB and 1 GiB over all its passes, SHA-crypt up to 1,000,000 rounds. Verifying happens in threads of its own, \
              never in those that answer requests, and once for ten minutes of the same password. When too many wait for it, further ones are answered with 503, `passwords_busy`.\n\n\
              **Who guesses is held up**: behind `failures=` wrong passwords for one name from one address (of IPv6: one /64) the answer is 429 with `Retry-After`, `log_ins_failed` in the log, whatever is sent. Nobody is kept out by what others do \
              elsewhere, and the same wrong password again counts once.\n\n\
              Of the `basic-auth` of a site and of its route the route's counts. `{auth.user}` is the name, for all other steps and for the access log. Preflights that a `cors` answers, which browsers send without \
              credentials, `allow`, `deny` and limits by client come before it, wherever they stand; all else comes behind it.\n\n\
              Names and passwords are sent with each request and not hidden by anything but TLS.",
    default: "nobody is asked",
    said_otherwise: &[
        (
            &["user", "basicauth_users", "auth_users"],
            "users stand in the block, a line each, as in `basic-auth { user \"alice\" \"$2y$12$GhvMmNVjRW29ulnudl.LbuAnUtN/LRfe1JsBm1Xu6LE3059z5Tr8m\" }`",
        ),
        (
            &["usersFile", "user_file", "htpasswd", "path"],
            "the file of users is `file=`, as in `basic-auth file=\"/etc/tidegate/htpasswd\"`",
        ),
    ],
    example: "basic-auth realm=\"Staff\" {\n    user \"alice\" \"$2y$12$GhvMmNVjRW29ulnudl.LbuAnUtN/LRfe1JsBm1Xu6LE3059z5Tr8m\"\n}",
    lower: Lower::Step(lower),
    ..Directive::PLAIN
};

pub static USER: Directive = Directive {
    name: "user",
    places: &[Place::BasicAuth],
    repeat: Repeat::Many,
    arguments: &[
        Argument::one("name", Kind::Text("a name"), "Without `:`."),
        Argument::one(
            "hash",
            Kind::Secret("the hash of a password"),
            "As `tidegate hash-password` or `htpasswd -nB` prints it, the part behind `:`.",
        ),
    ],
    summary: "A name and the hash of its password.",
    example: "user \"alice\" \"$2y$12$GhvMmNVjRW29ulnudl.LbuAnUtN/LRfe1JsBm1Xu6LE3059z5Tr8m\"",
    ..Directive::PLAIN
};

/// The longest realm: it stands in each refusal.
const REALM_BYTES_MAX: usize = 200;

/// A name and a hash on the line itself.
fn users_on_the_line(lowering: &mut Lowering<'_>, line: &Line<'_>) -> bool {
    let written = line.written_arguments();
    let name = match &written[..] {
        [name, _, ..] => name.as_str(),
        [both] if both.split_once(':').is_some_and(|(_, hash)| hash.starts_with(['$', '{'])) => {
            both.split_once(':').map_or("", |(name, _)| name)
        }
        _ => return false,
    };
    let values: Vec<Location> =
        line.arguments().skip(usize::from(written.len() > 1)).map(|value| value.location.clone()).collect();
    let help = format!("write `basic-auth {{ user {} \"…\" }}`, with the hash in the place of `…`", quoted(&shortened(name)));
    line.refuse_whole::<()>(lowering, "users stand in the block of `basic-auth`, a line each", help);
    if let Some(last) = lowering.diagnostics.last_mut() {
        last.hidden.extend(values);
    }
    true
}

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    if users_on_the_line(lowering, line) {
        return None;
    }
    let errors_before = lowering.diagnostics.len();
    let is_off = match line.read_argument(lowering, 0) {
        Some(Read::Text(text)) => {
            let message = format!("`basic-auth` cannot be `{}`", shortened(text.shown()));
            let help = format!("a file of users is named with `file=`, as in `basic-auth file=\"{}\"`", shortened(text.shown()));
            lowering.report(text.error("bad-value", message).help(help));
            false
        }
        read => read.is_some(),
    };
    let file = line.text(lowering, "file");
    let realm = realm(lowering, line);
    let forwards = line.switch(lowering, "forward").unwrap_or(true);
    let failures = failures::read(lowering, line, BasicAuth::FAILURES);
    let mut listed: Vec<(String, Secret)> = users(lowering, line).into_iter().map(|(user, _)| user).collect();
    if let Some(text) = line.text(lowering, "users") {
        if let (false, Some(value)) = (listed.is_empty(), line.property("users")) {
            let message = "users stand in a text or in the block, not in both";
            let diagnostic = Diagnostic::error("conflicting-users", value.location.clone(), message);
            return lowering.refuse(diagnostic.help("move them into one of them"));
        }
        listed = users_of_text(lowering, &text);
    }
    if lowering.has_errors_since(errors_before) {
        return None;
    }
    if is_off {
        if let Some(fault) = line.settings_of_off() {
            return lowering.refuse(fault);
        }
        return Some(Step::BasicAuth(None));
    }
    let users = match (file, listed.is_empty()) {
        (Some(file), true) => {
            let path = lowering.path(&file.value, &file.location);
            lowering.spans.files.push((path.clone(), file.location));
            AuthUsers::File(path)
        }
        (None, false) => AuthUsers::Listed(listed),
        (Some(file), false) => {
            let diagnostic = Diagnostic::error(
                "conflicting-users",
                file.location,
                "users stand in a file or in the configuration, not in both",
            );
            return lowering.refuse(diagnostic.help("move them into the file, or remove `file=`"));
        }
        (None, true) => {
            let diagnostic = Diagnostic::error("missing-argument", line.location(), "`basic-auth` needs users");
            return lowering.refuse(
                diagnostic.help("for example `basic-auth file=\"/etc/tidegate/htpasswd\"`, or a block with `user` lines"),
            );
        }
    };
    Some(Step::BasicAuth(Some(BasicAuth {
        realm: realm.unwrap_or_else(|| BasicAuth::REALM.to_owned()),
        users,
        forwards,
        failures,
    })))
}

fn realm(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<String> {
    let text = line.text(lowering, "realm")?;
    if text.value.is_empty() || text.value.len() > REALM_BYTES_MAX || text.value.chars().any(char::is_control) {
        let message = format!("`realm=` is a name of 1 to {REALM_BYTES_MAX} bytes on one line");
        return lowering.refuse(text.error("bad-value", message).help("for example `realm=\"Staff\"`"));
    }
    Some(text.value)
}

/// The users of the block, with the places of their names. Faults are reported.
fn users(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<((String, Secret), Location)> {
    let mut written: Vec<(Text, Text)> = Vec::new();
    for child in line.lines(lowering) {
        let name = child.read_argument(lowering, 0).map(Read::text);
        let hash = child.read_argument(lowering, 1).map(Read::text);
        written.extend(name.zip(hash));
    }
    // One after the other, so that all that is wrong is told at once.
    let mut good: Vec<(Text, Text)> = Vec::new();
    for (name, hash) in written {
        let fault = Users::listed([(name.value.as_str(), hash.value.as_str())]).err().map(|(_, fault)| fault);
        let first = good.iter().find(|(known, _)| known.value == name.value);
        match (fault, first) {
            (Some(fault @ UserFault::Hash(_)), _) => {
                let diagnostic = Diagnostic::error("bad-hash", hash.location.clone(), format!("of `{}`: {fault}", name.shown()));
                lowering.report(diagnostic.help(fault.help()));
            }
            (Some(fault), _) => lowering.report(name.error("bad-user", fault.to_string()).help(fault.help())),
            (None, Some((first, _))) => {
                let diagnostic = name.error("duplicate-user", format!("`{}` is written twice", name.shown()));
                lowering.report(diagnostic.label(first.location.clone(), "the first one").help("remove one of them"));
            }
            (None, None) => {
                warn_of_weakness(lowering, &name, &hash);
                good.push((name, hash));
            }
        }
    }
    good.into_iter().map(|(name, hash)| ((name.value, Secret::new(hash.value)), name.location)).collect()
}

/// The users of a text that stands in the configuration. Faults are reported, by their line in it.
fn users_of_text(lowering: &mut Lowering<'_>, text: &Text) -> Vec<(String, Secret)> {
    let at = || text.location.clone();
    if let Err(faults) = Users::parse(text.value.as_bytes()) {
        for fault in faults {
            lowering.report(Diagnostic::error("bad-user", at(), fault.to_string()).help(fault.fault.help()));
        }
        return Vec::new();
    }
    let lines = text.value.trim_start_matches('\u{feff}').lines().map(str::trim_end).enumerate();
    let mut listed = Vec::new();
    for (position, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let Some((name, rest)) = line.split_once(':') else { continue };
        let hash = rest.split(':').next().unwrap_or_default();
        if let Some(weakness) = PasswordHash::parse(hash).ok().and_then(|hash| hash.weakness()) {
            let message = format!("line {}: the hash is {weakness}: whoever gets it has most passwords soon", position + 1);
            let warning = Diagnostic::warning("weak-hash", at(), message);
            lowering.report(warning.help("make a better one with `tidegate hash-password`, or `htpasswd -B`"));
        }
        listed.push((name.to_owned(), Secret::new(hash)));
    }
    listed
}

fn warn_of_weakness(lowering: &mut Lowering<'_>, name: &Text, hash: &Text) {
    if let Some(weakness) = PasswordHash::parse(&hash.value).ok().and_then(|hash| hash.weakness()) {
        let message = format!("of `{}`: the hash is {weakness}: whoever gets it has most passwords soon", name.shown());
        let warning = Diagnostic::warning("weak-hash", hash.location.clone(), message);
        lowering.report(warning.help("make a better one with `tidegate hash-password`, or `htpasswd -B`"));
    }
}

/// Names of users, and not their hashes: whoever has those can guess at passwords undisturbed.
pub fn write(line: &mut Writer, auth: &BasicAuth) {
    let BasicAuth { users, realm, forwards, failures } = auth;
    line.name("basic-auth");
    let listed: &[_] = match users {
        AuthUsers::File(path) => {
            line.property("file", path.display());
            &[]
        }
        AuthUsers::Listed(users) => users,
    };
    line.unless(&BasicAuth::REALM, "realm", &realm.as_str(), ToString::to_string);
    line.switch_unless(true, "forward", *forwards);
    failures::write(line, *failures, BasicAuth::FAILURES);
    line.block(listed, |line, (name, hash)| {
        let hash = line.secret(true, hash.reveal());
        line.name("user").argument(name).argument(hash);
    });
}
