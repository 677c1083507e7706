//! What clients would complain of: pure, from what the server showed, the roots that there are, and the time.

use super::Target;
use super::ask::{Answer, Oldest, TLS13};
use super::old_hello::Reply;
use crate::cli::cert::Check;
use jiff::{SignedDuration, Timestamp};
use rustls::RootCertStore;
use std::net::IpAddr;
use std::sync::Arc;
use tidegate_certs::trust::{Distrust, mozilla_roots, roots_of_file, system_roots, verdict};
use tidegate_certs::{
    CertificateDescription, CertificateFacts, CertificateName, InternalCa, KeyAlgorithm, SignatureAlgorithm, default_state_dir,
};

/// Renewal of a certificate of 90 days is due when 30 are left, so half of that is late.
const SOON: SignedDuration = SignedDuration::from_hours(24 * 14);
/// Of short-lived ones, this part of their life.
const SOON_PART: i32 = 6;
const RSA_BITS_MIN: u32 = 2048;

/// Sets of roots, each with its name for the report.
pub struct Trusted(Vec<(Roots, Arc<RootCertStore>)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Roots {
    /// Of `--ca`, which then counts alone.
    File,
    System,
    Mozilla,
    InternalCa,
}

pub struct Judgement {
    pub findings: Vec<Finding>,
    pub trust: Vec<(Roots, Result<(), Distrust>)>,
    pub is_for_name: bool,
}

pub struct Finding {
    pub is_problem: bool,
    pub text: String,
}

impl Trusted {
    pub fn find(wanted: &Check) -> Result<Trusted, String> {
        let mut sets = Vec::new();
        if let Some(file) = &wanted.ca {
            sets.push((Roots::File, Arc::new(roots_of_file(file).map_err(|error| error.to_string())?)));
        }
        if let Ok(roots) = system_roots() {
            sets.push((Roots::System, Arc::new(roots)));
        }
        sets.push((Roots::Mozilla, Arc::new(mozilla_roots())));
        let internal = InternalCa::root_file(&wanted.state_dir.clone().unwrap_or_else(default_state_dir));
        // Where there is none, or it may not be read, there is nothing to compare with.
        if let Ok(roots) = roots_of_file(&internal) {
            sets.push((Roots::InternalCa, Arc::new(roots)));
        }
        Ok(Trusted(sets))
    }
}

impl Roots {
    pub fn word(self) -> &'static str {
        match self {
            Roots::File => "--ca",
            Roots::System => "system",
            Roots::Mozilla => "Mozilla",
            Roots::InternalCa => "internal CA",
        }
    }
}

impl Judgement {
    pub fn has_problem(&self) -> bool {
        self.findings.iter().any(|finding| finding.is_problem)
    }

    fn problem(&mut self, text: impl Into<String>) {
        self.findings.push(Finding { is_problem: true, text: text.into() });
    }

    fn note(&mut self, text: impl Into<String>) {
        self.findings.push(Finding { is_problem: false, text: text.into() });
    }
}

pub fn judge(
    target: &Target,
    answer: &Answer,
    oldest: &Oldest,
    chain: &[CertificateDescription],
    trusted: &Trusted,
    now: Timestamp,
) -> Judgement {
    let trust = trusted.0.iter().map(|(roots, store)| (*roots, verdict(store, &answer.chain, now))).collect();
    let mut judgement = Judgement { findings: Vec::new(), trust, is_for_name: is_for_name(target, answer) };
    let Some(leaf) = chain.first() else {
        judgement.problem("the server showed no certificate");
        return judgement;
    };
    dates(&mut judgement, leaf, now);
    if !judgement.is_for_name {
        let names = leaf.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let names = if names.is_empty() { "no name at all".to_owned() } else { names };
        judgement.problem(format!("the certificate is not for {}; it is for {names}", target.host));
    }
    standing(&mut judgement, chain);
    for (index, certificate) in chain.iter().enumerate() {
        strength(&mut judgement, certificate, index == 0);
    }
    // Signatures of weak keys are not even verified, and those are told already.
    if !answer.is_proven && !matches!(leaf.key_algorithm, KeyAlgorithm::Rsa { bits } if bits < RSA_BITS_MIN) {
        judgement.problem("the server did not prove that it has the certificate's key");
    }
    versions(&mut judgement, answer, oldest);
    if answer.ocsp.is_empty() && !leaf.ocsp_responders.is_empty() {
        judgement.note("the certificate has an OCSP responder, and no answer of it is stapled");
    }
    judgement
}

