//! `acme email="ops@example.com" { … }`: who issues certificates, and how names are shown to be ours. At the top level
//! for the process, in the `tls` of a site for that one. Nothing is asked here. The providers of DNS are read in
//! `acme_dns`.

use super::acme_dns::{self, DNS_EXAMPLE};
use crate::diagnostics::{Diagnostic, Location, nearest, shortened};
use crate::forms::check_url;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat};
use crate::written_line::{Writer, duration, name_of};
use std::time::Duration;
use tidegate_model::{
    Acme, AcmeAuthority, AcmeChallenge, AcmeChanges, AcmeExternalAccount, AcmeKeyType, HostPattern, OnDemand, Secret, address,
};

pub static ACME: Directive = Directive {
    name: "acme",
    places: &[Place::Top],
    arguments: &[Argument::optional(
        "off",
        Kind::Choice(&["off"]),
        "`off`: no certificate is obtained; sites without one of their own get that of the internal CA.",
    )],
    properties: PROPERTIES,
    block: Block::Optional(Place::Acme),
    summary: "Who issues certificates for public names, and how names are shown to be ours.",
    details: "Sites with public names need no word for it: Let's Encrypt issues, names are shown to be ours on the ports that the site listens on (`tls-alpn-01`, `http-01`), and \
              certificates are renewed when the CA says so, or after two thirds of their life. Until a name has its first certificate, that of the internal CA is served.\n\n\
              Before each order it is looked whether the name leads here, whether CAA records allow the CA, whether the port is open, and what is left of the CA's quota. What would fail is not \
              ordered, and what may fail is tried at the CA's staging environment first: `tidegate cert list` says the reason and the remedy. With `ca` lines in the block, the next CA is \
              asked when one cannot help.\n\n\
              Using a CA means to agree to its terms of service.",
    default: "Let's Encrypt, without an address for its mails",
    example: "acme email=\"ops@example.com\"",
    lower: Lower::Top(lower_top),
    ..Directive::PLAIN
};

pub static SITE_ACME: Directive = Directive {
    name: "acme",
    places: &[Place::Tls],
    properties: PROPERTIES,
    block: Block::Optional(Place::Acme),
    summary: "The same for one site: what is written here goes before what the process says.",
    details: "With it all names of the site are obtained, those too that are not public, as from a CA of your own network.",
    default: "as `acme` at the top level says",
    example: "acme profile=\"shortlived\"",
    ..Directive::PLAIN
};

pub static CA: Directive = Directive {
    name: "ca",
    places: &[Place::Acme],
    repeat: Repeat::Many,
    arguments: &[Argument::one("ca", Kind::ChoiceOr(CA_NAMES, CA_FORM), CA_SUMMARY)],
    properties: &[
        Property::once(
            "eab-key-id",
            Kind::Text("the identifier of a key"),
            "External account binding: the identifier that the CA gave you.",
        ),
        Property::once(
            "eab-hmac",
            Kind::Secret("a key in base64url"),
            "The key that belongs to it. Best from a file or the environment.",
        ),
        Property::once("root", Kind::Path, "Certificates in PEM that its HTTPS is verified against; the system's when left out."),
        Property::once(
            "staging",
            Kind::Text("a URL"),
            "The directory where orders that may fail are tried; those that are known have it already.",
        ),
    ],
    summary: "A certificate authority. Several are asked one after the other, when one cannot help.",
    details: "ZeroSSL, Google, SSL.com and Actalis want an account there, and give `eab-key-id=` and `eab-hmac=`.",
    default: "`letsencrypt`",
    example: "ca \"zerossl\" eab-key-id=\"kid-1\" eab-hmac=\"c2VjcmV0LWZyb20tdGhlLWNh\"",
    ..Directive::PLAIN
};

pub static CHALLENGES: Directive = Directive {
    name: "challenges",
    places: &[Place::Acme],
    arguments: &[Argument::one_or_more(
        "kinds",
        Kind::Choice(&["tls-alpn-01", "http-01", "dns-01"]),
        "`tls-alpn-01` on port 443, `http-01` on port 80, `dns-01` by a record.",
    )],
    summary: "How names are shown to be ours, in order of preference; others are not used.",
    details: "Wildcards can be shown by `dns-01` only, which needs a `dns` line.",
    default: "`dns-01` where there is a `dns` line, then `tls-alpn-01` and `http-01` where the site listens on their ports",
    example: "challenges \"http-01\"",
    ..Directive::PLAIN
};

