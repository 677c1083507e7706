//! Certificates that are obtained while the process runs: which names want one, and what becomes of those that come.
//! How they are obtained is in the crate `acme`, on a thread of its own; what comes of it is put where handshakes find
//! it (`certs::ObtainedCertificates`) and workers answer CAs (`proxy::challenges`). What an operator sees of it is in
//! `report`.

use crate::obtained_pairs::ObtainedPairs;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_acme::{
    Certificate, ChallengeChange, Fault, Issuing, Listens, NameStatus, News, OnDemandSite, Parts, Refusal, Timing, Wanted,
};
use tidegate_certs::{CertificateName, LoadedCertificate, ObtainedCertificates, StapleSlot, TlsProcessState, challenge_config};
use tidegate_model::listening::{ListenerProtocol, Listening, listening, site_name};
use tidegate_model::{Acme, Configuration, HostPattern, ListenAddress, Scheme, Site, Storage};
use tidegate_proxy::inquiry::{Answer, PendingInquiry, Question};
use tidegate_proxy::process_state::ProcessState;
use tidegate_telemetry::{ObtainedNumbers, OnDemandResult};

/// How often metrics are told of certificates; nothing about them is news within seconds.
pub(crate) const SHOW_PERIOD: Duration = Duration::from_secs(5);

/// What goes on for certificates beside the requests.
#[derive(Default)]
pub(crate) struct Issuance {
    engine: Option<Arc<Issuing>>,
    storage: Storage,
    wanted: Vec<Wanted>,
    on_demand: Vec<OnDemandSite>,
    bound: Arc<Mutex<OnDemandBound>>,
    /// What was obtained, where somebody else is to have it too.
    pairs: Option<Arc<ObtainedPairs>>,
}

/// What is known of `names-per-hour`.
#[derive(Default)]
struct OnDemandBound {
    /// When it was last in the way of a name, and of which.
    reached: Option<(Timestamp, String)>,
    /// When that was last said.
    told_at: Option<Timestamp>,
}

/// Of `names-per-hour`.
const BOUND_HOLDS: SignedDuration = SignedDuration::from_hours(1);
/// Between two lines that `names-per-hour` is reached: strangers cause them.
const BOUND_TOLD_EVERY: SignedDuration = SignedDuration::from_mins(1);

impl Issuance {
    /// Keeps what is obtained, for who is given this.
    pub fn keep_pairs(&mut self) -> Arc<ObtainedPairs> {
        self.pairs.get_or_insert_default().clone()
    }

    pub fn engine(&self) -> Option<&Arc<Issuing>> {
        self.engine.as_ref()
    }

    /// All names that are obtained; empty where none is.
    pub fn status(&self) -> Vec<NameStatus> {
        self.engine.as_ref().map(|engine| engine.status()).unwrap_or_default()
    }