fn is_for_name(target: &Target, answer: &Answer) -> bool {
    let Ok(facts) = CertificateFacts::read(&answer.chain) else { return false };
    match target.host.parse::<IpAddr>() {
        Ok(ip) => facts.names.contains(&CertificateName::Ip(ip)),
        Err(_) => facts.covers_name(&target.host),
    }
}

fn dates(judgement: &mut Judgement, leaf: &CertificateDescription, now: Timestamp) {
    let day = |at: Timestamp| at.strftime("%Y-%m-%d").to_string();
    let life = leaf.not_after.duration_since(leaf.not_before);
    if leaf.not_after <= now {
        judgement.problem(format!("the certificate expired on {}", day(leaf.not_after)));
    } else if now < leaf.not_before {
        judgement.problem(format!("the certificate holds from {} on; is a clock wrong?", day(leaf.not_before)));
    } else if leaf.not_after.duration_since(now) < SOON.min(life / SOON_PART) {
        judgement.problem(format!("the certificate expires on {}, and its renewal is late", day(leaf.not_after)));
    }
}

/// Whether clients trust it, and what is wrong with the chain when they do not.
fn standing(judgement: &mut Judgement, chain: &[CertificateDescription]) {
    let of = |wanted: Roots| judgement.trust.iter().find(|(roots, _)| *roots == wanted).map(|(_, verdict)| verdict.clone());
    let (file, system, mozilla, internal) = (of(Roots::File), of(Roots::System), of(Roots::Mozilla), of(Roots::InternalCa));
    let broken = chain.windows(2).position(|pair| pair[0].issuer != pair[1].subject);
    if let Some(index) = broken {
        let (above, below) = (&chain[index + 1].subject, &chain[index].issuer);
        judgement.note(format!(
            "the chain is out of order: number {} is {above}, and not {below}, who signed number {}",
            index + 2,
            index + 1
        ));
    }
    if chain.len() > 1 && chain.last().is_some_and(|last| last.is_self_issued) {
        judgement.note("the root is sent along, which clients have or do not trust: bytes for nothing");
    }
    let decisive = file.clone().or(system.clone()).or(mozilla.clone());
    match (decisive, internal) {
        (Some(Ok(())), _) => {
            if file.is_none() && mozilla.is_some_and(|verdict| verdict.is_err()) {
                judgement.note("this system trusts it, and browsers elsewhere do not: its root is not one of Mozilla's");
            }
        }
        (_, Some(Ok(()))) if file.is_none() => {
            judgement.note("it is of the internal CA; clients trust it once they have its root: tidegate cert trust");
        }
        (Some(Err(why)), _) => judgement.problem(distrust(&why, chain)),
        (None, _) => judgement.problem("there is no root to verify it with"),
    }
}

fn distrust(why: &Distrust, chain: &[CertificateDescription]) -> String {
    if let [only] = chain
        && only.is_self_issued
    {
        return "the certificate is self-signed".to_owned();
    }
    let (Distrust::UnknownIssuer, Some(last)) = (why, chain.last()) else {
        return match why {
            Distrust::Other(problem) => format!("the chain does not verify: {problem}"),
            Distrust::UnknownIssuer => "the chain does not verify".to_owned(),
        };
    };
    if last.is_self_issued {
        return format!("the chain ends with the root {}, which is not trusted", last.subject);
    }
    let where_it_is = last.issuer_urls.first().map(|url| format!(" (it is at {url})")).unwrap_or_default();
    let remedy = "if that is an intermediate it has to be sent along, and if it is a root it is not trusted";
    format!("the chain ends with {}, and {}, who signed it, is missing{where_it_is}; {remedy}", last.subject, last.issuer)
}