pub static WILDCARD: Directive = Directive {
    name: "wildcard",
    places: &[Place::Acme],
    repeat: Repeat::Many,
    arguments: &[Argument::one(
        "name",
        Kind::Text("a wildcard, as in `\"*.example.com\"`"),
        "The name of the certificate: it is for all hosts with one label more.",
    )],
    summary: "One certificate for all names below: sites of `a.example.com` and `b.example.com` have that of `*.example.com`.",
    details: "It is obtained as soon as a site has a name that it covers, and these names have none of their own then: one order and one renewal however many sites there are, and no name of them in the logs of \
              certificate transparency. `example.com` itself is not covered, nor is `x.a.example.com`. It needs a `dns` line, and stands in the `acme` at the top level; a site with an `acme` in its `tls` obtains its own names as before.",
    default: "each name has a certificate of its own",
    example: "wildcard \"*.example.com\"\ndns \"cloudflare\" token=\"secret-token\"",
    ..Directive::PLAIN
};

const PROPERTIES: &[Property] = &[
    Property::once(
        "email",
        Kind::Text("an address, as in `\"ops@example.com\"`"),
        "Where CAs write to when something is wrong with the account.",
    ),
    Property::once("ca", Kind::ChoiceOr(CA_NAMES, CA_FORM), CA_SUMMARY),
    Property::once(
        "profile",
        Kind::Text("the name of a profile"),
        "A kind of certificate that the CA has, as `shortlived` (six days) and `tlsserver` of Let's Encrypt.",
    ),
    Property::once(
        "key-type",
        Kind::Choice(&["ecdsa-p256", "ecdsa-p384", "rsa-2048", "rsa-4096"]),
        "What keys are made; `ecdsa-p256` when left out. RSA costs ten times as much in each handshake.",
    ),
    Property::once(
        "http-port",
        Kind::Integer { min: 1, max: 65_535 },
        "The port of this machine at which connections to port 80 arrive, behind a gateway that maps ports; `80` when left out.",
    ),
    Property::once("https-port", Kind::Integer { min: 1, max: 65_535 }, "The same for port 443."),
    Property::once(
        "preflight",
        Kind::Switch,
        "Whether is looked before an order at what would make it fail; `#true` when left out. CAs in a network of your own may see other addresses than this machine does.",
    ),
];

pub static ON_DEMAND: Directive = Directive {
    name: "on-demand",
    places: &[Place::Tls],
    properties: &[
        Property::once(
            "ask",
            Kind::Text("a URL, as in `\"http://127.0.0.1:9000/allowed\"`"),
            "Asked with `?domain=NAME` before a name is ordered: a status from 200 to 299 allows it, any other does not. It has to be there, for anybody can send any name.",
        ),
        Property::once(
            "names-per-hour",
            Kind::Integer { min: 1, max: 10_000 },
            "How many new names may be ordered in an hour, over all sites; `60` when left out.",
        ),
        Property::once(
            "wait",
            Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(60) },
            "How long the first handshake for a name waits for its certificate; `20s` when left out. After it the client has to come again.",
        ),
    ],
    summary: "Certificates for names that nobody wrote: each is obtained when the first client asks for it.",
    details: "For sites whose names are your customers': `site \"https://:443\"` or `site \"*.example.com\"`. A name that `ask` refuses, and one that cannot be a host's, \
              is refused in the handshake with `unrecognized_name`.",
    default: "names are those of the site's addresses",
    example: "on-demand ask=\"http://127.0.0.1:9000/allowed\"",
    ..Directive::PLAIN
};

const CA_NAMES: &[&str] = &["letsencrypt", "letsencrypt-staging", "zerossl", "google", "sslcom", "actalis"];
const CA_FORM: &str = "the URL of an ACME directory";
const CA_SUMMARY: &str = "A known CA, or the URL of its directory.";
/// Each is asked for minutes before the next.
const AUTHORITIES_MAX: usize = 8;
const TEXT_CHARS_MAX: usize = 1_000;
/// Each is looked through for every name of a site.
const WILDCARDS_MAX: usize = 100;

fn lower_top(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    if line.read_argument(lowering, 0).is_some() {
        match line.settings_of_off() {
            Some(fault) => lowering.report(fault),
            None => lowering.configuration.acme = None,
        }
        return;
    }
    if let Some(changes) = read_changes(lowering, line) {
        let acme = lowering.configuration.acme.take().unwrap_or_default();
        lowering.configuration.acme = Some(acme.changed_by(&changes));
    }
}

