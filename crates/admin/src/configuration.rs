//! The configuration as typed objects: read whole or in parts, and changed part by part. What is changed is applied and
//! written back to its file by `control::edit`; how the objects look is said by the configuration's own JSON Schema,
//! which is served beside them.

use crate::ask::ask;
use crate::effective::{effective_list, effective_part, has_routes_within};
use crate::endpoint::{Endpoint, Parameter, Verb};
use crate::extract::{Expected, Parameters, Part as Body, Query};
use crate::handlers::{Answer, json, tagged};
use crate::problem::{Problem, bad_request, not_found, of_change};
use crate::proposal;
use axum::extract::State;
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use serde_json::{Value, json};
use tidegate_api::schema::Components;
use tidegate_api::{Edited, Effective};
use tidegate_config::{Edit, List, Target};
use tidegate_control::{ApplyOptions, ChangeFault, ControlHandle, Tag};

const CONFIRMATION: &[Parameter] = &[Parameter {
    name: "confirm_within_seconds",
    about: "The change is taken back after this unless it is confirmed.",
    schema: u64_schema,
}];

fn u64_schema(_: &mut Components) -> Value {
    json!({ "type": "integer", "minimum": 1 })
}

/// A part of the configuration; `/v1/configuration/schema` has its members.
fn part(_: &mut Components) -> Value {
    json!({ "type": ["object", "array", "string", "number", "boolean"],
        "description": "As the JSON Schema at /v1/configuration/schema describes it." })
}

/// Several of them.
fn part_list(known: &mut Components) -> Value {
    json!({ "type": "array", "items": part(known) })
}

const DEFAULTS: &[Parameter] = &[Parameter {
    name: "defaults",
    about: "`true`: not what is written but what holds, names and values as a plan shows them. Of the whole, lists by what they are of.",
    schema: tidegate_api::schema::of::<String>,
}];

/// What can be addressed.
#[derive(Debug, Clone, Copy)]
enum SettingsPart {
    Site,
    Route,
    Pool,
    Server,
    Listener,
    Tcp,
    Map,
    Admin,
    AccessLog,
    Setting,
}

impl SettingsPart {
    const ALL: [SettingsPart; 10] = [
        SettingsPart::Site,
        SettingsPart::Route,
        SettingsPart::Pool,
        SettingsPart::Server,
        SettingsPart::Listener,
        SettingsPart::Tcp,
        SettingsPart::Map,
        SettingsPart::Admin,
        SettingsPart::AccessLog,
        SettingsPart::Setting,
    ];

    /// Where it is, and how the document names what is done with it.
    fn place(self) -> (&'static str, &'static str) {
        match self {
            SettingsPart::Site => ("/v1/configuration/sites/{address}", "Site"),
            SettingsPart::Route => ("/v1/configuration/sites/{address}/routes/{index}", "Route"),
            SettingsPart::Pool => ("/v1/configuration/pools/{name}", "Pool"),
            SettingsPart::Server => ("/v1/configuration/pools/{name}/servers/{address}", "Server"),
            SettingsPart::Listener => ("/v1/configuration/listeners/{address}", "Listener"),
            SettingsPart::Tcp => ("/v1/configuration/tcp/{address}", "Tcp"),
            SettingsPart::Map => ("/v1/configuration/maps/{name}", "Map"),
            SettingsPart::Admin => ("/v1/configuration/admin/{address}", "Admin"),
            SettingsPart::AccessLog => ("/v1/configuration/access-log/{target}", "AccessLog"),
            SettingsPart::Setting => ("/v1/configuration/settings/{directive}", "Setting"),
        }
    }

    fn target(self, parameters: &Parameters) -> Result<Target, Problem> {
        let text = |name| parameters.text(name);
        Ok(match self {
            SettingsPart::Site => Target::Site { address: text("address") },
            SettingsPart::Route => Target::Route { site: text("address"), index: position(&text("index"))? },
            SettingsPart::Pool => Target::Pool { name: text("name") },
            SettingsPart::Server => Target::Server { pool: text("name"), address: text("address") },
            SettingsPart::Listener => Target::Listener { address: text("address") },
            SettingsPart::Tcp => Target::Tcp { address: text("address") },
            SettingsPart::Map => Target::Map { name: text("name") },
            SettingsPart::Admin => Target::Admin { address: text("address") },
            SettingsPart::AccessLog => Target::AccessLog { target: text("target") },
            SettingsPart::Setting => Target::Top { directive: text("directive") },
        })
    }
}

