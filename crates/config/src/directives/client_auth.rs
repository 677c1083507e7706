//! `client-auth` in a site's `tls`: whom clients have to be signed by, and whether they have to be; and as a step, for
//! routes that demand it. The files are opened to see what they hold; whether authorities and revocation lists fit
//! together is checked where they are loaded.

use crate::diagnostics::{Diagnostic, Location};
use crate::directives::pem::{Holds, read_pem, read_revocation_list};
use crate::directives::site::WrittenAddress;
use crate::directives::tls::TlsDraft;
use crate::lowering::{Line, Lowering, Read};
use crate::placeholders::Text;
use crate::table::{Argument, Block, Count, Directive, Kind, Lower, Place, Property, Repeat};
use crate::written_line::Writer;
use std::path::PathBuf;
use tidegate_model::{ClientAuth, ClientAuthDemand, ClientAuthMode, ClientCertificateForm, Scheme, Step, TlsSource};

pub static TLS_CLIENT_AUTH: Directive = Directive {
    name: "client-auth",
    places: &[Place::Tls],
    repeat: Repeat::Once,
    arguments: &[],
    properties: &[
        Property {
            name: "ca",
            kind: Kind::Path,
            repeat: Repeat::Many,
            summary: "PEM file with the authorities that sign for clients. May be given several times.",
        },
        Property {
            name: "crl",
            kind: Kind::Path,
            repeat: Repeat::Many,
            summary: "Revocation lists, PEM or DER. May be given several times; with one, every authority needs one.",
        },
        Property::once(
            "mode",
            Kind::Choice(&["require", "request"]),
            "`require`: without a good certificate there is no connection. `request`: whoever shows none gets one all the same. `require` when left out.",
        ),
        Property::once(
            "forward",
            Kind::Choice(&["rfc9440", "xfcc"]),
            "How upstreams are told of the certificate: `rfc9440` in `Client-Cert` and `Client-Cert-Chain`, `xfcc` in `X-Forwarded-Client-Cert`. Not at all when left out.",
        ),
    ],
    block: Block::None,
    summary: "Asks clients for a certificate in the handshake.",
    details: "A certificate has to be signed by one of the authorities, over at most six between, be in its time, and be for clients where it says what it is for (extended key usage). \
              A bad one is refused whatever the mode, with the alert that says why. All authorities in `ca=` are trusted for any name: name those of your own, never a list of public ones.\n\n\
              With `crl=` the status of every certificate in the chain has to be known, from a list that is not past its `nextUpdate`; otherwise the client is refused.\n\n\
              The files are watched: new contents count for the next handshake, without a reload, and open connections go on. A file that cannot be used changes nothing and is an error in the log. \
              Sessions that began under other authorities, lists or another mode are not resumed.\n\n\
              Fields in which clients could claim a certificate (`Client-Cert`, `X-Forwarded-Client-Cert`, `X-SSL-Client-…` and the like) are removed from every request, whatever the site, unless a \
              trusted proxy sent them.\n\n\
              A connection that was made for another site, or without a certificate, is answered with 421 when it asks for this one.",
    default: "clients are not asked",
    example: "client-auth ca=\"clients-ca.pem\" crl=\"revoked.pem\" mode=\"require\"",
    lower: Lower::Tls(lower_tls),
};

pub static CLIENT_AUTH: Directive = Directive {
    name: "client-auth",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Once,
    arguments: &[Argument {
        name: "demand",
        kind: Kind::Choice(&["require", "off"]),
        count: Count::One,
        summary: "`require`: who has shown no certificate is refused. `off`: nobody is, in a route of a site that requires one.",
    }],
    properties: &[],
    block: Block::None,
    summary: "Demands a certificate of the client for some routes of a site.",
    details: "The site has to ask for it in the handshake, with `client-auth ca=\"…\" mode=\"request\"` in its `tls`: TLS 1.3 has no renegotiation, HTTP/2 forbids it, and the path of a request is known only \
              when the handshake is over. Who has shown none is answered with 403, `client_certificate_required`, and has to connect again to show one.\n\n\
              Of that of a site and that of its route the route's counts. Which clients are meant is said by `match client-subject=`, `client-san=` or `client-fingerprint=`. Browsers send preflights \
              without certificates; a `cors` in front of this step answers them.",
    default: "nobody is refused",
    example: "client-auth \"require\"",
    lower: Lower::Step(lower_step),
};

