//! `client-auth` in a site's `tls`: whom clients have to be signed by, and whether they have to be; and as a step, for
//! routes that demand it. The files are opened to see what they hold; whether authorities and revocation lists fit
//! together is checked where they are loaded.

use crate::diagnostics::{Diagnostic, Location};
use crate::directives::pem::{self, Given, Holds, read_pem, read_revocation_list};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::spans::WrittenAddress;
use crate::syntax::{Name, Node};
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::{Writer, name_of};
use tidegate_model::{
    ClientAuth, ClientAuthDemand, ClientAuthMode, ClientCertificateForm, ClientCertificatePart, Pem, Scheme, Step, Tls, TlsSource,
};

pub static TLS_CLIENT_AUTH: Directive = Directive {
    name: "client-auth",
    places: &[Place::Tls],
    properties: &[
        Property::many("ca", Kind::Path, "PEM file with the authorities that sign for clients. May be given several times."),
        Property::many(
            "crl",
            Kind::Path,
            "Revocation lists, PEM or DER. May be given several times; with one, every authority needs one.",
        ),
        Property::many(
            "ca-pem",
            Kind::Secret("a text of PEM, as in `\"{env.CLIENTS_CA}\"`"),
            "The authorities themselves, beside `ca` or instead of it.",
        ),
        Property::many("crl-pem", Kind::Secret("a text of PEM"), "Revocation lists themselves, beside `crl` or instead of it."),
        Property::once(
            "mode",
            Kind::Choice(&["require", "request", "unverified"]),
            "`require`: without a good certificate there is no connection. `request`: whoever shows none gets one all the same. `unverified`: so does whoever shows a bad one. `require` when left out.",
        ),
        Property::once(
            "forward",
            Kind::Choice(&["rfc9440", "xfcc", "nginx"]),
            "How upstreams are told of the certificate: `rfc9440` in `Client-Cert` and `Client-Cert-Chain`, `xfcc` in `X-Forwarded-Client-Cert`, `nginx` in `ssl-client-verify`, `ssl-client-subject-dn`, `ssl-client-issuer-dn` and `ssl-client-cert`. Not at all when left out.",
        ),
    ],
    summary: "Asks clients for a certificate in the handshake.",
    details: "A certificate has to be signed by one of the authorities, over at most six between, be in its time, and be for clients where it says what it is for (extended key usage). \
              A bad one is refused, with the alert that says why, unless the mode is `unverified`. All authorities in `ca=` are trusted for any name: name those of your own, never a list of public ones.\n\n\
              With `crl=` the status of every certificate in the chain has to be known, from a list that is not past its `nextUpdate`; otherwise the client is refused.\n\n\
              With `mode=\"unverified\"` the handshake asks for a certificate and takes any, or none; `ca=` may be left out, and then none is good. What is not good is as none for conditions, log-ins, \
              steps, placeholders and the forms `rfc9440` and `xfcc`: only `forward=\"nginx\"` tells the upstream of it, with `ssl-client-verify: FAILED:` and the reason, as `SUCCESS` stands there for a good one and `NONE` where there is none. \
              That a client has the key of what it shows is certain in every mode.\n\n\
              The files are watched: new contents count for the next handshake, without a reload, and open connections go on. A file that cannot be used changes nothing and is an error in the log. \
              `ca-pem=` and `crl-pem=` are the texts themselves, as those of a certificate in [`tls`](#tls); they change with the configuration only.\n\n\
              Sessions that began under other authorities, lists or another mode are not resumed.\n\n\
              Fields in which clients could claim a certificate (`Client-Cert`, `X-Forwarded-Client-Cert`, `X-SSL-Client-…` and the like) are removed from every request, whatever the site, unless a \
              trusted proxy sent them.\n\n\
              A connection that was made for another site, or without a certificate, is answered with 421 when it asks for this one.",
    default: "clients are not asked",
    example: "client-auth ca=\"clients-ca.pem\" crl=\"revoked.pem\" mode=\"require\"",
    ..Directive::PLAIN
};

