//! What holds of one part of the configuration, or of all of a kind, found in what holds of the whole. Who asks is in
//! `configuration`.

use serde_json::{Value, json};
use tidegate_api::{Effective, EffectivePart, EffectiveWhole, Setting};
use tidegate_config::{List, Target};

/// What holds of a part; `None` where there is no such part.
pub fn effective_part(effective: Effective, target: &Target) -> Option<Vec<Setting>> {
    let Effective { settings, pools, sites, listeners, tcp, maps, admin, access_logs } = effective;
    let of_part = |parts: Vec<EffectivePart>, name: &str, scheme: &str| {
        let whole = format!("{scheme}{name}");
        parts.into_iter().find(|part| part.name == name || part.name == whole).map(|part| part.settings)
    };
    match target {
        Target::Pool { name } => of_whole(pools, name, "").map(|pool| pool.settings),
        Target::Server { pool, address } => of_part(of_whole(pools, pool, "")?.parts, address, "http://"),
        Target::Site { address } => of_whole(sites, address, "https://").map(|site| site.settings),
        Target::Route { site, index } => of_part(of_whole(sites, site, "https://")?.parts, &index.to_string(), ""),
        Target::Listener { address } => of_part(listeners, address, ""),
        Target::Tcp { address } => of_part(tcp, address, ""),
        Target::Map { name } => of_part(maps, name, ""),
        Target::Admin { address } => of_part(admin, address, ""),
        Target::AccessLog { target } => of_part(access_logs, target, ""),
        Target::Top { directive } => {
            let within = format!("{directive} ");
            let is_of = |setting: &Setting| setting.name == *directive || setting.name.starts_with(&within);
            Some(settings.into_iter().filter(is_of).collect())
        }
    }
}

/// What holds of all parts of a kind, in their order; `None` where what they are in is not there.
pub fn effective_list(effective: Effective, list: &List) -> Option<Value> {
    let Effective { settings: _, pools, sites, listeners, tcp, maps, admin, access_logs } = effective;
    Some(match list {
        List::Sites => json!(sites),
        List::Routes { site } => json!(of_whole(sites, site, "https://")?.parts),
        List::Pools => json!(pools),
        List::Servers { pool } => json!(of_whole(pools, pool, "")?.parts),
        List::Listeners => json!(listeners),
        List::Tcp => json!(tcp),
        List::Maps => json!(maps),
        List::Admin => json!(admin),
        List::AccessLogs => json!(access_logs),
    })
}

fn of_whole(wholes: Vec<EffectiveWhole>, name: &str, scheme: &str) -> Option<EffectiveWhole> {
    let whole = format!("{scheme}{name}");
    wholes.into_iter().find(|part| part.name == name || part.name == whole)
}

/// Routes within a route are routes of their own in what runs, so that positions are others than in the file.
pub fn has_routes_within(site: &Value) -> bool {
    let routes_of = |part: &Value| -> Vec<Value> {
        let steps = part["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
        steps.iter().filter_map(|step| step.get("route").cloned()).collect()
    };
    routes_of(site).iter().any(|route| !routes_of(route).is_empty())
}
