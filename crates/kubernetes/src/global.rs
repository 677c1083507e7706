//! What ConfigMaps say for all Ingresses: the one of ingress-nginx, those that it names, and those of TCP services. It
//! holds for as long as nothing else is known: a map that goes takes nothing away from a process that has seen it.

use crate::class::ClassOf;
use crate::config_map::{KnownConfigMap, MapAbsence};
use crate::defaults::Defaults;
use crate::finding::{Finding, FindingCode, Severity};
use crate::header_map::{HeaderMapForm, fields};
use crate::ingress_nginx::{self, ConfigReading, ProcessDefaults, field};
use crate::settings::Settings;
use crate::tcp_services::{self, TcpService};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_cluster::{ConfigMap, Key};
use tidegate_model::KeepAlive;

/// Watches of several kinds are in no order: what an object begins to refer to may be known a moment later than the
/// object. For so long it means what it meant before.
pub const WAITS_MAX: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct Global {
    /// Of Ingresses of our own classes, where there is no ConfigMap.
    own: Arc<Defaults>,
    /// Of those of ingress-nginx, and of all where there is one.
    of_ingress_nginx: Arc<Defaults>,
    /// What is to hold as soon as the ConfigMaps are known that it names, and since when.
    pending: Option<(Arc<Defaults>, Option<Instant>)>,
    pub process: ProcessDefaults,
    pub keep_alive: KeepAlive,
    /// By port.
    pub tcp: BTreeMap<u16, TcpService>,
    /// What was read last.
    read_from: Option<Arc<ConfigMap>>,
    tcp_read_from: Option<Arc<ConfigMap>>,
    of_config: Vec<Finding>,
    of_tcp: Vec<Finding>,
}

/// What became of looking at the ConfigMaps.
#[derive(Debug, Default)]
pub struct GlobalChange {
    /// Something else is to hold for all Ingresses.
    pub defaults: bool,
    pub keep_alive: bool,
    /// Services that TCP connections go to.
    pub tcp: bool,
}

impl Global {
    pub fn new(settings: &Settings) -> Global {
        let is_named = settings.ingress_nginx_config.is_some();
        Global {
            own: Arc::default(),
            of_ingress_nginx: Arc::new(Defaults { is_shut: is_named, ..Defaults::of_ingress_nginx() }),
            pending: None,
            process: ProcessDefaults::default(),
            keep_alive: KeepAlive::default(),
            tcp: BTreeMap::new(),
            read_from: None,
            tcp_read_from: None,
            of_config: Vec::new(),
            of_tcp: Vec::new(),
        }
    }

    /// What holds for Ingresses of the class.
    pub fn defaults(&self, class: ClassOf, settings: &Settings) -> &Arc<Defaults> {
        match class {
            ClassOf::Tidegate if settings.ingress_nginx_config.is_none() => &self.own,
            ClassOf::Tidegate | ClassOf::IngressNginx => &self.of_ingress_nginx,
        }
    }

    /// What holds where no Ingress is.
    pub fn of_nobody(&self, settings: &Settings) -> &Arc<Defaults> {
        self.defaults(ClassOf::Tidegate, settings)
    }

    /// ConfigMaps that are wanted whatever Ingresses say.
    pub fn wanted(&self, settings: &Settings) -> BTreeSet<Key> {
        let named = settings.ingress_nginx_config.iter().chain(&settings.tcp_services).chain(&settings.udp_services);
        let of_pending = self.pending.iter().flat_map(|(defaults, _)| defaults.config_maps());
        named.chain(self.of_ingress_nginx.config_maps()).chain(of_pending).cloned().collect()
    }

    /// Whether the ConfigMap has fields of all requests or answers.
    pub fn has_fields_in(&self, key: &Key) -> bool {
        self.of_ingress_nginx.config_maps().any(|known| known == key)
    }

    /// What the ConfigMaps say now. `since` is when that was heard; `None`: whoever looks knows everything.
    pub fn look_at(&mut self, settings: &Settings, maps: &BTreeMap<Key, KnownConfigMap>, since: Option<Instant>) -> GlobalChange {
        let mut change = GlobalChange::default();
        if let Some(known) = settings.ingress_nginx_config.as_ref().and_then(|key| maps.get(key))
            && let Some(map) = known.held().filter(|map| self.read_from.as_ref() != Some(map))
        {
            let ConfigReading { defaults, process, keep_alive, findings, .. } = ingress_nginx::read(map);
            change.defaults = true;
            self.pending = Some((Arc::new(defaults), since));
            change.keep_alive = keep_alive != self.keep_alive;
            (self.process, self.keep_alive, self.of_config) = (process, keep_alive, findings);
            self.read_from = Some(map.clone());
        }
        if let Some(known) = settings.tcp_services.as_ref().and_then(|key| maps.get(key))
            && let Some(map) = known.held().filter(|map| self.tcp_read_from.as_ref() != Some(map))
        {
            let (tcp, findings) = tcp_services::read(map);
            change.tcp = tcp != self.tcp;
            (self.tcp, self.of_tcp) = (tcp, findings);
            self.tcp_read_from = Some(map.clone());
        }
        change
    }