fn strength(judgement: &mut Judgement, certificate: &CertificateDescription, is_leaf: bool) {
    let whose = if is_leaf { "the certificate".to_owned() } else { format!("the certificate of {}", certificate.subject) };
    match certificate.key_algorithm {
        KeyAlgorithm::Rsa { bits } if bits < RSA_BITS_MIN => {
            judgement.problem(format!("the key of {whose} is weak: RSA of {bits} bits, where {RSA_BITS_MIN} are the least"));
        }
        KeyAlgorithm::Other => judgement.problem(format!("the key of {whose} is of a kind that few clients know")),
        KeyAlgorithm::Rsa { .. }
        | KeyAlgorithm::EcdsaP256
        | KeyAlgorithm::EcdsaP384
        | KeyAlgorithm::EcdsaP521
        | KeyAlgorithm::Ed25519 => {}
    }
    match &certificate.signature {
        // A root is trusted for being there, and its own signature says nothing.
        SignatureAlgorithm::Broken(name) if !certificate.is_self_issued => {
            judgement.problem(format!("{whose} is signed with {name}, which can be forged"));
        }
        SignatureAlgorithm::Broken(_) | SignatureAlgorithm::Sound(_) | SignatureAlgorithm::Other(_) => {}
    }
}

fn versions(judgement: &mut Judgement, answer: &Answer, oldest: &Oldest) {
    for (version, reply) in [("TLS 1.0", oldest.tls10), ("TLS 1.1", oldest.tls11)] {
        match reply {
            Reply::Accepted => judgement.problem(format!("the server speaks {version}, which nobody should since RFC 8996")),
            Reply::Unknown => judgement.note(format!("whether the server speaks {version} could not be found out")),
            Reply::Refused => {}
        }
    }
    if answer.version != TLS13 {
        judgement.note("the server does not speak TLS 1.3");
    }
}

#[cfg(test)]
mod tests {
    use super::super::ask::{Answer, Oldest};
    use super::super::old_hello::Reply;
    use super::{Roots, TLS13, Target, Trusted, judge};
    use jiff::Timestamp;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use rustls::RootCertStore;
    use rustls_pki_types::CertificateDer;
    use std::sync::Arc;
    use std::time::Duration;
    use tidegate_certs::CertificateDescription;

    const DAY: i64 = 86_400;

    /// Root, intermediate, and what is issued below it.
    struct Authority {
        root: CertificateDer<'static>,
        intermediate: CertificateDer<'static>,
        issuer: Issuer<'static, KeyPair>,
    }

    fn now() -> Timestamp {
        "2026-11-20T10:00:00Z".parse().expect("a time")
    }

    fn params(name: &str, names: &[&str], (begin, end): (i64, i64)) -> CertificateParams {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).expect("valid names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let at = |days: i64| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs((now().as_second() + days * DAY) as u64);
        (params.not_before, params.not_after) = (at(begin), at(end));
        params
    }

    impl Authority {
        fn new() -> Authority {
            let authority = |name: &str| {
                let mut params = params(name, &[], (-100, 1000));
                params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
                (params, KeyPair::generate().expect("a key"))
            };
            let ((root_params, root_key), (params, key)) = (authority("Root"), authority("Middle"));
            let root = root_params.self_signed(&root_key).expect("a root").der().clone();
            let intermediate = params.signed_by(&key, &Issuer::new(root_params, root_key)).expect("a certificate").der().clone();
            Authority { root, intermediate, issuer: Issuer::new(params, key) }
        }

