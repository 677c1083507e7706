//! The API server of a cluster on loopback, as far as a controller asks it: objects with versions, lists in pages,
//! watches with bookmarks, changes with conflicts, refusals in the words of the real one. The test puts objects in and
//! takes them out, and says what goes wrong. It knows no kind: the path of an object follows from what it says of
//! itself.

mod place;
mod said;
mod watching;

use crate::api::{Asked, serve};
use crate::control_plane::Api;
use place::{Place, merge, place_of};
use said::{LIST_EXPIRED, not_found, refuse, status, write_json};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What every request has to show.
pub const TOKEN: &str = "token-of-a-service-account";
/// How often a watch looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// An emulated API server. It runs on threads of its own and ends with the test's process.
#[derive(Clone)]
pub struct ApiServer {
    address: SocketAddr,
    shared: Arc<ApiShared>,
}

#[derive(Default)]
struct ApiShared {
    state: Mutex<ApiState>,
    changed: Condvar,
}

#[derive(Default)]
struct ApiState {
    /// By collection and then by `namespace/name`.
    objects: BTreeMap<String, BTreeMap<String, Value>>,
    /// What happened, in order.
    events: Vec<Happened>,
    /// Events before those, which are forgotten.
    dropped: usize,
    version: u64,
    /// Versions up to this are forgotten.
    forgotten: u64,
    refusals: Vec<Refusal>,
    forbidden: Vec<Forbidden>,
    /// Watches of a lower number end.
    era: u64,
    is_silent: bool,
    is_away: bool,
    /// Also lists of what the program is to know by its metadata alone.
    gives_whole_lists: bool,
    /// What the paths begin with that are not answered.
    stalled: Vec<String>,
    requests: Vec<String>,
    writes: Vec<ApiChange>,
}

/// A change that somebody asked for and that was carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiChange {
    /// Verb, resource and object, as `patch ingresses/status shop/web`.
    pub what: String,
    pub body: Value,
}

#[derive(Clone)]
struct Happened {
    version: u64,
    kind: &'static str,
    /// Of a bookmark every one.
    collection: Option<String>,
    object: Value,
}

/// What is answered instead, as long as it stands.
struct Refusal {
    /// What the path begins with.
    path: String,
    status: u16,
    /// How many times more; `None` is every time.
    times: Option<usize>,
    /// In seconds.
    retry_after: Option<u64>,
}

/// What the account may not do.
struct Forbidden {
    verb: &'static str,
    resource: String,
    /// `None` is everywhere.
    namespace: Option<String>,
}

/// All objects as they were at some time, as a backup has them.
pub struct Backup {
    objects: BTreeMap<String, BTreeMap<String, Value>>,
    version: u64,
}

impl ApiServer {
    pub fn start() -> io::Result<ApiServer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let server = ApiServer { address: listener.local_addr()?, shared: Arc::default() };
        let answering = server.clone();
        let answer = move |asked: &Asked, stream: &mut TcpStream| answering.answer(asked, stream);
        serve("kubernetes", move || listener.accept().map(|(stream, _)| stream), answer)?;
        Ok(server)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asked as the real one is, by whoever shows the token.
    pub fn api(&self) -> Api {
        self.api_with(TOKEN)
    }

    /// Asked by whoever shows another token.
    pub fn api_with(&self, token: &str) -> Api {
        Api::of_emulation(self.address, token)
    }

    /// Puts an object there, or changes the one of its kind and name. Gives the version that it has now.
    pub fn put(&self, object: Value) -> u64 {
        let mut state = self.state();
        let (collection, key) = place_of(&object);
        let version = state.put(&collection, &key, object);
        drop(state);
        self.shared.changed.notify_all();
        version
    }

    /// Takes the object out that is of this kind and name.
    pub fn remove(&self, object: &Value) {
        let (collection, key) = place_of(object);
        self.state().remove(&collection, &key);
        self.shared.changed.notify_all();
    }

    /// The object that is of this kind and name.
    pub fn get(&self, object: &Value) -> Option<Value> {
        let (collection, key) = place_of(object);
        self.state().objects.get(&collection)?.get(&key).cloned()
    }