    /// Has what is to hold be in force, once the ConfigMaps that it names are known, or it has waited for too long.
    /// Gives whether it is so now.
    pub fn put_in_force(&mut self, maps: &BTreeMap<Key, KnownConfigMap>, now: Instant) -> bool {
        let is_known = |key: &Key| maps.get(key).is_some_and(|known| known.content(key).is_some());
        let is_due = |(defaults, since): &mut (Arc<Defaults>, Option<Instant>)| {
            since.is_none_or(|since| now >= since + WAITS_MAX) || defaults.config_maps().all(is_known)
        };
        let Some((defaults, _)) = self.pending.take_if(is_due) else { return false };
        let differs = defaults != self.of_ingress_nginx;
        if differs {
            self.of_ingress_nginx = defaults;
        }
        differs
    }

    /// When what is to hold has waited for too long.
    pub fn due_at(&self) -> Option<Instant> {
        let (_, since) = self.pending.as_ref()?;
        since.map(|since| since + WAITS_MAX)
    }

    /// What is to be said of ConfigMaps, whatever a file says.
    pub fn findings(&self, settings: &Settings, maps: &BTreeMap<Key, KnownConfigMap>) -> Vec<(Key, Finding)> {
        let mut said: Vec<(Key, Finding)> = Vec::new();
        if let Some(key) = &settings.ingress_nginx_config {
            let stays = match &self.read_from {
                Some(_) => ("what it said last holds", Severity::Warning),
                None => ("everything of all Ingresses is answered with 503", Severity::Error),
            };
            said.extend(absence(key, maps, stays).map(|finding| (key.clone(), finding)));
            said.extend(self.of_config.iter().map(|finding| (key.clone(), finding.clone())));
            said.extend(self.of_fields(maps).into_iter().map(|finding| (key.clone(), finding)));
        }
        if let Some(key) = &settings.tcp_services {
            let stays = match &self.tcp_read_from {
                Some(_) => ("its ports are served as it said last", Severity::Warning),
                None => ("no TCP service is served", Severity::Error),
            };
            said.extend(absence(key, maps, stays).map(|finding| (key.clone(), finding)));
            said.extend(self.of_tcp.iter().map(|finding| (key.clone(), finding.clone())));
        }
        if let Some(key) = &settings.udp_services {
            let ports = maps.get(key).and_then(|known| known.held()).into_iter().flat_map(|map| map.data.keys());
            said.extend(ports.map(|port| {
                let message = "UDP is not served".to_owned();
                let finding = Finding { field: field(port), code: FindingCode::PortRefused, severity: Severity::Error, message };
                (key.clone(), finding)
            }));
        }
        said
    }

    /// ConfigMaps with fields that cannot be used.
    fn of_fields(&self, maps: &BTreeMap<Key, KnownConfigMap>) -> Vec<Finding> {
        let problem = |key: &Key, form: HeaderMapForm| fields(maps, key, form)?.err();
        let defaults = &self.of_ingress_nginx;
        let of_requests = defaults.request_headers.as_ref().and_then(|key| problem(key, HeaderMapForm::OfRequests));
        let of_answers = defaults.sites.answer_headers.as_ref().and_then(|key| problem(key, HeaderMapForm::OfAnswers));
        let of_requests = of_requests.map(|problem| Finding {
            field: field("proxy-set-headers"),
            code: FindingCode::ProtectionUnavailable,
            severity: Severity::Error,
            message: format!("{problem}; until then everything of all Ingresses is answered with 503"),
        });
        let of_answers = of_answers.map(|problem| Finding {
            field: field("add-headers"),
            code: FindingCode::SettingInvalid,
            severity: Severity::Warning,
            message: format!("answers have none of these fields: {problem}"),
        });
        of_requests.into_iter().chain(of_answers).collect()
    }
}

fn absence(key: &Key, maps: &BTreeMap<Key, KnownConfigMap>, (stays, severity): (&str, Severity)) -> Option<Finding> {
    let absence = maps.get(key)?.absence()?;
    let code = match absence {
        MapAbsence::Missing => FindingCode::ConfigMapMissing,
        MapAbsence::Unavailable(_) => FindingCode::ConfigMapUnavailable,
    };
    Some(Finding {
        field: "metadata".to_owned(),
        code,
        severity,
        message: format!("{}; until then {stays}", absence.sentence(key)),
    })
}