pub static CLIENT_AUTH: Directive = Directive {
    name: "client-auth",
    places: &[Place::Site, Place::Route, Place::AuthAny],
    arguments: &[Argument::one(
        "demand",
        Kind::Choice(&["require", "off"]),
        "`require`: who has shown no certificate is refused. `off`: nobody is, in a route of a site that requires one.",
    )],
    summary: "Demands a certificate of the client for some routes of a site.",
    details: "The site has to ask for it in the handshake, with `client-auth ca=\"…\" mode=\"request\"` in its `tls`: TLS 1.3 has no renegotiation, HTTP/2 forbids it, and the path of a request is known only \
              when the handshake is over. Who has shown none is answered with 403, `client_certificate_required`, and has to connect again to show one.\n\n\
              Of that of a site and that of its route the route's counts. Which clients are meant is said by `match client-subject=`, `client-san=` or `client-fingerprint=`. Browsers send preflights \
              without certificates; a `cors` answers them before.",
    default: "nobody is refused",
    example: "client-auth \"require\"",
    lower: Lower::Step(lower_step),
    ..Directive::PLAIN
};

fn lower_step(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let demand = match line.read_argument(lowering, 0).map(Read::choice)? {
        "off" => ClientAuthDemand::Off,
        _ => ClientAuthDemand::Require,
    };
    Some(Step::ClientAuth(demand))
}

/// What a site's `tls` says of it.
pub fn read(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<ClientAuth> {
    let errors_before = lowering.diagnostics.len();
    let written = Given::all(lowering, line, "ca", "ca-pem");
    let word = line.read(lowering, "mode").map(Read::choice);
    let mode = ClientAuthMode::NAMES.iter().find(|(name, _)| word == Some(*name));
    let mode = mode.map_or(ClientAuthMode::Require, |(_, mode)| *mode);
    let says = |names: [&str; 2]| names.iter().any(|name| line.property(name).is_some());
    let needs_authorities = mode != ClientAuthMode::Unverified || says(["crl", "crl-pem"]);
    if written.is_empty() && !says(["ca", "ca-pem"]) && needs_authorities {
        let diagnostic = Diagnostic::error("missing-property", line.location(), "`client-auth` needs the authorities of clients");
        lowering.report(diagnostic.help("for example `client-auth ca=\"clients-ca.pem\"`"));
    }
    let ca = each_once(lowering, &written, authorities);
    let lists = Given::all(lowering, line, "crl", "crl-pem");
    let crls = each_once(lowering, &lists, read_revocation_list);
    let form = line.read(lowering, "forward").map(Read::choice);
    let forward = ClientCertificateForm::NAMES.iter().find(|(name, _)| form == Some(*name)).map(|(_, form)| *form);
    (!lowering.has_errors_since(errors_before)).then_some(ClientAuth { ca, crls, mode, forward })
}

/// What could be read of it. One that is given twice is reported.
fn each_once(lowering: &mut Lowering<'_>, given: &[Given], read: impl Fn(&mut Lowering<'_>, &Given) -> Option<Pem>) -> Vec<Pem> {
    let mut all: Vec<Pem> = Vec::new();
    for one in given {
        let Some(pem) = read(lowering, one) else { continue };
        if all.contains(&pem) {
            let diagnostic = one.text().error("duplicate-value", format!("{} is given twice", one.shown()));
            lowering.report(diagnostic.help("remove one of them"));
            continue;
        }
        all.push(pem);
    }
    all
}

