//! What holds, name by name, defaults included: for who asks the running process. What is written or was changed is
//! shown by the parent.

use crate::directives::pool::server;
use crate::directives::{self, access_log, admin, listener, map, pool, tcp, tls};
use crate::written_line::{Lines, effective};
use tidegate_model::{
    AccessLog, AdminEndpoint, Configuration, Filled, ListenerOptions, MapSettings, Pool, Route, RouteOptions, Server, Site, Step,
    Tcp,
};

/// A name and its value.
pub type Setting = (String, String);

/// What stands at the top level, but for sites, pools and what is listened on.
pub fn of_process(configuration: &Configuration) -> Vec<Setting> {
    effective(&configuration.filled, |lines| super::process(lines, configuration))
}

pub fn of_pool(pool: &Pool, filled: &Filled) -> Vec<Setting> {
    effective(filled, |lines| pool::write_settings(lines, pool))
}

pub fn of_server(server: &Server, filled: &Filled) -> Vec<Setting> {
    effective(filled, |lines| server::write(lines.line(), server))
}

pub fn of_listener(options: &ListenerOptions, filled: &Filled) -> Vec<Setting> {
    effective(filled, |lines| listener::write_options(lines, options))
}

/// What holds in a site for requests that no route takes.
pub fn of_site(site: &Site, filled: &Filled) -> Vec<Setting> {
    effective(filled, |lines| {
        lines.extend(site.origin.as_deref(), directives::origin::write);
        tls::write(lines, &site.tls);
        write_block(lines, &site.options.with_defaults(), &site.steps);
    })
}

/// With what the site says.
pub fn of_route(site: &Site, route: &Route, filled: &Filled) -> Vec<Setting> {
    let options = site.options.and(&route.options).with_defaults();
    effective(filled, |lines| {
        lines.extend(route.origin.as_ref().or(site.origin.as_ref()).map(|origin| &**origin), directives::origin::write);
        write_block(lines, &options, &site.steps);
        lines.extend(&route.steps, directives::write_step);
        directives::write_terminal(lines.line(), &route.terminal);
    })
}

fn write_block(lines: &mut Lines, options: &RouteOptions, steps: &[Step]) {
    directives::write_options(options, &mut |_, write| write(lines.line()));
    lines.extend(steps, directives::write_step);
}

/// To whom connections go.
pub fn of_tcp(tcp: &Tcp, filled: &Filled) -> Vec<Setting> {
    effective(filled, |lines| {
        for route in &tcp.by_name {
            let line = lines.line();
            line.name("sni").arguments(&route.names);
            line.block([&route.to], tcp::write_target);
        }
        lines.extend(&tcp.otherwise, tcp::write_target);
    })
}

pub fn of_map(map: &MapSettings, filled: &Filled) -> Vec<Setting> {
    effective(filled, |lines| map::write(lines.line(), map))
}

pub fn of_admin(endpoint: &AdminEndpoint, filled: &Filled) -> Vec<Setting> {
    effective(filled, |lines| admin::write_endpoint(lines.line().name("admin"), endpoint))
}

pub fn of_access_log(log: &AccessLog, filled: &Filled) -> Vec<Setting> {
    effective(filled, |lines| access_log::write_log(lines.line().name("access-log"), log))
}

/// The target of an access log as it is written.
pub fn target_of(log: &AccessLog, filled: &Filled) -> String {
    let written = of_access_log(log, filled);
    written.into_iter().find(|(name, _)| name == "access-log").map(|(_, target)| target).unwrap_or_default()
}