    /// What `names-per-hour` kept from being ordered within the last hour.
    pub fn on_demand_fault(&self, now: Timestamp) -> Option<Fault> {
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, name) = bound.reached.as_ref().filter(|(at, _)| now.duration_since(*at) < BOUND_HOLDS)?;
        let cause = format!("`names-per-hour` is reached, and no certificate was ordered for {name}");
        Some(Fault { at: *at, cause, remedy: BOUND_REMEDY.into() })
    }

    /// Has the names of the configuration that runs obtained, and those that are not in it any more forgotten.
    pub fn follow(&mut self, configuration: &Configuration, tls: &TlsProcessState, process: &Arc<ProcessState>) {
        let wanted = wanted(configuration);
        let on_demand = on_demand_sites(configuration);
        let is_idle = wanted.is_empty() && on_demand.is_empty();
        if self.engine.is_some() && (is_idle || self.storage != configuration.storage) {
            self.stop(process);
        }
        if self.engine.is_none() {
            if is_idle {
                return;
            }
            match start(&configuration.storage, tls, process, self.pairs.clone()) {
                Ok(engine) => {
                    let (storage, pairs) = (configuration.storage.clone(), self.pairs.take());
                    *self = Issuance { engine: Some(engine), storage, pairs, ..Issuance::default() }
                }
                Err(error) => {
                    tracing::error!(%error, "no certificates are obtained: there is no thread for it");
                    return;
                }
            }
        }
        self.forget_unwanted(&wanted, &tls.obtained);
        if (wanted != self.wanted || on_demand != self.on_demand)
            && let Some(engine) = self.engine.clone()
        {
            self.wanted.clone_from(&wanted);
            self.on_demand.clone_from(&on_demand);
            // In order: the channel behind it serves those first that came first.
            tokio::task::spawn_local(async move { engine.want(wanted, on_demand).await });
        }
    }

    /// What is under way is left in storage, to be taken up again. Waiting for its thread is not this thread's work.
    pub fn stop(&mut self, process: &ProcessState) {
        process.challenges.set_shared(false);
        // The next engine knows none of them: whoever asks for one has it looked for in storage.
        process.challenges.forget_at_hand();
        let pairs = self.pairs.clone();
        let stopped = std::mem::replace(self, Issuance { pairs, ..Issuance::default() });
        if let Some(engine) = stopped.engine {
            std::thread::spawn(move || drop(engine));
        }
    }

    /// Has a revoked certificate that was obtained obtained anew for each of its names, whatever its times say.
    pub fn replace_revoked(&self, slot: &Arc<StapleSlot>, obtained: &ObtainedCertificates) {
        let Some(engine) = &self.engine else { return };
        for name in obtained.names_of(slot) {
            let (engine, slot) = (engine.clone(), slot.clone());
            tokio::task::spawn_local(async move { engine.found_revoked(&name, slot.leaf_der()).await });
        }
    }

    fn forget_unwanted(&self, wanted: &[Wanted], obtained: &ObtainedCertificates) {
        let kept: HashSet<&str> = wanted.iter().map(|wanted| wanted.name.as_str()).collect();
        for gone in self.wanted.iter().filter(|known| !kept.contains(known.name.as_str())) {
            obtained.remove(&gone.name);
        }
    }

    /// What a worker waits for in the middle of a connection.
    pub fn answer_inquiry(&self, asked: PendingInquiry, configuration: &Configuration, process: &Arc<ProcessState>) {
        match asked.question.clone() {
            Question::Certificate { site, name } => self.obtain_on_demand(asked, (&site, name), configuration, process),
            Question::HttpChallenge { token } => self.answer_for_another(asked, async move |engine| {
                engine.http_answer(&token).await.map(|body| Answer::HttpChallenge(body.into()))
            }),
            Question::TlsChallenge { name } => self.answer_for_another(asked, async move |engine| {
                let answer = engine.tls_answer(&name).await?;
                challenge_config(&certificate_name(&answer.subject), answer.digest).ok().map(Answer::TlsChallenge)
            }),
        }
    }

    /// A CA came here for an order of another process.
    fn answer_for_another(&self, asked: PendingInquiry, find: impl AsyncFnOnce(&Issuing) -> Option<Answer> + 'static) {
        let Some(engine) = self.engine.clone() else { return asked.answer(Answer::No) };
        tokio::task::spawn_local(async move {
            let answer = find(&engine).await.unwrap_or(Answer::No);
            asked.answer(answer);
        });
    }

    fn obtain_on_demand(
        &self,
        asked: PendingInquiry,
        (site, name): (&str, String),
        configuration: &Configuration,
        process: &Arc<ProcessState>,
    ) {
        let site = configuration.sites.iter().find(|known| site_name(known) == site);
        let found = site.and_then(|site| Some((site.tls.on_demand.clone()?, configuration.acme_of(site)?.into_owned())));
        let (Some((settings, acme)), Some(engine)) = (found, self.engine.clone()) else {
            return asked.answer(Answer::No);
        };
        let listens = listens(&acme, &ports_listened_on(configuration));
        let wanted = Wanted { name: name.clone(), acme: Arc::new(acme), listens };
        let (process, bound) = (process.clone(), self.bound.clone());
        tokio::task::spawn_local(async move {
            let outcome = engine.on_demand(wanted, &settings).await;
            process.registry.certificates().note_on_demand(on_demand_result(&outcome));
            let answer = match outcome {
                Ok(()) => {
                    forget_bound(&bound, &name);
                    process.challenges.set_at_hand(&name, true);
                    Answer::Certificate
                }
                Err(refusal) => {
                    // Anybody can ask for anything, so it must not be loud; what failed at a CA was said as news.
                    tracing::debug!(name, %refusal, "no certificate on demand");
                    if refusal == Refusal::TooMany {
                        note_bound(&bound, &name);
                    }
                    of_refusal(&refusal)
                }
            };
            asked.answer(answer);
        });
    }

    /// How many are there and how many are not; `None` where none is obtained.
    pub fn numbers(&self, obtained: &[NameStatus]) -> Option<ObtainedNumbers> {
        self.engine.is_some().then(|| numbers(obtained))
    }
}