/// What the process or a site says. `None` when something in it was wrong.
pub fn read_changes(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<AcmeChanges> {
    let errors_before = lowering.diagnostics.len();
    let email = line.text(lowering, "email").and_then(|text| check_email(lowering, text));
    let of_property = line.read(lowering, "ca").and_then(|read| authority_named(lowering, read));
    let key_type = line.read(lowering, "key-type").map(Read::choice);
    let mut changes = AcmeChanges {
        authorities: of_property.into_iter().collect(),
        email,
        profile: line.text(lowering, "profile").and_then(|text| check_profile(lowering, text)),
        key_type: key_type.and_then(|name| AcmeKeyType::NAMES.iter().find(|(known, _)| *known == name)).map(|(_, kind)| *kind),
        http_port: line.number(lowering, "http-port").map(|port| port as u16),
        https_port: line.number(lowering, "https-port").map(|port| port as u16),
        preflight: line.switch(lowering, "preflight"),
        ..AcmeChanges::default()
    };
    let mut challenges_at = None;
    let mut wildcards = Vec::new();
    for child in line.lines(lowering) {
        match child.directive.name {
            "ca" => changes.authorities.extend(read_authority(lowering, &child)),
            "challenges" => {
                changes.challenges = read_challenges(lowering, &child);
                challenges_at = Some(child.location());
            }
            "wildcard" => wildcards.extend(read_wildcard(lowering, &child)),
            _ => changes.dns = acme_dns::read(lowering, &child),
        }
    }
    if changes.authorities.len() > AUTHORITIES_MAX {
        let message = format!("there are more than {AUTHORITIES_MAX} CAs");
        lowering.report(
            Diagnostic::error("bad-value", line.location(), message)
                .help("the first that can help is used: name those that you mean"),
        );
    }
    check_dns_is_there(lowering, line, &changes, challenges_at);
    check_wildcards(lowering, line, &changes, &wildcards);
    changes.wildcards = wildcards.into_iter().map(|(name, _)| name).collect();
    let is_sound = !lowering.has_errors_since(errors_before);
    is_sound.then_some(changes)
}

/// At the top level; what a site says may have its provider there.
fn check_dns_is_there(lowering: &mut Lowering<'_>, line: &Line<'_>, changes: &AcmeChanges, challenges_at: Option<Location>) {
    let is_of_process = std::ptr::eq(line.directive, &raw const ACME);
    if let Some(at) = challenges_at
        && is_of_process
        && changes.dns.is_none()
        && changes.challenges.contains(&AcmeChallenge::Dns01)
        && line.children().iter().all(|child| child.name.text != "dns")
    {
        let diagnostic = Diagnostic::error("no-dns-provider", at, "`dns-01` needs somebody who publishes records");
        lowering.report(diagnostic.help(format!("add a `dns` line, as in `{DNS_EXAMPLE}`")));
    }
}

/// `*.example.com`, as names of certificates are compared.
fn read_wildcard(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<(String, Location)> {
    let text = line.read_argument(lowering, 0).map(Read::text)?;
    match address::parse_host_pattern(&text.value) {
        Ok(HostPattern::Wildcard(parent)) => Some((format!("*.{parent}"), line.location())),
        Ok(HostPattern::Exact(name)) if name.contains('.') => {
            let message = format!("`{}` is not a wildcard", shortened(&text.value));
            let help = format!("write `wildcard \"*.{name}\"`; a name alone has a certificate without a word");
            lowering.refuse(text.error("bad-value", message).help(help))
        }
        Ok(_) | Err(_) => {
            let message = format!("`{}` is not a wildcard", shortened(&text.value));
            lowering.refuse(text.error("bad-value", message).help("for example `wildcard \"*.example.com\"`"))
        }
    }
}

fn check_wildcards(lowering: &mut Lowering<'_>, line: &Line<'_>, changes: &AcmeChanges, wildcards: &[(String, Location)]) {
    let Some((_, first_at)) = wildcards.first() else { return };
    if !std::ptr::eq(line.directive, &raw const ACME) {
        let message = "a certificate that sites share is obtained for the whole process";
        let diagnostic = Diagnostic::error("misplaced-word", first_at.clone(), message);
        return lowering.report(diagnostic.help("`wildcard` belongs in the `acme` at the top level"));
    }
    for (position, (name, at)) in wildcards.iter().enumerate() {
        if let Some((_, known_at)) = wildcards[..position].iter().find(|(known, _)| known == name) {
            let diagnostic = Diagnostic::error("duplicate-value", at.clone(), format!("`{name}` is listed twice"));
            lowering.report(diagnostic.label(known_at.clone(), "the first one").help("remove one of them"));
        }
    }
    if wildcards.len() > WILDCARDS_MAX {
        let message = format!("there are more than {WILDCARDS_MAX} wildcards");
        lowering.report(
            Diagnostic::error("bad-value", line.location(), message).help("sites of other names have certificates of their own"),
        );
    }
    let allows_dns = changes.challenges.is_empty() || changes.challenges.contains(&AcmeChallenge::Dns01);
    if (changes.dns.is_none() && line.children().iter().all(|child| child.name.text != "dns")) || !allows_dns {
        let message = "wildcards need `dns-01`, and somebody who publishes records";
        let diagnostic = Diagnostic::error("no-dns-provider", first_at.clone(), message);
        let help = if allows_dns {
            format!("add a `dns` line, as in `{DNS_EXAMPLE}`")
        } else {
            "add `\"dns-01\"` to `challenges`".to_owned()
        };
        lowering.report(diagnostic.help(help));
    }
}

fn check_email(lowering: &mut Lowering<'_>, text: Text) -> Option<String> {
    let is_address = text.value.split_once('@').is_some_and(|(local, host)| {
        !local.is_empty()
            && local.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"(),:;@".contains(&byte))
            && matches!(address::parse_host_pattern(host), Ok(HostPattern::Exact(_)))
    });
    if is_address && text.value.len() <= TEXT_CHARS_MAX {
        return Some(text.value);
    }
    let message = format!("`{}` is not an address of mail", shortened(&text.value));
    lowering.refuse(text.error("bad-value", message).help("for example `email=\"ops@example.com\"`"))
}

fn check_profile(lowering: &mut Lowering<'_>, text: Text) -> Option<String> {
    if !text.value.is_empty() && text.value.len() <= TEXT_CHARS_MAX && text.value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some(text.value);
    }
    let message = format!("`{}` cannot be the name of a profile", shortened(&text.value));
    lowering.report(
        text.error("bad-value", message).help("for example `profile=\"shortlived\"`; the CA's directory lists those that it has"),
    );
    None
}

