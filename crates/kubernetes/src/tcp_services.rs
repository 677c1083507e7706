//! The ConfigMap whose keys are ports and whose texts are Services: `9000: "shop/db:5432:PROXY:PROXY"`.

use crate::finding::{Finding, FindingCode, Severity};
use crate::ingress_names::{is_label, is_object_name};
use crate::ingress_nginx::field;
use crate::pool_manner::PoolManner;
use crate::reference::{ServiceAtPort, Spoken};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_cluster::{ConfigMap, Key, PortReference};

/// As many as a process has listeners for, and more than a cluster has ports for.
const PORTS_MAX: usize = 1000;

/// Where connections of a port go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpService {
    pub to: ServiceAtPort,
    /// Whether each connection begins with a header of the PROXY protocol.
    pub is_behind_proxy: bool,
}

/// By port. What cannot be read is not served, and named.
pub fn read(map: &ConfigMap) -> (BTreeMap<u16, TcpService>, Vec<Finding>) {
    let (mut services, mut findings) = (BTreeMap::new(), Vec::new());
    for (name, text) in &map.data {
        let read = match name.parse::<u16>().ok().filter(|port| *port != 0) {
            _ if services.len() >= PORTS_MAX => Err(format!("there are more than {PORTS_MAX} ports")),
            Some(port) => service(text.trim()).map(|service| (port, service)),
            None => Err("it is no port, from 1 to 65535".to_owned()),
        };
        match read {
            Ok((port, service)) => _ = services.insert(port, service),
            Err(message) => findings.push(Finding {
                field: field(name),
                code: FindingCode::PortRefused,
                severity: Severity::Error,
                message: format!("{message}: this port is not served"),
            }),
        }
    }
    (services, findings)
}

fn service(text: &str) -> Result<TcpService, String> {
    const FORM: &str = "it is a Service and its port, as in `shop/db:5432`, or `shop/db:5432:PROXY:PROXY`";
    let words: Vec<&str> = text.split(':').collect();
    let [service, port, rest @ ..] = &words[..] else { return Err(FORM.to_owned()) };
    let is_protocol = |word: Option<&&str>| match word {
        None | Some(&"") => Ok(false),
        Some(word) if word.eq_ignore_ascii_case("PROXY") => Ok(true),
        Some(_) => Err(FORM.to_owned()),
    };
    if rest.len() > 2 {
        return Err(FORM.to_owned());
    }
    let (is_behind_proxy, sends) = (is_protocol(rest.first())?, is_protocol(rest.get(1))?);
    let (namespace, name) =
        service.split_once('/').filter(|(namespace, name)| is_object_name(namespace) && is_label(name)).ok_or(FORM)?;
    let port = match port.parse::<u16>() {
        Ok(0) => return Err(FORM.to_owned()),
        Ok(number) => PortReference::Number(number),
        Err(_) if is_label(port) => PortReference::Name((*port).into()),
        Err(_) => return Err(FORM.to_owned()),
    };
    let spoken = Some(if sends { Spoken::TcpBehindHeader } else { Spoken::Tcp });
    let manner = Some(Arc::new(PoolManner { spoken, ..PoolManner::default() }));
    Ok(TcpService { to: ServiceAtPort { service: Key::new(namespace, name), port, manner }, is_behind_proxy })
}

#[cfg(test)]
mod tests {
    use super::service;

    #[test]
    fn texts_are_services() {
        let check = |text: &str, expected: Option<(&str, bool)>| {
            let seen = service(text).ok().map(|service| (service.to.to_string(), service.is_behind_proxy));
            assert_eq!(seen.as_ref().map(|(name, is)| (&**name, *is)), expected, "{text}");
        };
        check("shop/db:5432", Some(("shop/db:5432#tcp", false)));
        check("shop/db:sql", Some(("shop/db:sql#tcp", false)));
        check("shop/db:5432:PROXY", Some(("shop/db:5432#tcp", true)));
        check("shop/db:5432::PROXY", Some(("shop/db:5432#tcp-proxy", false)));
        check("shop/db:5432:PROXY:proxy", Some(("shop/db:5432#tcp-proxy", true)));
        check("db:5432", None);
        check("shop/db", None);
        check("shop/db:0", None);
        check("shop/db:5432:TLS", None);
        check("shop/db:5432:PROXY:PROXY:PROXY", None);
        check("", None);
    }
}
