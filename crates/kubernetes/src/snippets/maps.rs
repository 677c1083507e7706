//! What `$arg_…` and `$cookie_…` are worth, as maps: a condition of a route asks what their first has found, as nginx
//! does, where a parameter and a cookie of a file are each of several. A map follows from the name of its variable, so
//! that many snippets share it, and is there as long as a route asks for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::{Condition, ConditionKind, MapSettings, MapSource, Placeholder, Site, Template, TemplatePart};

const ARGUMENT: &str = "nginx-arg-";
const COOKIE: &str = "nginx-cookie-";
/// Of cookies that are there twice.
const COOKIES: &str = "nginx-cookies-";

/// The map of `$arg_NAME`. `None`: the name is longer than that of a map.
pub fn of_argument(name: &str) -> Option<String> {
    named(ARGUMENT, name)
}

pub fn of_cookie(name: &str) -> Option<String> {
    named(COOKIE, name)
}

/// The map that has a row where two cookies have that name.
pub fn of_cookie_twice(name: &str) -> Option<String> {
    named(COOKIES, name)
}

fn named(beginning: &str, name: &str) -> Option<String> {
    // nginx takes either case.
    let name = format!("{beginning}{}", name.to_ascii_lowercase());
    (name.len() <= MapSettings::NAME_BYTES_MAX).then_some(name)
}

/// Names of maps that conditions of these sites ask for.
pub fn asked_by(sites: &[Arc<Site>]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let lines = sites.iter().flat_map(|site| &site.routes).flat_map(|route| &route.matches);
    for condition in lines.flat_map(|line| &line.conditions) {
        condition.each(&mut |condition: &Condition| {
            if let ConditionKind::Map(field) = &condition.kind {
                names.insert(field.name.clone());
            }
        });
    }
    names
}

/// The map of that name, of those that variables have.
pub fn map_named(name: &str) -> Option<MapSettings> {
    let of = |beginning: &str| name.strip_prefix(beginning).filter(|variable| !variable.is_empty());
    // What a variable has found is its value; without one there is none.
    let (key, row, value) = match (of(ARGUMENT), of(COOKIE), of(COOKIES)) {
        (Some(variable), ..) => (Placeholder::Query, format!("~(?i)(?:^|&){variable}=([^&]*)"), "$1"),
        (_, Some(variable), _) => (cookies(), format!("~(?i)(?:^|[;,] *){variable} *= *([^;]*)"), "$1"),
        (.., Some(variable)) => (cookies(), format!("~(?i)(?:^|[;,] *){variable} *=.*[;,] *{variable} *="), "1"),
        (None, None, None) => return None,
    };
    Some(MapSettings {
        name: name.to_owned(),
        key: Template { parts: vec![TemplatePart::Placeholder(key)] },
        default: None,
        ignores_case: false,
        source: MapSource::Listed(vec![(row, value.to_owned())]),
    })
}

fn cookies() -> Placeholder {
    Placeholder::RequestHeader("cookie".to_owned())
}