fn position(text: &str) -> Result<usize, Problem> {
    text.parse().map_err(|_| bad_request(format!("`{}` in the path is not a position, from 0", text.escape_debug())))
}

/// Lists that a body can be added to.
#[derive(Debug, Clone, Copy)]
enum Many {
    Sites,
    Routes,
    Pools,
    Servers,
    Listeners,
    Tcp,
    Maps,
    Admin,
    AccessLogs,
}

impl Many {
    const ALL: [Many; 9] = [
        Many::Sites,
        Many::Routes,
        Many::Pools,
        Many::Servers,
        Many::Listeners,
        Many::Tcp,
        Many::Maps,
        Many::Admin,
        Many::AccessLogs,
    ];

    fn place(self) -> (&'static str, &'static str) {
        match self {
            Many::Sites => ("/v1/configuration/sites", "addSite"),
            Many::Routes => ("/v1/configuration/sites/{address}/routes", "addRoute"),
            Many::Pools => ("/v1/configuration/pools", "addPool"),
            Many::Servers => ("/v1/configuration/pools/{name}/servers", "addServer"),
            Many::Listeners => ("/v1/configuration/listeners", "addListener"),
            Many::Tcp => ("/v1/configuration/tcp", "addTcp"),
            Many::Maps => ("/v1/configuration/maps", "addMap"),
            Many::Admin => ("/v1/configuration/admin", "addAdmin"),
            Many::AccessLogs => ("/v1/configuration/access-log", "addAccessLog"),
        }
    }

    /// In which part the list is; `None` for those at the top level.
    fn owner(self, parameters: &Parameters) -> Option<Target> {
        match self {
            Many::Routes => Some(Target::Site { address: parameters.text("address") }),
            Many::Servers => Some(Target::Pool { name: parameters.text("name") }),
            Many::Sites | Many::Pools | Many::Listeners | Many::Tcp | Many::Maps | Many::Admin | Many::AccessLogs => None,
        }
    }

    /// Elements of the list, in the JSON of what it is in.
    fn listed(self, whole: &Value) -> Vec<Value> {
        let member = |name: &str| whole[name].as_array().cloned().unwrap_or_default();
        match self {
            Many::Sites => member("site"),
            Many::Routes => member("steps").iter().filter_map(|step| step.get("route").cloned()).collect(),
            Many::Pools => member("pool"),
            Many::Servers => member("server"),
            Many::Listeners => member("listener"),
            Many::Tcp => member("tcp"),
            Many::Maps => member("map"),
            Many::Admin => member("admin"),
            Many::AccessLogs => member("access-log"),
        }
    }

    fn list(self, parameters: &Parameters) -> List {
        match self {
            Many::Sites => List::Sites,
            Many::Routes => List::Routes { site: parameters.text("address") },
            Many::Pools => List::Pools,
            Many::Servers => List::Servers { pool: parameters.text("name") },
            Many::Listeners => List::Listeners,
            Many::Tcp => List::Tcp,
            Many::Maps => List::Maps,
            Many::Admin => List::Admin,
            Many::AccessLogs => List::AccessLogs,
        }
    }
}

pub fn endpoints() -> Vec<Endpoint> {
    let mut endpoints = vec![
        Endpoint::reading("/v1/configuration", "configuration", part, || get(whole))
            .about("The configuration as it is written: includes in their place, nothing of secrets.")
            .asking(DEFAULTS)
            .tagged(),
        Endpoint::reading("/v1/configuration/schema", "configurationSchema", part, || get(schema))
            .about("JSON Schema of the configuration."),
    ];
    for (part, handlers) in SettingsPart::ALL.into_iter().zip(BY_PART) {
        endpoints.extend(endpoints_of(part, handlers));
    }
    for ((many, handler), list) in Many::ALL.into_iter().zip(ADD).zip(LISTS) {
        let (path, id) = many.place();
        let listed = Endpoint::reading(path, "", part_list, list).called(id.replace("add", "listed"));
        endpoints.push(listed.about("All of them, as they are written.").asking(DEFAULTS).tagged().refusing(&[404]));
        endpoints.push(changing(Verb::Post, path, id.to_owned(), handler).about("One more; the answer comes when it runs."));
    }
    endpoints
}