fn read_authority(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<AcmeAuthority> {
    let read = line.read_argument(lowering, 0);
    let mut authority = read.and_then(|read| authority_named(lowering, read))?;
    authority.external_account = read_external_account(lowering, line);
    if let Some(text) = line.text(lowering, "root") {
        let path = super::pem::check_certificate_file(lowering, &text)?;
        authority.root = Some(path);
    }
    if let Some(text) = line.text(lowering, "staging") {
        authority.staging = Some(text.parsed(lowering, "bad-url", check_url(&text.value, "staging=", &["https"]))?);
    }
    Some(authority)
}

fn authority_named(lowering: &mut Lowering<'_>, read: Read) -> Option<AcmeAuthority> {
    match read {
        Read::Choice(name, _) => AcmeAuthority::preset(name),
        Read::Text(text) => {
            let directory = check_ca_url(lowering, &text)?;
            let name = text.shown().to_string();
            Some(AcmeAuthority { name, directory, staging: None, external_account: None, root: None })
        }
        Read::Template(..) | Read::Number(..) | Read::Duration(_) | Read::Switch(_) => {
            unreachable!("the table says this is a CA")
        }
    }
}

fn read_external_account(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<AcmeExternalAccount> {
    let key_id = line.text(lowering, "eab-key-id");
    let hmac = line.text(lowering, "eab-hmac");
    match (key_id, hmac) {
        (Some(key_id), Some(hmac)) => {
            // As it comes from a file, with the line end that editors put there, and with the padding that some CAs
            // show.
            let key = hmac.value.trim_end_matches(['\r', '\n']).trim_end_matches('=');
            let is_base64url =
                key.len() >= 16 && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
            if !is_base64url {
                return lowering.refuse(
                    hmac.error("bad-value", "`eab-hmac=` is not a key in base64url")
                        .help("copy it as the CA shows it, with `-` and `_`"),
                );
            }
            Some(AcmeExternalAccount { key_id: key_id.value, hmac_key: Secret::new(key) })
        }
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let has = |name: &str| line.property(name).is_some();
            if !(has("eab-key-id") && has("eab-hmac")) {
                let diagnostic =
                    Diagnostic::error("missing-argument", line.location(), "`eab-key-id=` and `eab-hmac=` belong together");
                lowering.report(diagnostic.help("the CA gives both when an account is made there"));
            }
            None
        }
    }
}

fn read_challenges(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<AcmeChallenge> {
    let mut challenges = Vec::new();
    for read in line.read_arguments(lowering) {
        let Read::Choice(name, at) = read else { continue };
        let Some((_, challenge)) = AcmeChallenge::NAMES.iter().find(|(known, _)| *known == name) else { continue };
        if challenges.contains(challenge) {
            lowering
                .report(Diagnostic::error("duplicate-value", at, format!("`{name}` is listed twice")).help("remove one of them"));
            continue;
        }
        challenges.push(*challenge);
    }
    challenges
}

pub fn read_on_demand(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<OnDemand> {
    let names_per_hour = line.number(lowering, "names-per-hour").map_or(OnDemand::NAMES_PER_HOUR, |count| count as u32);
    let wait = line.duration(lowering, "wait").unwrap_or(OnDemand::WAIT);
    let Some(text) = line.text(lowering, "ask") else {
        if line.property("ask").is_none() {
            let message = "`on-demand` needs `ask=`: without it anybody could have certificates ordered for any name";
            lowering.report(
                Diagnostic::error("missing-argument", line.location(), message)
                    .help(format!("for example `{}`", ON_DEMAND.example)),
            );
        }
        return None;
    };
    let ask = text.parsed(lowering, "bad-url", check_url(&text.value, "ask=", &["http", "https"]))?;
    Some(OnDemand { ask, names_per_hour, wait })
}

fn check_ca_url(lowering: &mut Lowering<'_>, text: &Text) -> Option<String> {
    if let Some(meant) = nearest(&text.value, CA_NAMES.iter().copied()).filter(|_| !text.value.contains("://")) {
        let message = format!("`{}` is neither a known CA nor a URL", shortened(&text.value));
        return lowering.refuse(text.error("bad-url", message).help(format!("did you mean `\"{meant}\"`?")));
    }
    text.parsed(lowering, "bad-url", check_url(&text.value, "the CA", &["https"]))
}

/// What `acme` says of the whole process.
pub fn write_top(line: &mut Writer, acme: Option<&Acme>) {
    let Some(acme) = acme else { return line.off("acme") };
    let defaults = Acme::default();
    let Acme { authorities, email, challenges, dns, profile, key_type, http_port, https_port, preflight, wildcards } =
        acme.clone();
    let changes = AcmeChanges {
        authorities,
        email,
        challenges,
        dns,
        profile,
        key_type: (key_type != defaults.key_type).then_some(key_type),
        http_port: (http_port != defaults.http_port).then_some(http_port),
        https_port: (https_port != defaults.https_port).then_some(https_port),
        preflight: (preflight != defaults.preflight).then_some(preflight),
        wildcards,
    };
    write(line, &changes);
}

pub fn write(line: &mut Writer, changes: &AcmeChanges) {
    let AcmeChanges { authorities, email, challenges, dns, profile, key_type, http_port, https_port, preflight, wildcards } =
        changes;
    line.name("acme").optional("email", email.as_ref()).optional("profile", profile.as_ref());
    line.optional("key-type", key_type.as_ref().map(|kind| name_of(AcmeKeyType::NAMES, kind)));
    line.optional_number("http-port", *http_port).optional_number("https-port", *https_port);
    if let Some(preflight) = preflight {
        line.switch("preflight", *preflight);
    }
    line.lines(|lines| {
        lines.extend(authorities, write_authority);
        if !challenges.is_empty() {
            lines.line().name("challenges").arguments(challenges);
        }
        lines.extend(dns, acme_dns::write);
        lines.extend(wildcards, |line, wildcard| {
            line.repeated("wildcard").argument(wildcard);
        });
    });
}

fn write_authority(line: &mut Writer, authority: &AcmeAuthority) {
    let AcmeAuthority { name, directory, staging, external_account, root } = authority;
    let preset = AcmeAuthority::preset(name);
    // The name of a URL from the environment is not what it says.
    let is_named = preset.is_some() || name == directory;
    let ca = if preset.is_some() { name } else { directory };
    let ca = line.secret(!is_named, ca);
    line.repeated("ca").argument(ca);
    if let Some(AcmeExternalAccount { key_id, hmac_key }) = external_account {
        line.property("eab-key-id", key_id).secret_property("eab-hmac", Some(hmac_key));
    }
    line.optional("root", root.as_ref().map(|path| path.display()));
    if *staging != preset.and_then(|preset| preset.staging) {
        line.optional("staging", staging.as_ref());
    }
}

pub fn write_on_demand(line: &mut Writer, OnDemand { ask, names_per_hour, wait }: &OnDemand) {
    line.name("on-demand").property("ask", ask).number("names-per-hour", names_per_hour).property("wait", duration(wait));
}