    /// Tells every watch that nothing else has happened.
    pub fn bookmark(&self) {
        let mut state = self.state();
        let version = state.version;
        state.events.push(Happened { version, kind: "BOOKMARK", collection: None, object: Value::Null });
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Answers requests whose path begins so with this status, so many times or for ever.
    pub fn refuse(&self, path: &str, status: u16, times: Option<usize>, retry_after: Option<u64>) {
        self.state().refusals.push(Refusal { path: path.to_owned(), status, times, retry_after });
    }

    /// Refuses what RBAC calls so, as `list` of `services` or `patch` of `ingresses/status`; in one namespace, or
    /// wherever it is asked for. Watches that are open go on.
    pub fn forbid(&self, verb: &'static str, resource: &str, namespace: Option<&str>) {
        let (resource, namespace) = (resource.to_owned(), namespace.map(str::to_owned));
        self.state().forbidden.push(Forbidden { verb, resource, namespace });
    }

    /// Lists Secrets and ConfigMaps with what is in them, as the real one does. A follower that asks for that is
    /// refused otherwise, since it is to be noticed.
    pub fn give_whole_lists(&self) {
        self.state().gives_whole_lists = true;
    }

    /// Takes connections and ends them without a word, watches as well.
    pub fn go_away(&self) {
        self.state().is_away = true;
        self.end_watches();
    }

    /// Everything as it is now.
    pub fn backup(&self) -> Backup {
        let state = self.state();
        Backup { objects: state.objects.clone(), version: state.version }
    }

    /// Everything is as it was, and versions that were given come again. Watches end; a new one from a version that is
    /// not reached is told nothing until it is.
    pub fn restore(&self, backup: &Backup) {
        let mut state = self.state();
        state.objects = backup.objects.clone();
        (state.version, state.forgotten) = (backup.version, backup.version);
        state.dropped += state.events.len();
        state.events.clear();
        drop(state);
        self.end_watches();
    }

    /// Nothing is refused or forbidden any more, and nobody is kept waiting.
    pub fn relent(&self) {
        let mut state = self.state();
        state.refusals.clear();
        state.forbidden.clear();
        state.is_away = false;
        state.stalled.clear();
        state.is_silent = false;
    }

    /// Takes connections and says nothing, on watches as well.
    pub fn fall_silent(&self) {
        self.state().is_silent = true;
    }

    /// Takes requests whose path begins so and says nothing.
    pub fn stall(&self, path: &str) {
        self.state().stalled.push(path.to_owned());
    }

    /// Forgets what happened: who asks from an older version has to list anew.
    pub fn forget(&self) {
        let mut state = self.state();
        // An object may change again and come back to what it was; the version goes on.
        state.version += 1;
        state.forgotten = state.version;
        state.dropped += state.events.len();
        state.events.clear();
    }

    /// Ends all watches, in the middle of a line.
    pub fn end_watches(&self) {
        self.state().era += 1;
        self.shared.changed.notify_all();
    }

    /// Method and target of each request so far, in order.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// What was changed so far, in order.
    pub fn writes(&self) -> Vec<ApiChange> {
        self.state().writes.clone()
    }

    fn state(&self) -> MutexGuard<'_, ApiState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, asked: &Asked, stream: &mut TcpStream) -> io::Result<()> {
        let mut state = self.state();
        state.requests.push(format!("{} {}", asked.method, asked.target));
        let is_kept_waiting =
            |state: &ApiState| state.is_silent || state.stalled.iter().any(|path| asked.path().starts_with(path));
        state = self.wait_while(state, is_kept_waiting);
        if state.is_away {
            return Ok(());
        }
        if asked.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
            return refuse(stream, 401, "Unauthorized", "Unauthorized", None);
        }
        if let Some(refusal) = state.take_refusal(asked.path()) {
            let message = format!("the test has it so: {} {}", asked.method, asked.path());
            return refuse(stream, refusal.0, "Refused", &message, refusal.1);
        }
        let Some(asked_for) = Place::of(asked) else {
            return refuse(stream, 404, "NotFound", "the server could not find the requested resource", None);
        };
        if state.is_forbidden(asked_for.verb(asked), &asked_for) {
            let message = asked_for.forbidden(asked_for.verb(asked));
            let details = asked_for.details(asked_for.name.as_deref().unwrap_or_default());
            return write_json(stream, 403, &status(403, "Forbidden", &message, Some(details)));
        }
        match (asked.method.as_str(), &asked_for.name) {
            ("GET", None) if !state.gives_whole_lists && asked_for.is_known_by_metadata() && !asked_for.is_by_metadata => {
                refuse(stream, 406, "NotAcceptable", "nobody here has a reason to see what is in all of them", None)
            }
            ("GET", None) if asked.parameter("watch").as_deref() == Some("true") => {
                drop(state);
                self.watch(asked, &asked_for, stream)
            }
            ("GET", None) => state.list(asked, &asked_for, stream),
            ("GET", Some(name)) => match state.object(&asked_for, name) {
                Some(object) => write_json(stream, 200, &asked_for.cut(object)),
                None => not_found(stream, &asked_for, name),
            },
            _ => {
                let outcome = state.change(asked, &asked_for);
                drop(state);
                self.shared.changed.notify_all();
                let (status, body) = outcome;
                write_json(stream, status, &body)
            }
        }
    }

    fn wait_while<'s>(
        &'s self,
        state: MutexGuard<'s, ApiState>,
        condition: impl Fn(&ApiState) -> bool,
    ) -> MutexGuard<'s, ApiState> {
        let mut state = state;
        while condition(&state) {
            state = self.shared.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

impl ApiState {
    fn put(&mut self, collection: &str, key: &str, mut object: Value) -> u64 {
        self.version += 1;
        let version = self.version;
        let all = self.objects.entry(collection.to_owned()).or_default();
        let before = all.get(key);
        let kept = |name: &str, otherwise: String| {
            let kept = before.and_then(|before| before["metadata"][name].as_str()).map(str::to_owned);
            Value::from(kept.unwrap_or(otherwise))
        };
        let uid = kept("uid", format!("00000000-0000-4000-8000-{version:012}"));
        let created = kept("creationTimestamp", "2026-01-01T00:00:00Z".to_owned());
        let metadata = &mut object["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = uid;
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = created;
        }
        metadata["resourceVersion"] = version.to_string().into();
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        all.insert(key.to_owned(), object.clone());
        self.events.push(Happened { version, kind, collection: Some(collection.to_owned()), object });
        version
    }

    fn remove(&mut self, collection: &str, key: &str) -> Option<Value> {
        let mut object = self.objects.get_mut(collection)?.remove(key)?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let event =
            Happened { version: self.version, kind: "DELETED", collection: Some(collection.to_owned()), object: object.clone() };
        self.events.push(event);
        Some(object)
    }

    fn object(&self, place: &Place, name: &str) -> Option<&Value> {
        self.objects.get(&place.collection)?.get(&place.key(name))
    }

    fn is_forbidden(&self, verb: &str, place: &Place) -> bool {
        self.forbidden.iter().any(|forbidden| {
            let is_there = forbidden.namespace.is_none() || forbidden.namespace == place.namespace;
            forbidden.verb == verb && forbidden.resource == place.resource() && is_there
        })
    }

    /// The status and how long to wait, of a refusal that is due.
    fn take_refusal(&mut self, path: &str) -> Option<(u16, Option<u64>)> {
        let position = self.refusals.iter().position(|refusal| path.starts_with(&refusal.path))?;
        let refusal = &mut self.refusals[position];
        let said = (refusal.status, refusal.retry_after);
        if let Some(times) = &mut refusal.times {
            *times -= 1;
            if *times == 0 {
                self.refusals.remove(position);
            }
        }
        Some(said)
    }

    /// A page, whose continuation says where it goes on and at which version the list was begun.
    fn list(&self, asked: &Asked, place: &Place, stream: &mut TcpStream) -> io::Result<()> {
        let limit: usize = asked.parameter("limit").and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
        // From what it has in memory the server answers at once, and as a whole.
        let limit = if asked.parameter("resourceVersion").as_deref() == Some("0") { usize::MAX } else { limit };
        let (begun, after) = match asked.parameter("continue").filter(|token| !token.is_empty()) {
            None => (self.version, None),
            Some(token) => match token.split_once('|').and_then(|(version, key)| Some((version.parse().ok()?, key.to_owned()))) {
                Some((version, key)) if version < self.forgotten => {
                    let mut expired = status(410, "Expired", LIST_EXPIRED, None);
                    expired["metadata"]["continue"] = format!("{}|{key}", self.version).into();
                    return write_json(stream, 410, &expired);
                }
                Some((version, key)) => (version, Some(key)),
                None => return refuse(stream, 400, "BadRequest", "invalid continue token: continue key is not valid", None),
            },
        };
        let empty = BTreeMap::new();
        let all = self.objects.get(&place.collection).unwrap_or(&empty);
        let is_behind = |key: &String| after.as_ref().is_none_or(|after| key > after);
        let mut rest = all.iter().filter(|(key, object)| is_behind(key) && place.has(&place.collection, object));
        let mut items = Vec::new();
        let mut last = String::new();
        for (key, object) in rest.by_ref().take(limit) {
            items.push(place.item(object));
            last.clone_from(key);
        }
        let mut metadata = json!({"resourceVersion": begun.to_string()});
        let left = rest.count();
        if left > 0 {
            metadata["continue"] = format!("{begun}|{last}").into();
            // Of a selection the server does not know it.
            if place.selected.is_none() {
                metadata["remainingItemCount"] = left.into();
            }
        }
        let (version, kind) = place.list_kind();
        write_json(stream, 200, &json!({"kind": kind, "apiVersion": version, "metadata": metadata, "items": items}))
    }

    fn change(&mut self, asked: &Asked, place: &Place) -> (u16, Value) {
        let Ok(body) = serde_json::from_slice::<Value>(&asked.body)
            .or_else(|error| if asked.body.is_empty() { Ok(Value::Null) } else { Err(error) })
        else {
            return (400, status(400, "BadRequest", "the object provided is unrecognized", None));
        };
        let name = place.name.clone().or_else(|| body["metadata"]["name"].as_str().map(str::to_owned)).unwrap_or_default();
        let key = place.key(&name);
        let before = self.objects.get(&place.collection).and_then(|all| all.get(&key)).cloned();
        if let Some(message) = unacceptable(place, asked, &body) {
            return (422, status(422, "Invalid", &message, None));
        }
        let outcome = self.carry_out(asked, place, (&key, &name), before, body.clone());
        if outcome.0 < 300 {
            let what = format!("{} {} {key}", place.verb(asked), place.resource());
            self.writes.push(ApiChange { what, body });
        }
        outcome
    }

    fn carry_out(
        &mut self,
        asked: &Asked,
        place: &Place,
        (key, name): (&str, &str),
        before: Option<Value>,
        body: Value,
    ) -> (u16, Value) {
        let failure = |code: u16, reason: &str, message: &str| (code, status(code, reason, message, Some(place.details(name))));
        let missing = || failure(404, "NotFound", &format!("{} \"{name}\" not found", place.resource_with_group()));
        let wanted = body["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        let is_stale = |before: &Value| wanted.as_deref().is_some_and(|wanted| before["metadata"]["resourceVersion"] != wanted);
        let conflict = format!(
            "Operation cannot be fulfilled on {} \"{name}\": the object has been modified; please apply your changes to the \
             latest version and try again",
            place.resource_with_group()
        );
        match (asked.method.as_str(), before) {
            ("POST", Some(_)) => {
                failure(409, "AlreadyExists", &format!("{} \"{name}\" already exists", place.resource_with_group()))
            }
            ("POST", None) => {
                self.put(&place.collection, key, body);
                (201, self.objects[&place.collection][key].clone())
            }
            (_, None) => missing(),
            ("PUT" | "PATCH", Some(before)) if is_stale(&before) => failure(409, "Conflict", &conflict),
            ("PUT", Some(_)) => {
                self.put(&place.collection, key, body);
                (200, self.objects[&place.collection][key].clone())
            }
            ("PATCH", Some(mut before)) => {
                let spec = before["spec"].clone();
                merge(&mut before, &body);
                // Metadata are of either.
                if place.is_status && !spec.is_null() {
                    before["spec"] = spec;
                }
                self.put(&place.collection, key, before);
                (200, self.objects[&place.collection][key].clone())
            }
            ("DELETE", Some(_)) => {
                let removed = self.remove(&place.collection, key).unwrap_or_default();
                (200, place.removed(name, removed))
            }
            _ => (405, status(405, "MethodNotAllowed", "the server does not allow this method", None)),
        }
    }
}

/// What the server finds wrong with an object, as far as somebody here may get it wrong.
fn unacceptable(place: &Place, asked: &Asked, body: &Value) -> Option<String> {
    match (place.collection.as_str(), asked.method.as_str()) {
        ("/apis/events.k8s.io/v1/events", "POST") => {
            let required = ["eventTime", "reportingController", "reportingInstance", "action", "reason", "type"];
            let missing = required.iter().find(|field| body[**field].as_str().is_none_or(str::is_empty))?;
            Some(format!("Event is invalid: {missing}: Required value"))
        }
        ("/apis/events.k8s.io/v1/events", "PATCH") => {
            let other = body.as_object()?.keys().find(|field| *field != "series")?;
            Some(format!("Event is invalid: {other}: field is immutable"))
        }
        _ => None,
    }
}