fn endpoints_of(part_of: SettingsPart, [read, put, patch, remove]: [Handler; 4]) -> [Endpoint; 4] {
    let (path, name) = part_of.place();
    [
        Endpoint::reading(path, "", part, read)
            .called(format!("configured{name}"))
            .about("As it is written.")
            .asking(DEFAULTS)
            .tagged()
            .refusing(&[404]),
        changing(Verb::Put, path, format!("put{name}"), put).about("Replaces it, or makes it when it is not there."),
        changing(Verb::Patch, path, format!("patch{name}"), patch)
            .about("Changes members of it: a JSON merge patch (RFC 7396), where `null` removes one."),
        Endpoint { body: None, ..changing(Verb::Delete, path, format!("remove{name}"), remove) }.about("Removes it."),
    ]
}

fn changing(verb: Verb, path: &'static str, id: String, handler: Handler) -> Endpoint {
    Endpoint { verb, needs_body: true, ..Endpoint::changing(path, "", part, tidegate_api::schema::of::<Edited>, handler) }
        .called(id)
        .asking(CONFIRMATION)
        .refusing(&[404, 409, 412, 422])
}

type Handler = fn() -> MethodRouter<ControlHandle>;

macro_rules! handlers_of {
    ($($part:ident)*) => { [$( [
        || get(|handle, parameters, query| read_part(handle, parameters, query, SettingsPart::$part)),
        || put(|handle, parameters, expected, query, Body(value)| {
            edit_part(handle, SettingsPart::$part, parameters, |target| Edit::Put(target, value), "replaced", expected, query)
        }),
        || patch(|handle, parameters, expected, query, Body(value)| {
            edit_part(handle, SettingsPart::$part, parameters, |target| Edit::Patch(target, value), "changed", expected, query)
        }),
        || delete(|handle, parameters, expected, query| {
            edit_part(handle, SettingsPart::$part, parameters, Edit::Remove, "removed", expected, query)
        }),
    ] ),*] };
}

/// Functions without captures, as the table of addresses wants them: a set for each part, in the order of
/// `SettingsPart::ALL`.
const BY_PART: [[Handler; 4]; SettingsPart::ALL.len()] =
    handlers_of!(Site Route Pool Server Listener Tcp Map Admin AccessLog Setting);

macro_rules! adding_to {
    ($($many:ident)*) => { [$(
        || post(|handle, parameters, expected, query, body| add(handle, parameters, expected, query, body, Many::$many))
    ),*] };
}

/// In the order of `Many::ALL`.
const ADD: [Handler; Many::ALL.len()] = adding_to!(Sites Routes Pools Servers Listeners Tcp Maps Admin AccessLogs);

macro_rules! lists_of {
    ($($many:ident)*) => { [$( || get(|handle, parameters, query| list(handle, parameters, query, Many::$many)) ),*] };
}

/// In the order of `Many::ALL`.
const LISTS: [Handler; Many::ALL.len()] = lists_of!(Sites Routes Pools Servers Listeners Tcp Maps Admin AccessLogs);

async fn list(State(handle): State<ControlHandle>, parameters: Parameters, query: Query, many: Many) -> Answer {
    if wants_defaults(query)? {
        let list = many.list(&parameters);
        let site = if let List::Routes { .. } = list { many.owner(&parameters) } else { None };
        let (tag, effective) = what_holds(&handle, site).await?;
        return match effective_list(effective, &list) {
            Some(parts) => tagged(&parts, tag),
            None => Err(not_found("there is nothing of that name")),
        };
    }
    let (tag, value) = match many.owner(&parameters) {
        Some(target) => {
            let (tag, value) = ask(&handle, move |control| (control.tag(), control.part_json(&target))).await?;
            (tag, value.map_err(|fault| of_change(&fault))?)
        }
        None => ask(&handle, |control| (control.tag(), control.configuration_json())).await?,
    };
    tagged(&many.listed(&value), tag)
}

/// Whether what holds is asked for, and not what is written.
fn wants_defaults(query: Query) -> Result<bool, Problem> {
    match query.allowing(&["defaults"])?.text("defaults") {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(bad_request("`defaults` is neither `true` nor `false`")),
    }
}

async fn whole(State(handle): State<ControlHandle>, query: Query) -> Answer {
    if wants_defaults(query)? {
        let (tag, effective) = ask(&handle, |control| (control.tag(), control.effective())).await?;
        return tagged(&effective, tag);
    }
    let (tag, value) = ask(&handle, |control| (control.tag(), control.configuration_json())).await?;
    tagged(&value, tag)
}

async fn schema() -> Answer {
    json(&tidegate_config::schema())
}

