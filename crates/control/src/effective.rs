//! What holds of a configuration, defaults included, as data of the API. What is written is in `edit`.

use std::path::Path;
use tidegate_api::{Effective, EffectivePart, EffectiveWhole, Setting};
use tidegate_config::writing::effective as written;
use tidegate_model::listening::{listener_options, listening};
use tidegate_model::{Configuration, Pool, Site};

pub(crate) fn of(configuration: &Configuration, state_dir: &Path) -> Effective {
    let filled = &configuration.filled;
    let part = |name: String, found: Vec<written::Setting>| EffectivePart { name, settings: settings(found) };
    let listeners = listening(configuration).into_keys();
    let admin = configuration.admin.endpoints(state_dir);
    let logs = configuration.access_logs.iter();
    Effective {
        settings: settings(written::of_process(configuration)),
        pools: configuration.pools.iter().map(|pool| of_pool(pool, configuration)).collect(),
        sites: configuration.sites.iter().map(|site| of_site(site, configuration)).collect(),
        listeners: listeners
            .map(|address| part(address.shown(), written::of_listener(&listener_options(configuration, address), filled)))
            .collect(),
        tcp: configuration.tcp.iter().map(|tcp| part(tcp.listen_address().shown(), written::of_tcp(tcp, filled))).collect(),
        maps: configuration.maps.iter().map(|map| part(map.name.clone(), written::of_map(map, filled))).collect(),
        admin: admin.iter().map(|endpoint| part(endpoint.place.to_string(), written::of_admin(endpoint, filled))).collect(),
        access_logs: logs.map(|log| part(written::target_of(log, filled), written::of_access_log(log, filled))).collect(),
    }
}

fn of_pool(pool: &Pool, configuration: &Configuration) -> EffectiveWhole {
    let filled = &configuration.filled;
    let servers = pool
        .servers
        .iter()
        .map(|server| EffectivePart { name: server.address.to_string(), settings: settings(written::of_server(server, filled)) });
    let (name, parts) = (pool.name.0.to_string(), servers.collect());
    EffectiveWhole { name, settings: settings(written::of_pool(pool, filled)), parts }
}

/// Routes are called by their position, from 0.
fn of_site(site: &Site, configuration: &Configuration) -> EffectiveWhole {
    let filled = &configuration.filled;
    let routes = site.routes.iter().enumerate().map(|(position, route)| EffectivePart {
        name: position.to_string(),
        settings: settings(written::of_route(site, route, filled)),
    });
    let (name, parts) = (site.addresses[0].to_string(), routes.collect());
    EffectiveWhole { name, settings: settings(written::of_site(site, filled)), parts }
}

fn settings(found: Vec<written::Setting>) -> Vec<Setting> {
    found.into_iter().map(|(name, value)| Setting { name: name.into(), value }).collect()
}