fn start(
    storage: &Storage,
    tls: &TlsProcessState,
    process: &Arc<ProcessState>,
    pairs: Option<Arc<ObtainedPairs>>,
) -> std::io::Result<Arc<Issuing>> {
    let (hearing, publishing) = (process.clone(), process.clone());
    let obtained = tls.obtained.clone();
    let issuing = tidegate_acme::start(Parts {
        storage: storage.clone(),
        state_dir: tls.state_dir().to_owned(),
        publish: Box::new(move |change| publish(&publishing, change)),
        news: Box::new(move |news| {
            if let Some(pairs) = &pairs {
                keep(pairs, &news);
            }
            hear(&hearing, &obtained, news);
        }),
        timing: Timing::default(),
    })?;
    process.challenges.set_shared(*storage != Storage::State);
    Ok(Arc::new(issuing))
}

/// Whoever may order names without end, with a wildcard of theirs, keeps others' from being ordered; the operator has
/// to know.
fn note_bound(bound: &Mutex<OnDemandBound>, name: &str) {
    let now = Timestamp::now();
    let mut bound = bound.lock().unwrap_or_else(PoisonError::into_inner);
    bound.reached = Some((now, name.to_owned()));
    if bound.told_at.is_none_or(|told| now.duration_since(told) >= BOUND_TOLD_EVERY) {
        bound.told_at = Some(now);
        tracing::warn!(
            name,
            help = BOUND_REMEDY,
            "`names-per-hour` of `on-demand` is reached, and no certificate is ordered for this name"
        );
    }
}

/// Forgets a bound that was in the way of this name, and is no more.
fn forget_bound(bound: &Mutex<OnDemandBound>, name: &str) {
    let mut bound = bound.lock().unwrap_or_else(PoisonError::into_inner);
    bound.reached.take_if(|(_, reached)| reached == name);
}

const BOUND_REMEDY: &str = "raise `names-per-hour=`, or let `ask` allow fewer names; handshakes for new names fail until then";

fn on_demand_result(outcome: &Result<(), Refusal>) -> OnDemandResult {
    match outcome {
        Ok(()) => OnDemandResult::Obtained,
        Err(Refusal::NotAName(_)) => OnDemandResult::NotAName,
        Err(Refusal::NotAllowed(_) | Refusal::NotWanted) => OnDemandResult::NotAllowed,
        Err(Refusal::TooMany) => OnDemandResult::TooMany,
        Err(Refusal::Busy) => OnDemandResult::Busy,
        Err(Refusal::Failed(_) | Refusal::NoCertificate) => OnDemandResult::Failed,
    }
}

fn of_refusal(refusal: &Refusal) -> Answer {
    match refusal {
        Refusal::NotAName(_) | Refusal::NotAllowed(_) | Refusal::NotWanted | Refusal::NoCertificate => Answer::No,
        Refusal::Failed(_) | Refusal::Busy | Refusal::TooMany => Answer::NotNow,
    }
}

fn numbers(obtained: &[NameStatus]) -> ObtainedNumbers {
    let now = Timestamp::now();
    let count = |is: &dyn Fn(&NameStatus) -> bool| obtained.iter().filter(|status| is(status)).count() as u64;
    let is_good = |status: &NameStatus| !status.is_revoked && status.not_after.is_some_and(|end| end > now);
    ObtainedNumbers {
        ready: count(&is_good),
        missing: count(&|status| !is_good(status)),
        failing: count(&|status| status.failures_in_a_row > 0),
        late: count(&|status| status.is_late && is_good(status)),
    }
}

/// Whether anything is kept in storage.
pub(crate) fn obtains(configuration: &Configuration) -> bool {
    !wanted(configuration).is_empty() || !on_demand_sites(configuration).is_empty()
}

/// Names of certificates that are obtained before anybody asks.
pub(crate) fn names_obtained(configuration: &Configuration) -> impl Iterator<Item = String> + use<> {
    wanted(configuration).into_iter().map(|wanted| wanted.name)
}