/// What holds of the whole, for who asks for a part, or for the routes of this site.
async fn what_holds(handle: &ControlHandle, site: Option<Target>) -> Result<(Tag, Effective), Problem> {
    let asked =
        ask(handle, move |control| (control.tag(), control.effective(), site.and_then(|site| control.part_json(&site).ok())));
    let (tag, effective, site) = asked.await?;
    if site.as_ref().is_some_and(has_routes_within) {
        return Err(bad_request(
            "the site has routes within routes: ask for what holds in the whole, where each is a route of its own",
        ));
    }
    Ok((tag, effective))
}

async fn read_part(State(handle): State<ControlHandle>, parameters: Parameters, query: Query, part: SettingsPart) -> Answer {
    let target = part.target(&parameters)?;
    if wants_defaults(query)? {
        let of_site = match &target {
            Target::Route { site, .. } => Some(Target::Site { address: site.clone() }),
            Target::Site { .. }
            | Target::Pool { .. }
            | Target::Server { .. }
            | Target::Listener { .. }
            | Target::Tcp { .. }
            | Target::Map { .. }
            | Target::Admin { .. }
            | Target::AccessLog { .. }
            | Target::Top { .. } => None,
        };
        let (tag, effective) = what_holds(&handle, of_site).await?;
        return match effective_part(effective, &target) {
            Some(settings) => tagged(&settings, tag),
            None => Err(not_found("there is nothing of that name")),
        };
    }
    let (tag, value) = ask(&handle, move |control| (control.tag(), control.part_json(&target))).await?;
    tagged(&value.map_err(|fault| of_change(&fault))?, tag)
}

async fn edit_part(
    handle: State<ControlHandle>,
    part: SettingsPart,
    parameters: Parameters,
    edit_of: impl FnOnce(Target) -> Edit,
    done: &str,
    expected: Expected,
    query: Query,
) -> Answer {
    let target = part.target(&parameters)?;
    edit(&handle, edit_of(target), done, expected, query).await
}

async fn add(
    handle: State<ControlHandle>,
    parameters: Parameters,
    expected: Expected,
    query: Query,
    Body(value): Body,
    many: Many,
) -> Answer {
    let list = many.list(&parameters);
    edit(&handle, Edit::Append(list, value), "added", expected, query).await
}

async fn edit(handle: &ControlHandle, edit: Edit, done: &str, Expected(expected): Expected, query: Query) -> Answer {
    let query = query.allowing(&["confirm_within_seconds"])?;
    let confirm_within = query
        .text("confirm_within_seconds")
        .map(|text| text.parse().map_err(|_| bad_request("`confirm_within_seconds` is not a number")))
        .transpose()?
        .map(proposal::confirmation_time)
        .transpose()?;
    let what = format!("{} {done}", subject(&edit));
    let options = ApplyOptions { confirm_within, rise_max: None, expected };
    let edited = ask(handle, move |control| {
        // Before it is looked at what is to be edited: that may be another thing by now.
        control.check_expected(options.expected)?;
        Ok((control.edit(&[edit], what, options)?, control.tag()))
    });
    let (edited, tag) = edited.await?.map_err(|fault: ChangeFault| of_change(&fault))?;
    tagged(&edited, tag)
}

fn subject(edit: &Edit) -> String {
    match edit {
        Edit::Put(target, _) | Edit::Patch(target, _) | Edit::Remove(target) => match target {
            Target::Site { address } => format!("site {address}"),
            Target::Route { site, index } => format!("route {} of {site}", index + 1),
            Target::Pool { name } => format!("pool {name}"),
            Target::Server { pool, address } => format!("server {address} of {pool}"),
            Target::Listener { address } => format!("listener {address}"),
            Target::Tcp { address } => format!("tcp {address}"),
            Target::Map { name } => format!("map {name}"),
            Target::Admin { address } => format!("admin {address}"),
            Target::AccessLog { target } => format!("access-log {target}"),
            Target::Top { directive } => directive.clone(),
        },
        Edit::Append(list, _) => match list {
            List::Sites => "a site".to_owned(),
            List::Routes { site } => format!("a route of {site}"),
            List::Pools => "a pool".to_owned(),
            List::Servers { pool } => format!("a server of {pool}"),
            List::Listeners => "a listener".to_owned(),
            List::Tcp => "a tcp".to_owned(),
            List::Maps => "a map".to_owned(),
            List::Admin => "an admin".to_owned(),
            List::AccessLogs => "an access-log".to_owned(),
        },
    }
}