        fn leaf(&self, names: &[&str], life: (i64, i64)) -> CertificateDer<'static> {
            let key = KeyPair::generate().expect("a key");
            params("Leaf", names, life).signed_by(&key, &self.issuer).expect("a certificate").der().clone()
        }
    }

    #[test]
    fn what_clients_would_complain_of() {
        let authority = Authority::new();
        let mut store = RootCertStore::empty();
        store.add(authority.root.clone()).expect("a root");
        let trusted = Trusted(vec![(Roots::System, Arc::new(store)), (Roots::Mozilla, Arc::new(RootCertStore::empty()))]);
        let nobody = Trusted(vec![(Roots::System, Arc::new(RootCertStore::empty()))]);
        let check_by = |trusted: &Trusted,
                        chain: &[&CertificateDer<'static>],
                        change: &dyn Fn(&mut Answer, &mut Oldest),
                        expected: &[&str]| {
            let target = Target::parse("a.test").expect("a name");
            let mut answer = Answer {
                version: TLS13,
                cipher: String::new(),
                key_exchange: String::new(),
                alpn: None,
                chain: chain.iter().map(|der| (*der).clone()).collect(),
                is_proven: true,
                ocsp: Vec::new(),
                takes_tls12: Some(true),
            };
            let mut oldest = Oldest { tls11: Reply::Refused, tls10: Reply::Refused };
            change(&mut answer, &mut oldest);
            let described: Vec<_> = chain.iter().map(|der| CertificateDescription::read(der).expect("a certificate")).collect();
            let judgement = judge(&target, &answer, &oldest, &described, trusted, now());
            let word = |is_problem| if is_problem { "problem" } else { "note" };
            let seen: Vec<_> =
                judgement.findings.iter().map(|found| format!("{}: {}", word(found.is_problem), found.text)).collect();
            assert_eq!(seen, expected);
        };
        let check = |chain: &[&CertificateDer<'static>], expected: &[&str]| check_by(&trusted, chain, &|_, _| {}, expected);
        // Mozilla's list is not what decides on this machine, and it is what others go by.
        let elsewhere = "note: this system trusts it, and browsers elsewhere do not: its root is not one of Mozilla's";
        let (middle, root) = (&authority.intermediate, &authority.root);
        let good = authority.leaf(&["a.test"], (-30, 60));
        check(&[&good, middle], &[elsewhere]);
        check(
            &[&good, middle, root],
            &["note: the root is sent along, which clients have or do not trust: bytes for nothing", elsewhere],
        );
        let missing = "problem: the chain ends with CN=Leaf, and CN=Middle, who signed it, is missing; if that is an intermediate it has to be sent along, and if it is a root it is not trusted";
        check(&[&good], &[missing]);
        check(
            &[&good, root, middle],
            &["note: the chain is out of order: number 2 is CN=Root, and not CN=Middle, who signed number 1", elsewhere],
        );
        check(&[], &["problem: the server showed no certificate"]);
        check(
            &[&authority.leaf(&["a.test"], (-80, 10)), middle],
            &["problem: the certificate expires on 2026-11-30, and its renewal is late", elsewhere],
        );
        check(&[&authority.leaf(&["a.test"], (-3, 3)), middle], &[elsewhere]);
        check(&[&authority.leaf(&["a.test"], (-80, -1)), middle], &["problem: the certificate expired on 2026-11-19", elsewhere]);
        check(
            &[&authority.leaf(&["a.test"], (2, 80)), middle],
            &["problem: the certificate holds from 2026-11-22 on; is a clock wrong?", elsewhere],
        );
        check(
            &[&authority.leaf(&["*.a.test"], (-3, 80)), middle],
            &["problem: the certificate is not for a.test; it is for *.a.test", elsewhere],
        );
        let key = KeyPair::generate().expect("a key");
        let own = params("Own", &["a.test"], (-3, 80)).self_signed(&key).expect("a certificate").der().clone();
        check(&[&own], &["problem: the certificate is self-signed"]);
        check_by(
            &nobody,
            &[&good, middle, root],
            &|_, _| {},
            &[
                "note: the root is sent along, which clients have or do not trust: bytes for nothing",
                "problem: the chain ends with the root CN=Root, which is not trusted",
            ],
        );
        let check = |change: &dyn Fn(&mut Answer, &mut Oldest), expected: &str| {
            check_by(&trusted, &[&good, middle], change, &[elsewhere, expected]);
        };
        check(
            &|_, oldest| oldest.tls10 = Reply::Accepted,
            "problem: the server speaks TLS 1.0, which nobody should since RFC 8996",
        );
        check(&|_, oldest| oldest.tls11 = Reply::Unknown, "note: whether the server speaks TLS 1.1 could not be found out");
        check(&|answer, _| answer.version = "TLS 1.2", "note: the server does not speak TLS 1.3");
        check(&|answer, _| answer.is_proven = false, "problem: the server did not prove that it has the certificate's key");
    }
}