/// The authorities, when there is a certificate.
fn authorities(lowering: &mut Lowering<'_>, given: &Given) -> Option<Pem> {
    let (path, pem) = read_pem(lowering, given)?;
    let text = given.text();
    if pem.has_certificate {
        return Some(path);
    }
    let message = format!("{} holds no certificate", given.shown());
    let diagnostic = Diagnostic::error("no-certificate", text.location.clone(), message);
    lowering.report(match pem {
        Holds { has_key: true, .. } | Holds { has_encrypted_key: true, .. } => diagnostic
            .help("it holds a private key; what is needed is the certificate of the authority, and its key belongs elsewhere"),
        Holds { has_list: true, .. } => diagnostic.help("it holds a revocation list, which is named with `crl=`"),
        Holds { blocks: 0, .. } => {
            diagnostic.note("it holds no PEM block at all").help("convert it with `openssl x509 -inform der`")
        }
        Holds { .. } => diagnostic,
    });
    None
}

/// What a site asks for has to be what its lines are about: `nodes` are those of its block, `steps` all that were read.
pub fn check_uses<'s>(lowering: &mut Lowering<'_>, nodes: &[Node], steps: impl Iterator<Item = &'s (Step, Location)>) {
    let help = "ask for one with `tls { client-auth ca=\"clients-ca.pem\" mode=\"request\"; }`";
    let requires = |step: &Step| step.parts().contains(&Step::ClientAuth(ClientAuthDemand::Require));
    for (_, at) in steps.filter(|(step, _)| requires(step)) {
        let message = "a certificate is required here, and clients of this site are not asked for one";
        lowering.report(Diagnostic::error("no-client-auth", at.clone(), message).help(help));
    }
    warn_of_conditions(lowering, nodes, help);
}

/// A condition that without certificates never holds, and turned round always does.
fn warn_of_conditions(lowering: &mut Lowering<'_>, nodes: &[Node], help: &'static str) {
    let is_about = |name: &Name| ClientCertificatePart::NAMES.iter().any(|(known, _)| name.text == *known);
    for node in nodes {
        for entry in node.entries.iter().filter(|_| node.name.text == "match") {
            if entry.name.as_ref().is_some_and(is_about) {
                let message = "clients of this site are not asked for a certificate";
                lowering.report(Diagnostic::warning("no-client-auth", entry.value.location.clone(), message).help(help));
            }
        }
        warn_of_conditions(lowering, node.children.as_deref().unwrap_or_default(), help);
    }
}

/// What only the whole site shows: that clients can show a certificate at all.
pub fn check_addresses(lowering: &mut Lowering<'_>, at: &Location, tls: &Tls, addresses: &[WrittenAddress]) {
    if tls.source == TlsSource::Off {
        let diagnostic =
            Diagnostic::error("conflicting-tls", at.clone(), "clients cannot be asked for a certificate, for TLS is off");
        lowering.report(diagnostic.help("remove `client-auth` or `tls \"off\"`"));
        return;
    }
    let plain = |written: &&WrittenAddress| written.address.scheme == Scheme::Http;
    let requires = tls.client_auth.as_ref().is_some_and(|auth| auth.mode == ClientAuthMode::Require);
    if let Some(written) = addresses.iter().find(plain)
        && requires
    {
        lowering.report(open_door(at.clone(), written));
    }
}

/// What is required on one address must not be had without it on another.
fn open_door(at: Location, written: &WrittenAddress) -> Diagnostic {
    Diagnostic::error(
        "client-auth-evaded",
        written.at.clone(),
        "on this address nobody can show a certificate, for it is plain HTTP",
    )
    .label(at, "certificates are required here")
    .help("make it a site of its own, or remove it: HTTPS addresses are redirected to by themselves")
}

pub fn write_step(line: &mut Writer, demand: ClientAuthDemand) {
    line.name("client-auth").argument(demand.as_str());
}

/// In a site's `tls`.
pub fn write(line: &mut Writer, ClientAuth { ca, crls, mode, forward }: &ClientAuth) {
    line.name("client-auth");
    for (file, text, all) in [("ca", "ca-pem", ca), ("crl", "crl-pem", crls)] {
        for one in all {
            pem::write(line, file, text, one);
        }
    }
    line.property("mode", mode.as_str());
    line.optional("forward", forward.as_ref().map(|form| name_of(ClientCertificateForm::NAMES, form)));
}