/// Every name whose certificate is to be obtained, each once, in order; the first site that has it says how.
fn wanted(configuration: &Configuration) -> Vec<Wanted> {
    let process = configuration.acme.clone().map(Arc::new);
    let ports = ports_listened_on(configuration);
    let mut found: BTreeMap<String, Wanted> = BTreeMap::new();
    for site in &configuration.sites {
        let acme = match (&site.tls.acme, &process) {
            (None, Some(process)) if configuration.acme_of(site).is_some() => process.clone(),
            _ => match configuration.acme_of(site) {
                Some(acme) => Arc::new(acme.into_owned()),
                None => continue,
            },
        };
        for name in names_of(site, &acme) {
            let listens = listens(&acme, &ports);
            found.entry(name.clone()).or_insert_with(|| Wanted { name, acme: acme.clone(), listens });
        }
    }
    found.into_values().collect()
}

/// What a configuration does with certificates that are kept in storage, by their names.
pub struct CertificateUses {
    wanted: HashSet<String>,
    on_demand: Vec<OnDemandSite>,
    hosts: HashSet<String>,
}

/// What it does with one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateUse {
    /// A site serves it, and it is renewed.
    Served,
    /// A site has the name, and its certificate from files or the internal CA.
    FromElsewhere,
    /// No site has exactly this name.
    None,
}

impl CertificateUses {
    pub fn of(configuration: &Configuration) -> CertificateUses {
        let addresses = configuration.sites.iter().flat_map(|site| &site.addresses);
        let https = addresses.filter(|address| address.scheme == Scheme::Https);
        CertificateUses {
            wanted: wanted(configuration).into_iter().map(|wanted| wanted.name).collect(),
            on_demand: on_demand_sites(configuration),
            hosts: https.filter_map(|address| storage_name(&address.host)).collect(),
        }
    }

    /// `name` as certificates have it: in lower case, wildcards with their `*`.
    pub fn use_of(&self, name: &str) -> CertificateUse {
        if self.wanted.contains(name) || self.on_demand.iter().any(|site| site.closeness(name).is_some()) {
            CertificateUse::Served
        } else if self.hosts.contains(name) {
            CertificateUse::FromElsewhere
        } else {
            CertificateUse::None
        }
    }
}

fn storage_name(host: &HostPattern) -> Option<String> {
    match host {
        HostPattern::Any | HostPattern::Socket(_) => None,
        HostPattern::Exact(name) => Some(name.clone()),
        HostPattern::Wildcard(parent) | HostPattern::DeepWildcard(parent) => Some(format!("*.{parent}")),
        HostPattern::Ip(ip) => Some(ip.to_string()),
    }
}

/// Sites whose names are obtained when somebody asks for them.
fn on_demand_sites(configuration: &Configuration) -> Vec<OnDemandSite> {
    let ports = ports_listened_on(configuration);
    let of_site = |site: &Arc<Site>| {
        let settings = site.tls.on_demand.clone()?;
        let acme = Arc::new(configuration.acme_of(site)?.into_owned());
        let addresses = site.addresses.iter().filter(|address| address.scheme == Scheme::Https);
        let listens = listens(&acme, &ports);
        Some(OnDemandSite { hosts: addresses.map(|address| address.host.clone()).collect(), settings, acme, listens })
    };
    configuration.sites.iter().filter_map(of_site).collect()
}

/// Names of a site that are obtained before anybody asks for them.
fn names_of(site: &Site, acme: &Acme) -> impl Iterator<Item = String> {
    let is_asked_for = site.tls.acme.is_some();
    let has_dns = acme.dns.is_some();
    let is_on_demand = site.tls.on_demand.is_some();
    let addresses = site.addresses.iter().filter(move |address| address.scheme == Scheme::Https && !is_on_demand);
    let wanted = addresses.filter(move |address| is_asked_for || address.host.is_public());
    // A site that says itself how shares none.
    let shared = move |host: &HostPattern| acme.wildcard_of(host).filter(|_| !is_asked_for).map(str::to_owned);
    wanted.filter_map(move |address| match &address.host {
        host if shared(host).is_some() => shared(host),
        HostPattern::Any | HostPattern::Socket(_) => None,
        HostPattern::Exact(name) => Some(name.clone()),
        // Nobody can show it otherwise; `check` has said so.
        HostPattern::Wildcard(parent) | HostPattern::DeepWildcard(parent) => has_dns.then(|| format!("*.{parent}")),
        HostPattern::Ip(ip) => Some(ip.to_string()),
    })
}

