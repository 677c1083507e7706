//! What the ConfigMap says of listeners, logs and limits: of the process, and of no Ingress. It holds where the
//! configuration file says nothing of the same.

use super::log_format::template;
use super::reading::{ConfigReading, field};
use crate::annotations::is_token;
use crate::finding::{Finding, FindingCode, Severity};
use crate::settings::Settings;
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;
use tidegate_model::listening::{client_ip_header, proxy_protocol_from, trusted_proxies};
use tidegate_model::{
    AccessLog, AccessLogFormat, Configuration, Limits, ListenAddress, ListenerOptions, ListenerPlace, Log, LogLevel, LogTarget,
    SocketAccess,
};

const FORWARDED_FOR: &str = "X-Forwarded-For";

/// What it asks for. `None` and empty: nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProcessDefaults {
    pub trusted: Vec<IpNet>,
    /// Whether these are believed by which scheme a client has come.
    pub trusts_scheme: bool,
    pub client_ip_header: Option<String>,
    pub proxy_protocol_from: Vec<IpNet>,
    pub access_log: Option<LogWish>,
    pub keep_alive: Option<Duration>,
    pub header_timeout: Option<Duration>,
    pub h2_streams: Option<u32>,
    pub log_level: Option<LogLevel>,
    /// Whether TCP services may be protected by lines that are not read.
    pub refuses_tcp: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum LogWish {
    /// No lines of requests.
    Off,
    Format(AccessLogFormat),
}

/// What is otherwise than a configuration file has it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProcessChanges {
    /// Beside those of the file.
    pub listeners: Vec<ListenerOptions>,
    /// In the place of those of the file, as what stands below is.
    pub access_logs: Option<Vec<AccessLog>>,
    pub limits: Option<Limits>,
    pub log: Option<Log>,
}

impl ProcessChanges {
    pub fn apply(&self, configuration: &mut Configuration) {
        configuration.listeners.extend(self.listeners.iter().cloned());
        if let Some(logs) = &self.access_logs {
            configuration.access_logs.clone_from(logs);
        }
        if let Some(limits) = &self.limits {
            configuration.limits = *limits;
        }
        if let Some(log) = &self.log {
            configuration.log = log.clone();
        }
    }
}

pub(super) fn read(reading: &mut ConfigReading<'_>) {
    read_peers(reading);
    let is_off = reading.switch("disable-access-log") == Some(true) || reading.switch("disable-http-access-log") == Some(true);
    let format = reading.text("log-format-upstream").and_then(|text| match template(text) {
        Ok(template) => Some(AccessLogFormat::Template(template)),
        Err(variable) => {
            let message =
                format!("the variable `{variable}` is not known in lines of the log, which are JSON with all that is known");
            reading.leave_out_open("log-format-upstream", message);
            None
        }
    });
    reading.process.access_log = if is_off { Some(LogWish::Off) } else { format.map(LogWish::Format) };
    reading.process.keep_alive = reading.time("keep-alive", Duration::from_hours(24));
    reading.process.header_timeout = reading.time("client-header-timeout", Duration::from_hours(1));
    const STREAMS: &str = "it is a number of streams, from 1 to 10000";
    reading.process.h2_streams =
        reading.number("http2-max-concurrent-streams", STREAMS, |streams| (1..=10_000).contains(streams));
    reading.process.log_level = reading.text("error-log-level").and_then(|level| match level {
        "debug" => Some(LogLevel::Debug),
        "info" | "notice" => Some(LogLevel::Info),
        "warn" => Some(LogLevel::Warn),
        "error" | "crit" | "alert" | "emerg" => Some(LogLevel::Error),
        _ => {
            reading.leave_out("error-log-level", "it is `debug`, `info`, `notice`, `warn`, `error`, `crit`, `alert` or `emerg`");
            None
        }
    });
}

/// Who is believed where clients are. What cannot be read shuts: lists of networks would be compared with the addresses
/// of balancers.
fn read_peers(reading: &mut ConfigReading<'_>) {
    const NETWORKS: &str = "proxy-real-ip-cidr";
    const HEADER: &str = "forwarded-for-header";
    let uses_forwarded = reading.switch("use-forwarded-headers") == Some(true);
    let uses_protocol = reading.switch("use-proxy-protocol") == Some(true);
    let uses_real_ip = reading.switch("enable-real-ip") == Some(true);
    if !(uses_forwarded || uses_protocol || uses_real_ip) {
        return;
    }
    let networks = match reading.networks(NETWORKS) {
        Some(Ok(networks)) => networks,
        // As by ingress-nginx.
        None => vec![IpNet::V4(ipnet::Ipv4Net::default())],
        Some(Err(wrong)) => {
            let wrong: String = wrong.chars().filter(|c| !c.is_control()).take(80).collect();
            return reading.shut(NETWORKS, &format!("`{wrong}` is not a network: write one, as in `10.0.0.0/8`"));
        }
    };
    let header = reading.text(HEADER).unwrap_or(FORWARDED_FOR);
    if !is_token(header) {
        return reading.shut(HEADER, "it is the name of a field, as in `X-Forwarded-For`: write one, or remove it");
    }
    let process = &mut reading.process;
    process.trusts_scheme = uses_forwarded;
    if uses_forwarded || uses_real_ip && !uses_protocol {
        process.trusted.clone_from(&networks);
        process.client_ip_header = Some(header.to_owned()).filter(|header| !header.eq_ignore_ascii_case(FORWARDED_FOR));
    }
    if uses_protocol {
        process.proxy_protocol_from = networks;
    }
}

