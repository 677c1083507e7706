//! How certificates are obtained and where they are kept, in words. Secrets are never part of them.

use super::{setting, yes_or_no};
use tidegate_api::Setting;
use tidegate_config::writing::{joined, name_of, show_duration};
use tidegate_model::{Acme, AcmeAuthority, AcmeChanges, AcmeDns, AcmeKeyType, OnDemand, RedisAddress, Storage, Tls};

/// `acme` of the process, spelled out.
pub fn acme(acme: Option<&Acme>) -> String {
    let Some(acme) = acme else { return "off".to_owned() };
    let Acme { authorities, email, challenges, dns, profile, key_type, http_port, https_port, preflight } = acme;
    let mut words = vec![self::authorities(authorities)];
    words.extend(email.as_ref().map(|email| format!("email={email}")));
    if !challenges.is_empty() {
        words.push(format!("challenges={}", joined(challenges, ToString::to_string)));
    }
    words.extend(dns.as_ref().map(self::dns));
    words.extend(profile.as_ref().map(|profile| format!("profile={profile}")));
    words.push(format!("key-type={}", self::key_type(*key_type)));
    words.push(format!("ports={http_port},{https_port}"));
    words.push(format!("preflight={}", yes_or_no(*preflight)));
    words.join(" ")
}

/// What a site says of it beside the process.
pub fn of_site(tls: &Tls) -> [Setting; 2] {
    [
        setting("tls acme", tls.acme.as_deref().map_or_else(|| "as for the process".to_owned(), changes)),
        setting("tls on-demand", tls.on_demand.as_ref().map_or_else(|| "no".to_owned(), on_demand)),
    ]
}

fn changes(changes: &AcmeChanges) -> String {
    let AcmeChanges { authorities, email, challenges, dns, profile, key_type, http_port, https_port, preflight } = changes;
    let mut words = Vec::new();
    if !authorities.is_empty() {
        words.push(self::authorities(authorities));
    }
    words.extend(email.as_ref().map(|email| format!("email={email}")));
    if !challenges.is_empty() {
        words.push(format!("challenges={}", joined(challenges, ToString::to_string)));
    }
    words.extend(dns.as_ref().map(self::dns));
    words.extend(profile.as_ref().map(|profile| format!("profile={profile}")));
    words.extend(key_type.map(|key_type| format!("key-type={}", self::key_type(key_type))));
    words.extend(http_port.map(|port| format!("http-port={port}")));
    words.extend(https_port.map(|port| format!("https-port={port}")));
    words.extend(preflight.map(|preflight| format!("preflight={}", yes_or_no(preflight))));
    if words.is_empty() { "yes".to_owned() } else { words.join(" ") }
}

fn authorities(authorities: &[AcmeAuthority]) -> String {
    let one = |authority: &AcmeAuthority| {
        let account =
            authority.external_account.as_ref().map_or_else(String::new, |account| format!(" eab-key-id={}", account.key_id));
        let root = authority.root.as_ref().map_or_else(String::new, |root| format!(" root={}", root.display()));
        let staging = authority.staging.as_ref().map_or_else(String::new, |staging| format!(" staging={staging}"));
        format!("{}{account}{root}{staging}", authority.name)
    };
    format!("ca={}", authorities.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn dns(dns: &AcmeDns) -> String {
    let resolver = dns.resolver.map_or_else(String::new, |resolver| format!(" resolver={resolver}"));
    format!("dns={} propagation={}{resolver}", dns.provider.kind(), show_duration(dns.propagation))
}

fn key_type(key_type: AcmeKeyType) -> &'static str {
    name_of(AcmeKeyType::NAMES, &key_type)
}

fn on_demand(on_demand: &OnDemand) -> String {
    let OnDemand { ask, names_per_hour, wait } = on_demand;
    format!("ask={ask} names-per-hour={names_per_hour} wait={}", show_duration(*wait))
}

pub fn storage(storage: &Storage) -> String {
    match storage {
        Storage::State => "the state folder".to_owned(),
        Storage::Folder(path) => path.display().to_string(),
        Storage::Redis(redis) => {
            let user = redis.username.as_ref().map_or_else(String::new, |user| format!("{user}@"));
            let url = match &redis.address {
                RedisAddress::Tcp { host, port } => format!("redis://{user}{host}:{port}/{}", redis.database),
                RedisAddress::Tls { host, port, root } => {
                    let root = root.as_ref().map_or_else(String::new, |root| format!(" root={}", root.display()));
                    format!("rediss://{user}{host}:{port}/{}{root}", redis.database)
                }
                RedisAddress::Unix(path) => format!("redis+unix://{}", path.display()),
            };
            format!("{url} prefix={}", redis.prefix)
        }
        Storage::Kubernetes(kubernetes) => {
            let namespace = kubernetes.namespace.as_ref().map_or_else(String::new, |namespace| format!(" namespace={namespace}"));
            format!("kubernetes{namespace} prefix={}", kubernetes.prefix)
        }
    }
}
