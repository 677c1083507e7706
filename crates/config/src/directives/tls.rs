//! `tls` of a site: where certificates come from, and how handshakes are made. What files hold is looked at in `pem`;
//! whether a key belongs to its certificate is checked where both are loaded.

use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::directives::pem::{self, Given, check_certificate, check_key};
use crate::directives::{acme, client_auth};
use crate::language::{Directive, Line, Lower, Said};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::spans::WrittenAddress;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat};
use crate::written_line::{Lines, name_of};
use std::collections::BTreeMap;
use tidegate_kdl::quoted;
use tidegate_model::{Certificate, CipherName, Scheme, Tls, TlsSource, TlsVersion};

/// Where a certificate is, of one site as of all that it covers.
const CERTIFICATE: &[Property] = &[
    Property::once("cert", Kind::Path, "Certificate chain in PEM, leaf first. It may hold the key as well."),
    Property::once("key", Kind::Path, "Private key in PEM, when it is not in `cert` or `pem`."),
    Property::once(
        "pem",
        Kind::Secret("a text of PEM, as in `\"{env.SITE_PEM}\"`"),
        "The chain itself instead of `cert`, leaf first. It may hold the key as well.",
    ),
    Property::once("key-pem", Kind::Secret("a text of PEM"), "The key itself instead of `key`."),
];

pub static TLS: Directive = Directive {
    name: "tls",
    places: &[Place::Site],
    repeat: Repeat::Many,
    arguments: &[Argument::optional(
        "source",
        Kind::Choice(&["internal", "off", "reject"]),
        "`internal`: the built-in certificate authority signs. `off`: plain HTTP. `reject`: no handshake.",
    )],
    properties: CERTIFICATE,
    block: Block::Optional(Place::Tls),
    summary: "Where a site's certificates come from, and how handshakes are made.",
    details: "`tls cert=\"…\" key=\"…\"` may be repeated: an ECDSA and an RSA certificate for one name stand side by side, and each client \
              gets the one it can verify. Paths are relative to the file they are written in.\n\n\
              With `pem=` and `key-pem=` the texts themselves stand in the place of files, from the environment or a secret store: `tls pem=\"{env.SITE_PEM}\"`. They are checked as files are, are never shown (a digest stands for them), and change with the configuration only.\n\n\
              With `tls \"reject\"` handshakes for the names of the site are refused with `unrecognized_name`, as for a name that no site has, although a wildcard or `site \"https://:443\"` would take them; and a request for them on a connection \
              that was made for another site is answered with 421. Plain HTTP does not lead to it.\n\n\
              With `tls \"off\"` an address without a scheme is plain HTTP, on port 80 when it has no port either.",
    default: "by ACME for public names, signed by the internal CA for others",
    example: "tls \"internal\" {\n    min \"1.3\"\n}",
    said_otherwise: TLS_SAID_OTHERWISE,
    ..Directive::PLAIN
};

pub static SHARED_TLS: Directive = Directive {
    name: "tls",
    places: &[Place::Top],
    repeat: Repeat::Many,
    properties: CERTIFICATE,
    summary: "A certificate that is given once, for every site that it covers.",
    details: "Each site that says nothing of where its certificate comes from, and all of whose hosts such certificates cover, has it as if it stood there; nothing is obtained for it by ACME. Several lines are several certificates: \
              other names, or ECDSA and RSA side by side. A site with hosts that none covers stays as it is as a whole, and `check` says so; so does a site with `tls cert=`, `tls \"internal\"`, `on-demand` or an `acme` of its own. \
              Which names a certificate has is looked at when the configuration is read; that the files were renewed is noticed as with those of a site.",
    default: "sites have certificates of their own",
    example: "tls cert=\"wildcard.pem\"",
    lower: Lower::Top(lower_shared),
    said_otherwise: TLS_SAID_OTHERWISE,
    meant: "how handshakes are made is said in the `tls` of a site; here a certificate is given, as in `tls cert=\"wildcard.pem\" key=\"wildcard.key\"`",
    ..Directive::PLAIN
};