fn ports_listened_on(configuration: &Configuration) -> HashSet<(ListenerProtocol, u16)> {
    // CAs come by the port that clients ask for.
    let ports = |(address, listening): (ListenAddress, Listening<'_>)| {
        let ports = [address.port(), listening.public_port];
        ports.into_iter().flatten().map(move |port| (listening.protocol, port))
    };
    listening(configuration).into_iter().flat_map(ports).collect()
}

pub(crate) fn listens(acme: &Acme, ports: &HashSet<(ListenerProtocol, u16)>) -> Listens {
    Listens {
        http: ports.contains(&(ListenerProtocol::Http, acme.http_port)),
        https: ports.contains(&(ListenerProtocol::Https, acme.https_port)),
    }
}

/// Puts an answer where workers look for it. On the engine's thread.
fn publish(process: &ProcessState, change: ChallengeChange) {
    let challenges = &process.challenges;
    match change {
        ChallengeChange::AddHttp { token, key_authorization } => challenges.add_http(token, &key_authorization),
        ChallengeChange::RemoveHttp { token } => challenges.remove_http(&token),
        ChallengeChange::AddTls { server_name, subject, digest } => match challenge_config(&certificate_name(&subject), digest) {
            Ok(config) => challenges.add_tls(server_name, config),
            Err(error) => tracing::error!(name = subject, %error, "the challenge cannot be answered"),
        },
        ChallengeChange::RemoveTls { server_name } => challenges.remove_tls(&server_name),
    }
}

fn certificate_name(subject: &str) -> CertificateName {
    subject.parse::<IpAddr>().map_or_else(|_| CertificateName::Dns(subject.to_owned()), CertificateName::Ip)
}

/// On the engine's thread.
fn keep(pairs: &ObtainedPairs, news: &News) {
    match news {
        News::Certificate(certificate) => pairs.put(&certificate.name, &certificate.bundle.0),
        News::Withdrawn { name, .. } => pairs.remove(name),
        News::Read
        | News::Failed { .. }
        | News::NotKept { .. }
        | News::Late { .. }
        | News::StorageFailed(_)
        | News::ClockWrong(_)
        | News::ClockJumped { .. } => {}
    }
}

/// Takes over what came, and says it. On the engine's thread.
fn hear(process: &ProcessState, obtained: &ObtainedCertificates, news: News) {
    match news {
        News::Certificate(certificate) => take_over(process, obtained, &certificate),
        News::Read => tracing::debug!("storage was read"),
        News::Failed { name, fault } => {
            process.registry.certificates().note_failed();
            tracing::warn!(name, cause = fault.cause, remedy = fault.remedy, "no certificate was obtained");
        }
        News::NotKept { name, fault } => {
            tracing::error!(name, cause = fault.cause, remedy = fault.remedy, "a certificate is not in storage");
        }
        News::Late { name, not_after } => {
            tracing::error!(name, %not_after, "a certificate ends soon and was not renewed; `tidegate cert show` says why");
        }
        News::Withdrawn { name, why } => {
            obtained.remove(&name);
            process.challenges.set_at_hand(&name, false);
            tracing::warn!(name, why, "a certificate is not used any more");
        }
        News::StorageFailed(fault) => {
            tracing::error!(cause = fault.cause, remedy = fault.remedy, "certificates cannot be kept, and none is obtained");
        }
        News::ClockWrong(fault) => {
            tracing::error!(
                cause = fault.cause,
                remedy = fault.remedy,
                "this machine's clock is wrong, and no certificate is obtained"
            );
        }
        News::ClockJumped { seconds } => tracing::warn!(seconds, "the clock jumped; times of renewals were reckoned anew"),
    }
}

