//! Access logs of Envoy, as lines for the sites of a connection manager.

use crate::accounts::Origin;
use crate::outline::OutlinedSetting;
use crate::site_logs::STDOUT;
use crate::tree::Tree;
use tidegate_kdl::quoted;

const AS_JSON: &str = "lines are JSON with fields of ours: `format=` of `access-log` is `common`, or a template";
const ALL_LINES: &str = "all requests have a line: `status=\"500-599\"` and `slower-than=\"1s\"` of `access-log` say which have, and `log` of a route";

/// The logs of a connection manager that go into files, or anywhere.
pub fn of(manager: &Tree, origin: &mut Origin) -> Vec<OutlinedSetting> {
    let mut logs = Vec::new();
    for log in manager.get("access_log").items() {
        let settings = [log.get("typed_config"), log.get("config")].into_iter().find(|one| !one.is_nothing()).unwrap_or(log);
        let kind = format!("{:?} {:?}", log.get("name").text(), settings.get("@type").text()).to_ascii_lowercase();
        let path = settings.get("path");
        let line = match path.text() {
            Some("/dev/stdout") => STDOUT.to_owned(),
            Some("/dev/stderr") => "access-log \"stderr\"".to_owned(),
            Some(file) => format!("access-log {}", quoted(file)),
            None if kind.contains("stdout") => STDOUT.to_owned(),
            None if kind.contains("stderr") => "access-log \"stderr\"".to_owned(),
            None => continue,
        };
        let mut own = Origin::default();
        own.carry_all(path.statements());
        own.within.extend(log.get("name").statements());
        for name in ["log_format", "format", "json_format", "typed_json_format"] {
            settings.get(name).statements().into_iter().for_each(|at| own.differ(at, AS_JSON));
        }
        log.get("filter").statements().into_iter().for_each(|at| own.differ(at, ALL_LINES));
        origin.within.extend(&own.within);
        logs.push(OutlinedSetting { line, origin: own });
    }
    logs
}