impl ProcessDefaults {
    /// What of it holds beside the file, and what contradicts it.
    pub fn beside(&self, file: &Configuration, settings: &Settings) -> (ProcessChanges, Vec<Finding>) {
        let mut contradictions = BTreeSet::new();
        let places = [settings.http, settings.https].into_iter().flatten();
        let listeners = places.filter_map(|place| self.listener(file, place, &mut contradictions)).collect();
        let changes = ProcessChanges {
            listeners,
            access_logs: self.access_logs(file, &mut contradictions),
            limits: self.limits(file, &mut contradictions),
            log: self.log(file, &mut contradictions),
        };
        let finding = |(key, word): (&str, &str)| Finding {
            field: field(key),
            code: FindingCode::SettingNotTaken,
            severity: Severity::Warning,
            message: format!("the configuration file of the proxy says something else by `{word}`, and that holds"),
        };
        (changes, contradictions.into_iter().map(finding).collect())
    }

    fn listener(
        &self,
        file: &Configuration,
        place: SocketAddr,
        contradictions: &mut BTreeSet<(&'static str, &'static str)>,
    ) -> Option<ListenerOptions> {
        let address = ListenAddress::Tcp(place);
        let mut of_list = |wanted: &[IpNet], said: Vec<IpNet>, key: &'static str, word: &'static str| {
            let is_other = !said.is_empty() && said.iter().collect::<BTreeSet<_>>() != wanted.iter().collect();
            if is_other && !wanted.is_empty() {
                contradictions.insert((key, word));
            }
            if said.is_empty() { wanted.to_vec() } else { Vec::new() }
        };
        let trusted = trusted_proxies(file, address);
        let trusted_proxies = of_list(&self.trusted, trusted, "proxy-real-ip-cidr", "trusted-proxies");
        let said = proxy_protocol_from(file, address);
        let proxy_protocol_from = of_list(&self.proxy_protocol_from, said, "use-proxy-protocol", "accept-proxy-protocol");
        let header = match (client_ip_header(file, address), &self.client_ip_header) {
            (Some(said), Some(wanted)) if !said.eq_ignore_ascii_case(wanted) => {
                contradictions.insert(("forwarded-for-header", "client-ip-header"));
                None
            }
            (Some(_), _) => None,
            (None, wanted) => wanted.clone().filter(|_| !trusted_proxies.is_empty()),
        };
        let is_any = !trusted_proxies.is_empty() || !proxy_protocol_from.is_empty();
        let ip = Some(place.ip()).filter(|ip| !ip.is_unspecified());
        is_any.then(|| ListenerOptions {
            place: ListenerPlace::Tcp { ip, port: place.port() },
            access: SocketAccess::default(),
            trusted_proxies,
            client_ip_header: header,
            proxy_protocol_from,
            websocket_over_http2: true,
        })
    }

    fn access_logs(
        &self,
        file: &Configuration,
        contradictions: &mut BTreeSet<(&'static str, &'static str)>,
    ) -> Option<Vec<AccessLog>> {
        let wanted = match self.access_log.as_ref()? {
            LogWish::Off => Vec::new(),
            LogWish::Format(format) => {
                vec![AccessLog { target: LogTarget::Stdout, format: format.clone(), ..AccessLog::default() }]
            }
        };
        if file.access_logs == [AccessLog::default()] {
            return Some(wanted);
        }
        if file.access_logs != wanted {
            let key = if wanted.is_empty() { "disable-access-log" } else { "log-format-upstream" };
            contradictions.insert((key, "access-log"));
        }
        None
    }

    fn limits(&self, file: &Configuration, contradictions: &mut BTreeSet<(&'static str, &'static str)>) -> Option<Limits> {
        let usual = Limits::default();
        let mut limits = file.limits;
        let mut take = |is_usual: bool, is_same: bool, key: &'static str, word: &'static str| {
            if !is_usual && !is_same {
                contradictions.insert((key, word));
            }
            is_usual
        };
        if let Some(wanted) = self.keep_alive {
            let said = file.limits.keep_alive;
            if take(said == usual.keep_alive, said == wanted, "keep-alive", "keep-alive") {
                limits.keep_alive = wanted;
            }
        }
        if let Some(wanted) = self.header_timeout {
            let said = file.limits.header_timeout;
            if take(said == usual.header_timeout, said == wanted, "client-header-timeout", "header-timeout") {
                limits.header_timeout = wanted;
            }
        }
        if let Some(wanted) = self.h2_streams {
            let said = file.limits.h2_streams;
            if take(said == usual.h2_streams, said == wanted, "http2-max-concurrent-streams", "h2-streams") {
                limits.h2_streams = wanted;
            }
        }
        (limits != file.limits).then_some(limits)
    }

    fn log(&self, file: &Configuration, contradictions: &mut BTreeSet<(&'static str, &'static str)>) -> Option<Log> {
        let wanted = Log { level: self.log_level? };
        if file.log == Log::default() {
            return Some(wanted).filter(|wanted| *wanted != file.log);
        }
        if file.log != wanted {
            contradictions.insert(("error-log-level", "log"));
        }
        None
    }
}