const TLS_SAID_OTHERWISE: &[Said] = &[
    (&["minVersion", "protocols", "ssl_protocols"], "it stands in the block, as in `tls { min \"1.3\" }`"),
    (&["certFile", "certificate", "crt", "chain"], "it is `cert=`, as in `tls cert=\"cert.pem\" key=\"key.pem\"`"),
    (&["keyFile", "private_key"], "it is `key=`, as in `tls cert=\"cert.pem\" key=\"key.pem\"`"),
];

/// Properties that give a certificate or its key.
const OF_CERTIFICATE: [&str; 4] = ["cert", "key", "pem", "key-pem"];
/// Each is looked at for every site.
const SHARED_MAX: usize = 100;

pub static MIN: Directive = Directive {
    name: "min",
    places: &[Place::Tls],
    arguments: &[Argument::one("version", Kind::Choice(&["1.2", "1.3"]), "The oldest version of TLS that is spoken.")],
    summary: "The oldest version of TLS that clients may use.",
    default: "`1.2`",
    example: "min \"1.3\"",
    ..Directive::PLAIN
};

pub static CIPHERS: Directive = Directive {
    name: "ciphers",
    places: &[Place::Tls],
    arguments: &[Argument::one_or_more(
        "names",
        Kind::Choice(CIPHER_NAMES),
        "Cipher suites by their IANA names, in order of preference.",
    )],
    summary: "The cipher suites that are offered, in order of preference.",
    details: "All of them are strong, so there is rarely a reason to write this.",
    default: "all; AES-128-GCM first where the processor has AES instructions, ChaCha20 first elsewhere",
    example: "ciphers \"TLS_AES_256_GCM_SHA384\" \"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\"",
    ..Directive::PLAIN
};

pub static ALPN: Directive = Directive {
    name: "alpn",
    places: &[Place::Tls],
    arguments: &[Argument::one_or_more("protocols", Kind::Choice(&["h2", "http/1.1"]), "HTTP versions, in order of preference.")],
    summary: "The versions of HTTP that are offered in the handshake.",
    default: "`h2`, then `http/1.1`",
    example: "alpn \"http/1.1\"",
    ..Directive::PLAIN
};

pub static TICKETS: Directive = Directive {
    name: "tickets",
    places: &[Place::Tls],
    arguments: &[Argument::one("enabled", Kind::Switch, "Whether clients may resume a session by ticket.")],
    summary: "Whether clients may resume sessions by ticket, which saves most of a handshake.",
    default: "`#true`",
    example: "tickets #false",
    ..Directive::PLAIN
};

pub static EARLY_DATA: Directive = Directive {
    name: "early-data",
    places: &[Place::Tls],
    arguments: &[Argument::one(
        "enabled",
        Kind::Switch,
        "Whether clients that come back may send a request with their first bytes.",
    )],
    summary: "Takes requests in TLS 1.3 early data (0-RTT), which saves those who come back a round trip.",
    details: "What is sent that way is not known to be fresh: somebody who has recorded it can send it again. So a ticket brings early data once, up to 48 KiB, and only to the process that gave it: \
              the sessions of such a site are kept in memory, not in tickets, and a restart, an upgrade and other hosts mean a full handshake. That does not help where a client repeats a request itself \
              because its answer was held back, so `GET`, `HEAD` and `OPTIONS` without a body go ahead, and everything else waits until the handshake is over.\n\n\
              Upstreams are told with `Early-Data: 1` (RFC 8470) and may answer 425, which is passed on: the client then asks again. Switch it on where no `GET` changes anything, or where upstreams \
              know that field.\n\n\
              It cannot be had together with `client-auth` or `tickets #false`.",
    default: "`#false`",
    example: "early-data #true",
    ..Directive::PLAIN
};