fn lower_step(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let demand = match line.read_argument(lowering, 0).map(Read::choice)? {
        "off" => ClientAuthDemand::Off,
        _ => ClientAuthDemand::Require,
    };
    if demand == ClientAuthDemand::Require {
        lowering.client_auth_uses.push(Use { at: line.location(), what: Wants::Certificate });
    }
    Some(Step::ClientAuth(demand))
}

fn lower_tls(lowering: &mut Lowering<'_>, draft: &mut TlsDraft, line: &Line<'_>) {
    let errors_before = lowering.diagnostics.len();
    let written = line.texts(lowering, "ca");
    if written.is_empty() && line.property("ca").is_none() {
        let diagnostic = Diagnostic::error("missing-property", line.location(), "`client-auth` needs the authorities of clients");
        lowering.report(diagnostic.help("for example `client-auth ca=\"clients-ca.pem\"`"));
    }
    let ca = each_once(lowering, &written, authority_file);
    let lists = line.texts(lowering, "crl");
    let crls = each_once(lowering, &lists, read_revocation_list);
    let mode = match line.read(lowering, "mode").map(Read::choice) {
        None | Some("require") => ClientAuthMode::Require,
        Some(_) => ClientAuthMode::Request,
    };
    let form = line.read(lowering, "forward").map(Read::choice);
    let forward = ClientCertificateForm::NAMES.iter().find(|(name, _)| form == Some(*name)).map(|(_, form)| *form);
    draft.client_auth_at = Some(line.location());
    if lowering.diagnostics.len() == errors_before {
        draft.tls.client_auth = Some(ClientAuth { ca, crls, mode, forward });
    }
}

/// The paths of files that could be read. One that is given twice is reported.
fn each_once(
    lowering: &mut Lowering<'_>,
    texts: &[Text],
    read: impl Fn(&mut Lowering<'_>, &Text) -> Option<PathBuf>,
) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for text in texts {
        let Some(path) = read(lowering, text) else { continue };
        if paths.contains(&path) {
            lowering
                .report(text.error("duplicate-value", format!("`{}` is given twice", text.shown())).help("remove one of them"));
            continue;
        }
        paths.push(path);
    }
    paths
}

/// The path, when the file holds a certificate.
fn authority_file(lowering: &mut Lowering<'_>, text: &Text) -> Option<PathBuf> {
    let (path, pem) = read_pem(lowering, text)?;
    lowering.spans.files.push((path.clone(), text.location.clone()));
    if pem.has_certificate {
        return Some(path);
    }
    let message = format!("`{}` holds no certificate", text.shown());
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

/// Something in a site that is about certificates of its clients.
#[derive(Debug)]
pub struct Use {
    pub at: Location,
    pub what: Wants,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// A condition of `match`: without certificates it never holds, and turned round it always does.
    Condition,
    /// A step that nobody would get past.
    Certificate,
}

/// What the site asks for has to be what its routes are about.
pub fn check_uses(lowering: &mut Lowering<'_>, is_asked: bool) {
    for Use { at, what } in std::mem::take(&mut lowering.client_auth_uses) {
        if is_asked {
            continue;
        }
        let diagnostic = match what {
            Wants::Certificate => Diagnostic::error(
                "no-client-auth",
                at,
                "a certificate is required here, and clients of this site are not asked for one",
            ),
            Wants::Condition => Diagnostic::warning("no-client-auth", at, "clients of this site are not asked for a certificate"),
        };
        lowering.report(diagnostic.help("ask for one with `tls { client-auth ca=\"clients-ca.pem\" mode=\"request\"; }`"));
    }
}

/// What only the whole site shows: that clients can show a certificate at all.
pub fn check_addresses(lowering: &mut Lowering<'_>, draft: &TlsDraft, addresses: &[WrittenAddress]) {
    let Some(at) = draft.client_auth_at.clone() else { return };
    if draft.tls.source == TlsSource::Off {
        let diagnostic = Diagnostic::error("conflicting-tls", at, "clients cannot be asked for a certificate, for TLS is off");
        lowering.report(diagnostic.help("remove `client-auth` or `tls \"off\"`"));
        return;
    }
    let plain = |written: &&WrittenAddress| written.address.scheme == Scheme::Http;
    let requires = draft.tls.client_auth.as_ref().is_some_and(|auth| auth.mode == ClientAuthMode::Require);
    if let Some(written) = addresses.iter().find(plain)
        && requires
    {
        lowering.report(open_door(at, written));
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