fn take_over(process: &ProcessState, obtained: &ObtainedCertificates, certificate: &Certificate) {
    let Certificate { name, bundle, not_after, renew_at, directory, is_new, .. } = certificate;
    let origin = Path::new("storage").join(name);
    match LoadedCertificate::from_pem((&origin, bundle.0.as_bytes()), None) {
        Ok(loaded) => {
            obtained.put(name, loaded);
            if *is_new {
                process.registry.certificates().note_issued();
                let ca = directory.as_deref().unwrap_or_default();
                tracing::info!(name, %not_after, %renew_at, ca, "a certificate was obtained");
            } else {
                tracing::debug!(name, %not_after, %renew_at, "a certificate was read from storage");
            }
        }
        Err(error) => {
            tracing::error!(name, error = error.message(), help = error.help(), "a certificate from storage cannot be used");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CertificateUse, CertificateUses, wanted};
    use std::path::Path;
    use tidegate_config::load_text;

    #[test]
    fn which_names_are_obtained() {
        let check = |text: &str, expected: &str| {
            let loaded = load_text("test.kdl", text, Path::new("."));
            let configuration = loaded.configuration.unwrap_or_else(|| panic!("{text}: {:?}", loaded.diagnostics));
            let shown = |wanted: super::Wanted| {
                let ports = [(wanted.listens.http, "+80"), (wanted.listens.https, "+443")];
                let ports: String = ports.iter().filter(|(listens, _)| *listens).map(|(_, port)| *port).collect();
                format!("{}{ports}", wanted.name)
            };
            let seen: Vec<String> = wanted(&configuration).into_iter().map(shown).collect();
            assert_eq!(seen.join(" "), expected, "for {text}");
        };
        let site = |addresses: &str, tls: &str| format!("site {addresses} {{ tls {{ {tls}; }}; respond 200; }}\n");
        let plain = |addresses: &str| format!("site {addresses} {{ respond 200; }}\n");
        check(&plain("\"b.example.com\" \"a.example.com\""), "a.example.com+80+443 b.example.com+80+443");
        check(&plain("\"https://a.example.com\""), "a.example.com+443");
        check(&plain("\"https://a.example.com:8443\" \"http://a.example.com\""), "a.example.com+80");
        check(&plain("\"localhost\" \"10.0.0.1\" \"db.internal\" \":8443\" \"http://x.example.com\""), "");
        check(&plain("\"*.example.com\""), "");
        check(&site("\"*.example.com\"", "acme { dns \"exec\" command=\"/bin/true\"; }"), "*.example.com+80+443");
        check(&site("\"db.internal\" \"192.0.2.1:8443\"", "acme http-port=8080"), "192.0.2.1+443 db.internal+443");
        check(&site("\"*.example.com\"", "on-demand ask=\"http://127.0.0.1:1/\""), "");
        check(&format!("acme \"off\"\n{}", plain("\"a.example.com\"")), "");
        check(&format!("acme \"off\"\n{}", site("\"a.example.com\"", "acme")), "a.example.com+80+443");
        check("site \"a.example.com\" { tls \"internal\"; respond 200; }", "");
        let shared = "acme { dns \"exec\" command=\"/bin/true\"; wildcard \"*.Example.com\"; }\n";
        let below = plain("\"a.example.com\" \"b.example.com\" \"example.com\" \"x.a.example.com\" \"c.example.org\"");
        let own = "*.example.com+80+443 c.example.org+80+443 example.com+80+443 x.a.example.com+80+443";
        check(&format!("{shared}{below}"), own);
        check(&format!("{shared}{}", plain("\"*.example.com\" \"a.example.com\"")), "*.example.com+80+443");
        check(&format!("{shared}{}", plain("\"a.example.org\"")), "a.example.org+80+443");
        check(&format!("{shared}{}", site("\"a.example.com\"", "acme profile=\"shortlived\"")), "a.example.com+80+443");
        check(&format!("{}{}", plain("\"a.example.com\""), plain("\"a.example.com:8443\"")), "a.example.com+80+443");
    }

    #[test]
    fn what_a_configuration_does_with_a_certificate_of_storage() {
        let text = "site \"a.example.com\" \"db.internal\" \"http://plain.example.com\" { respond 200; }\n\
                    site \"b.example.com\" { tls \"internal\"; respond 200; }\n\
                    site \"*.example.org\" { tls { on-demand ask=\"http://127.0.0.1:1/\"; }; respond 200; }\n\
                    site \"*.example.net\" { tls { acme { dns \"exec\" command=\"/bin/true\"; }; }; respond 200; }";
        let loaded = load_text("test.kdl", text, Path::new("."));
        let configuration = loaded.configuration.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
        let uses = CertificateUses::of(&configuration);
        let check = |name: &str, expected: CertificateUse| assert_eq!(uses.use_of(name), expected, "for {name}");
        check("a.example.com", CertificateUse::Served);
        check("x.example.org", CertificateUse::Served);
        check("*.example.net", CertificateUse::Served);
        check("b.example.com", CertificateUse::FromElsewhere);
        check("db.internal", CertificateUse::FromElsewhere);
        check("plain.example.com", CertificateUse::None);
        check("www.example.net", CertificateUse::None);
        check("*.example.com", CertificateUse::None);
    }
}
