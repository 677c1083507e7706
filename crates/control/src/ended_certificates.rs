//! What a change is told of certificates that have ended, or are about to: they are served all the same, and every
//! client refuses them. Only those of sites that the change brings or touches are looked at; `check` looks at all.

use jiff::Timestamp;
use std::collections::BTreeSet;
use tidegate_certs::{CertFinding, check_lifetime};
use tidegate_config::{Diagnostic, Loaded, render};
use tidegate_model::{Certificate, Configuration, Delta, TlsSource};

/// Pairs of one change that are read for it.
const PAIRS_MAX: usize = 1000;

/// What there is to say, and the same rendered with its places.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub findings: Vec<CertFinding>,
    pub rendered: String,
}

impl Ended {
    pub fn log(&self) {
        for finding in &self.findings {
            tracing::warn!(help = finding.help, "{}", finding.message);
        }
    }
}

pub(crate) fn ended_certificates(configuration: &Configuration, delta: &Delta, written: &Loaded) -> Ended {
    let sites = delta.sites.changed.iter().filter_map(|changed| configuration.sites.get(changed.position));
    let of_sites = sites.flat_map(|site| match &site.tls.source {
        TlsSource::Files(files) => &files[..],
        TlsSource::Off | TlsSource::Reject | TlsSource::Automatic | TlsSource::Internal => &[],
    });
    let mut seen = BTreeSet::new();
    let mut ended = Ended::default();
    let now = Timestamp::now();
    let is_new = |pair: &&Certificate| seen.insert(pair.cert.name().to_owned());
    let findings = of_sites.filter(is_new).take(PAIRS_MAX).flat_map(|pair| check_lifetime(pair, now));
    for finding in findings {
        ended.rendered.push_str(&rendered(&finding, written));
        ended.findings.push(finding);
    }
    ended
}

fn rendered(finding: &CertFinding, written: &Loaded) -> String {
    let place = finding.file.as_ref().and_then(|file| written.spans.of_file(file)).cloned();
    let Some(place) = place else { return format!("warning[certificate]: {}\n", finding.message) };
    let diagnostic = Diagnostic::warning("certificate", place, finding.message.clone());
    let diagnostic = match &finding.help {
        Some(help) => diagnostic.help(help.clone()),
        None => diagnostic,
    };
    render(&[diagnostic], &written.files, false)
}