pub static OCSP_STAPLING: Directive = Directive {
    name: "ocsp-stapling",
    places: &[Place::Tls],
    arguments: &[Argument::one(
        "enabled",
        Kind::Switch,
        "Whether the responder of a certificate is asked, and its answer sent along in handshakes.",
    )],
    summary: "Whether clients are sent the responder's word that a certificate is not revoked.",
    details: "Only certificates that name a responder have one asked; for others nothing is done, and Let's Encrypt's name none since 2025. \
              The certificate of the issuer has to stand in the chain, behind the site's own. Answers are verified before they are sent, and a \
              responder that fails holds nothing up: handshakes go on without.\n\n\
              A certificate that clients accept only with such an answer (\"must-staple\") is refused by browsers when this is off.",
    default: "`#true`",
    example: "ocsp-stapling #false",
    ..Directive::PLAIN
};

static CIPHER_NAMES: &[&str] = &names_of_ciphers();

const fn names_of_ciphers() -> [&'static str; CipherName::NAMES.len()] {
    let mut names = [""; CipherName::NAMES.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = CipherName::NAMES[index].0;
        index += 1;
    }
    names
}

/// The `tls` lines of a site while they are read.
#[derive(Debug, Default)]
pub struct TlsDraft {
    pub tls: Tls,
    /// Where the source was said first, and as what.
    source_at: Option<(&'static str, Location)>,
    /// Settings of a block, which may stand in one of several `tls` lines.
    settings_at: BTreeMap<&'static str, Location>,
    /// Where each certificate of the site was named.
    certificates_at: Vec<(Certificate, Location)>,
    pub client_auth_at: Option<Location>,
}

/// One `tls` line of a site.
pub fn lower(lowering: &mut Lowering<'_>, draft: &mut TlsDraft, line: &Line<'_>) {
    match &line.written_arguments()[..] {
        [cert, key] if cert.contains(['.', '/']) => {
            let meant = format!("write `tls cert={} key={}`", quoted(&shortened(cert)), quoted(&shortened(key)));
            let _: Option<()> = line.refuse_whole(lowering, "the files of a certificate are named by `cert=` and `key=`", meant);
            return;
        }
        [mail] if mail.contains('@') && !mail.contains('{') => {
            let meant = format!("at the top level, write `acme email={}`; a site needs no line for it", quoted(&shortened(mail)));
            let _: Option<()> = line.refuse_whole(lowering, "whom a CA writes to is said for the whole process", meant);
            return;
        }
        _ => {}
    }
    lower_source(lowering, draft, line);
    for child in line.lines(lowering) {
        if let Some(first) = draft.settings_at.get(child.directive.name) {
            let message = format!("`{}` is written twice for this site", child.directive.name);
            let diagnostic =
                Diagnostic::error("duplicate-directive", child.location(), message).label(first.clone(), "the first one");
            lowering.report(diagnostic);
            continue;
        }
        draft.settings_at.insert(child.directive.name, child.location());
        lower_setting(lowering, draft, &child);
    }
}

fn lower_shared(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    if line.arguments().next().is_some() {
        // What that would be was said by the table.
        return;
    }
    if !has_certificate(line) {
        let diagnostic =
            Diagnostic::error("missing-cert", line.location(), "`tls` at the top level gives a certificate, and this names none");
        return lowering.report(diagnostic.help(SHARED_TLS.meant));
    }
    let Some(certificate) = read_certificate(lowering, line) else { return };
    let certificates = &mut lowering.configuration.certificates;
    if certificates.contains(&certificate) {
        let diagnostic = Diagnostic::warning("duplicate-certificate", line.location(), "this certificate is given twice");
        return lowering.report(diagnostic.help("remove one of them"));
    }
    if certificates.len() == SHARED_MAX {
        let message = format!("there are more than {SHARED_MAX} certificates for many sites");
        return lowering
            .report(Diagnostic::error("bad-value", line.location(), message).help("give those of one site in its own `tls`"));
    }
    certificates.push(certificate);
}

fn lower_setting(lowering: &mut Lowering<'_>, draft: &mut TlsDraft, line: &Line<'_>) {
    let tls = &mut draft.tls;
    let switch = |lowering: &mut Lowering<'_>| line.read_argument(lowering, 0).map(Read::switch);
    match line.directive.name {
        "min" => {
            let version = line.read_argument(lowering, 0).map(Read::choice);
            let version = version.and_then(|version| TlsVersion::NAMES.iter().find(|(name, _)| *name == version));
            tls.min_version = version.map_or(tls.min_version, |(_, version)| *version);
        }
        "ciphers" => lower_ciphers(lowering, tls, line),
        "alpn" => lower_alpn(lowering, tls, line),
        "tickets" => tls.tickets = switch(lowering).unwrap_or(tls.tickets),
        "early-data" => tls.early_data = switch(lowering).unwrap_or(tls.early_data),
        "ocsp-stapling" => tls.ocsp_stapling = switch(lowering).unwrap_or(tls.ocsp_stapling),
        "acme" => tls.acme = acme::read_changes(lowering, line).map(Box::new),
        "on-demand" => tls.on_demand = acme::read_on_demand(lowering, line),
        _ => {
            draft.client_auth_at = Some(line.location());
            tls.client_auth = client_auth::read(lowering, line);
        }
    }
}

fn lower_source(lowering: &mut Lowering<'_>, draft: &mut TlsDraft, line: &Line<'_>) {
    let word = line.read_argument(lowering, 0).map(Read::choice);
    let has_files = has_certificate(line);
    let kind = match word {
        Some(word) if has_files => {
            let message = format!("`tls \"{word}\"` takes no certificate");
            lowering.report(Diagnostic::error("conflicting-tls", line.location(), message).help("write one or the other"));
            return;
        }
        Some(word) => word,
        None if has_files => "files",
        None => return,
    };
    if let Some((first_kind, first)) = &draft.source_at {
        if kind != "files" || *first_kind != "files" {
            let diagnostic = Diagnostic::error("conflicting-tls", line.location(), "certificates of this site have two sources")
                .label(first.clone(), "the first one")
                .help("only `tls cert=… key=…` may be repeated");
            lowering.report(diagnostic);
            return;
        }
    } else {
        draft.source_at = Some((kind, line.location()));
    }
    match kind {
        "internal" => draft.tls.source = TlsSource::Internal,
        "off" => draft.tls.source = TlsSource::Off,
        "reject" => draft.tls.source = TlsSource::Reject,
        _ => {
            if let Some(certificate) = read_certificate(lowering, line) {
                if let Some((_, first)) = draft.certificates_at.iter().find(|(known, _)| *known == certificate) {
                    let message = "this site has the same certificate twice";
                    let diagnostic = Diagnostic::warning("duplicate-certificate", line.location(), message);
                    lowering.report(diagnostic.label(first.clone(), "the first one").help("remove one of them"));
                    return;
                }
                draft.certificates_at.push((certificate.clone(), line.location()));
                match &mut draft.tls.source {
                    TlsSource::Files(certificates) => certificates.push(certificate),
                    other => *other = TlsSource::Files(vec![certificate]),
                }
            } else if draft.tls.source == TlsSource::Automatic {
                // The fault was reported; that no certificate is left must not look like none was asked for.
                draft.tls.source = TlsSource::Files(Vec::new());
            }
        }
    }
}

/// Whether the line gives one, or a part of one.
fn has_certificate(line: &Line<'_>) -> bool {
    OF_CERTIFICATE.iter().any(|name| line.property(name).is_some())
}

fn read_certificate(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Certificate> {
    let cert = Given::once(lowering, line, "cert", "pem");
    let key = Given::once(lowering, line, "key", "key-pem");
    if line.property("cert").is_none() && line.property("pem").is_none() {
        let name = if line.property("key").is_some() { "key" } else { "key-pem" };
        let diagnostic = Diagnostic::error("missing-cert", line.location(), format!("`{name}=` without `cert=`"))
            .help("add `cert=\"…\"` with the certificate chain");
        return lowering.refuse(diagnostic);
    }
    let key_is_elsewhere = line.property("key").is_some() || line.property("key-pem").is_some();
    let cert = cert.and_then(|given| check_certificate(lowering, &given, !key_is_elsewhere));
    let key = match key {
        Some(given) => Some(check_key(lowering, &given)?),
        None if key_is_elsewhere => return None,
        None => None,
    };
    Some(Certificate { cert: cert?, key })
}

fn lower_ciphers(lowering: &mut Lowering<'_>, tls: &mut Tls, line: &Line<'_>) {
    for read in line.read_arguments(lowering) {
        let Read::Choice(name, at) = read else { continue };
        let Some((_, cipher)) = CipherName::NAMES.iter().find(|(known, _)| *known == name) else { continue };
        if tls.ciphers.contains(cipher) {
            lowering.report(Diagnostic::error("duplicate-value", at, format!("`{name}` is listed twice")));
            continue;
        }
        tls.ciphers.push(*cipher);
    }
}

fn lower_alpn(lowering: &mut Lowering<'_>, tls: &mut Tls, line: &Line<'_>) {
    for read in line.read_arguments(lowering) {
        let Read::Choice(name, at) = read else { continue };
        if tls.alpn.iter().any(|known| known == name) {
            lowering.report(Diagnostic::error("duplicate-value", at, format!("`{name}` is listed twice")));
            continue;
        }
        tls.alpn.push(name.to_string());
    }
}

/// What all `tls` lines of a site come to, and what they do to its addresses.
pub fn finish(lowering: &mut Lowering<'_>, draft: TlsDraft, addresses: &mut [WrittenAddress]) -> Tls {
    check_ciphers_fit(lowering, &draft);
    check_is_obtained(lowering, &draft);
    check_early_data(lowering, &draft);
    if let Some(at) = &draft.client_auth_at {
        client_auth::check_addresses(lowering, at, &draft.tls, addresses);
    }
    let tls_at = draft.source_at.map(|(_, at)| at);
    if draft.tls.source == TlsSource::Off {
        for WrittenAddress { address, at, says_https } in addresses.iter_mut() {
            if *says_https {
                let mut diagnostic =
                    Diagnostic::error("conflicting-tls", at.clone(), "this address is HTTPS, and TLS is off for the site")
                        .help("write `http://` in the address, or remove `tls \"off\"`");
                if let Some(tls_at) = &tls_at {
                    diagnostic = diagnostic.label(tls_at.clone(), "TLS is off here");
                }
                lowering.report(diagnostic);
                continue;
            }
            address.scheme = Scheme::Http;
            if address.redirect_from_http {
                address.port = Scheme::Http.default_port();
                address.redirect_from_http = false;
            }
        }
    } else if let Some(tls_at) = tls_at
        && !addresses.is_empty()
        && addresses.iter().all(|written| written.address.scheme == Scheme::Http)
    {
        let diagnostic = Diagnostic::warning("unused-tls", tls_at, "this has no effect: every address of the site is plain HTTP")
            .label(addresses[0].at.clone(), "plain HTTP")
            .help("write `https://` in front of the address, or remove `tls`");
        lowering.report(diagnostic);
    }
    if draft.tls.source == TlsSource::Reject {
        // Nobody is led to where nobody is answered.
        for written in addresses.iter_mut() {
            written.address.redirect_from_http = false;
        }
    }
    draft.tls
}

/// What says how certificates are obtained needs a site whose certificates are.
fn check_is_obtained(lowering: &mut Lowering<'_>, draft: &TlsDraft) {
    let Some((kind, source_at)) = &draft.source_at else { return };
    for name in ["acme", "on-demand"] {
        let Some(at) = draft.settings_at.get(name) else { continue };
        let source = if *kind == "files" { "from files".to_string() } else { format!("said with `tls \"{kind}\"`") };
        let message = format!("`{name}` obtains certificates, and those of this site are {source}");
        let diagnostic =
            Diagnostic::error("conflicting-tls", at.clone(), message).label(source_at.clone(), "where they come from");
        lowering.report(diagnostic.help(format!("remove `{name}` or the other")));
    }
}

/// What early data cannot be had with.
fn check_early_data(lowering: &mut Lowering<'_>, draft: &TlsDraft) {
    let Some(at) = draft.settings_at.get("early-data").filter(|_| draft.tls.early_data) else { return };
    let mut conflict = |other: &Location, message: &'static str, label: &'static str, help: &'static str| {
        let diagnostic = Diagnostic::error("conflicting-tls", at.clone(), message);
        lowering.report(diagnostic.label(other.clone(), label).help(help));
    };
    if let Some(other) = &draft.client_auth_at {
        // A resumed session is not verified again, and what is known of the client counts only when the handshake is
        // over.
        let message = "early data comes before it is settled who the client is, and this site asks for certificates";
        conflict(other, message, "certificates are asked for here", "remove `early-data`, or make it a site of its own");
    }
    if let Some(other) = draft.settings_at.get("tickets").filter(|_| !draft.tls.tickets) {
        let message = "early data needs a session to resume, and this site gives none";
        conflict(other, message, "resumption is off", "remove `early-data`, or write `tickets #true`");
    }
    if let Some(other) = draft.settings_at.get("ciphers").filter(|_| has_only_tls12(&draft.tls.ciphers)) {
        let message = "early data is of TLS 1.3, and none of these suites is";
        conflict(other, message, "suites of TLS 1.2", "add `\"TLS_AES_128_GCM_SHA256\"`, or remove `early-data`");
    }
}

fn has_only_tls12(ciphers: &[CipherName]) -> bool {
    let is_tls13 = |cipher: &CipherName| {
        matches!(
            cipher,
            CipherName::Tls13Aes128GcmSha256 | CipherName::Tls13Aes256GcmSha384 | CipherName::Tls13Chacha20Poly1305Sha256
        )
    };
    !ciphers.is_empty() && !ciphers.iter().any(is_tls13)
}

/// A list without a suite for the versions that are left would refuse every handshake.
fn check_ciphers_fit(lowering: &mut Lowering<'_>, draft: &TlsDraft) {
    let Some(at) = draft.settings_at.get("ciphers") else { return };
    if draft.tls.min_version == TlsVersion::V1_3 && has_only_tls12(&draft.tls.ciphers) {
        let diagnostic =
            Diagnostic::error("no-cipher", at.clone(), "none of these suites is for TLS 1.3, and nothing older is allowed")
                .help("add `\"TLS_AES_128_GCM_SHA256\"`, or allow TLS 1.2 with `min \"1.2\"`");
        lowering.report(diagnostic);
    }
}

/// Where certificates come from, on lines of their own, and behind them everything else.
pub fn write(lines: &mut Lines, tls: &Tls) {
    match &tls.source {
        TlsSource::Automatic => {}
        TlsSource::Internal => {
            lines.line().name("tls").argument("internal");
        }
        TlsSource::Off => lines.line().off("tls"),
        TlsSource::Reject => {
            lines.line().name("tls").argument("reject");
        }
        TlsSource::Files(certificates) => write_certificates(lines, certificates),
    }
    lines.line().name("tls").lines(|lines| write_settings(lines, tls));
}

/// Of a site, or of those that have theirs in common.
pub fn write_certificates(lines: &mut Lines, certificates: &[Certificate]) {
    lines.extend(certificates, |line, Certificate { cert, key }| {
        line.repeated("tls");
        pem::write(line, "cert", "pem", cert);
        if let Some(key) = key {
            pem::write(line, "key", "key-pem", key);
        }
    });
}

fn write_settings(lines: &mut Lines, tls: &Tls) {
    let Tls { source: _, min_version, ciphers, alpn, tickets, early_data, ocsp_stapling, client_auth, acme, on_demand } = tls;
    lines.line().name("min").argument(name_of(TlsVersion::NAMES, min_version));
    if !ciphers.is_empty() {
        lines.line().name("ciphers").arguments(ciphers.iter().map(|cipher| name_of(CipherName::NAMES, cipher)));
    }
    if !alpn.is_empty() {
        lines.line().name("alpn").arguments(alpn);
    }
    for (name, is_on) in [("tickets", tickets), ("early-data", early_data), ("ocsp-stapling", ocsp_stapling)] {
        lines.line().name(name).name(format_args!("#{is_on}"));
    }
    lines.extend(acme.as_deref(), acme::write);
    lines.extend(on_demand, acme::write_on_demand);
    lines.extend(client_auth, client_auth::write);
}
