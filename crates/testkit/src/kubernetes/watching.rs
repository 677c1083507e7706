//! Watches: what happens from a version on, or all that is there and then what happens.

use super::place::Place;
use super::said::{refuse, status, write_line};
use super::{ApiServer, Happened};
use crate::api::{Asked, begin_chunks, write_chunk};
use serde_json::{Value, json};
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Says behind which bookmark the list is over that a watch began with.
const LIST_ENDS: &str = "k8s.io/initial-events-end";
/// Before a watch comes to its end the server says where it was.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// What a watch was asked to be.
struct Wanted {
    /// `None` is all that is there, and what happens then.
    from: Option<u64>,
    takes_bookmarks: bool,
    /// All that is there ends with a bookmark.
    is_list: bool,
    ends: Option<Instant>,
}

impl Wanted {
    /// `Err` is what the server says to it.
    fn of(asked: &Asked) -> Result<Wanted, (u16, String)> {
        let is = |name: &str, value: &str| asked.parameter(name).as_deref() == Some(value);
        let is_list = is("sendInitialEvents", "true");
        if is_list && !is("resourceVersionMatch", "NotOlderThan") {
            let problem =
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err((422, problem.to_owned()));
        }
        let from = match asked.parameter("resourceVersion").unwrap_or_default().as_str() {
            "" | "0" => None,
            text => Some(text.parse().map_err(|_| {
                let problem =
                    format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax");
                (500, problem)
            })?),
        };
        let seconds = asked.parameter("timeoutSeconds").and_then(|text| text.parse().ok());
        let ends = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let from = if is_list { None } else { from };
        Ok(Wanted { from, takes_bookmarks: is("allowWatchBookmarks", "true"), is_list, ends })
    }

    fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() >= ends)
    }

    fn is_nearly_over(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() + BOOKMARK_BEFORE_END >= ends)
    }
}

impl ApiServer {
    pub(super) fn watch(&self, asked: &Asked, place: &Place, stream: &mut TcpStream) -> io::Result<()> {
        let wanted = match Wanted::of(asked) {
            Ok(wanted) => wanted,
            Err((code, problem)) => return refuse(stream, code, "", &problem, None),
        };
        let state = self.state();
        begin_chunks(stream)?;
        if wanted.from.is_some_and(|from| from < state.forgotten) {
            let message = format!("too old resource version: {} ({})", wanted.from.unwrap_or_default(), state.version);
            write_line(stream, "ERROR", &status(410, "Expired", &message, None))?;
            return write_chunk(stream, b"");
        }
        let from = wanted.from.unwrap_or(state.version);
        // A bookmark says something to whoever watches when it comes.
        let told = state.dropped + state.events.iter().take_while(|event| event.version <= from).count();
        if wanted.from.is_none() {
            let all = state.objects.get(&place.collection).into_iter().flat_map(|all| all.values());
            for object in all.filter(|object| place.has(&place.collection, object)) {
                write_line(stream, "ADDED", &place.cut(object))?;
            }
            if wanted.is_list {
                write_line(stream, "BOOKMARK", &place.bookmark(state.version, &json!({LIST_ENDS: "true"})))?;
            }
        }
        drop(state);
        self.go_on(&wanted, (from, told), place, stream)
    }

    /// Tells what happens, from a version and a place among the events on.
    fn go_on(&self, wanted: &Wanted, (from, mut told): (u64, usize), place: &Place, stream: &mut TcpStream) -> io::Result<()> {
        let mut state = self.state();
        let era = state.era;
        let mut newest = from;
        loop {
            let next = state.events[told.saturating_sub(state.dropped).min(state.events.len())..].to_vec();
            told = state.dropped + state.events.len();
            let (is_cut, is_silent) = (state.era > era, state.is_silent);
            drop(state);
            let is_told = |event: &&Happened| match &event.collection {
                Some(collection) => event.version > from && place.has(collection, &event.object),
                None => event.version >= from && wanted.takes_bookmarks,
            };
            for event in next.iter().filter(|event| is_told(event) && !is_silent) {
                newest = newest.max(event.version);
                match &event.collection {
                    Some(_) => write_line(stream, event.kind, &place.cut(&event.object))?,
                    None => write_line(stream, event.kind, &place.bookmark(event.version, &Value::Null))?,
                }
            }
            if is_cut {
                let half: &[u8] = b"{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"ha";
                return write_chunk(stream, half);
            }
            if newest > from && wanted.takes_bookmarks && wanted.is_nearly_over() && !is_silent {
                write_line(stream, "BOOKMARK", &place.bookmark(newest, &Value::Null))?;
                return self.rest(wanted, stream);
            }
            if wanted.is_over() {
                return write_chunk(stream, b"");
            }
            state = self.state();
            // Whoever has gone is noticed when there is something to tell.
            let is_quiet = |events: usize, now: u64| events == told && now == era;
            let is_due = || wanted.is_over() || (newest > from && wanted.takes_bookmarks && wanted.is_nearly_over());
            state = self.wait_while(state, |state| is_quiet(state.dropped + state.events.len(), state.era) && !is_due());
        }
    }

    /// Behind the last bookmark nothing is told until the end; whoever comes back asks from there.
    fn rest(&self, wanted: &Wanted, stream: &mut TcpStream) -> io::Result<()> {
        let state = self.state();
        let era = state.era;
        drop(self.wait_while(state, |state| state.era == era && !wanted.is_over()));
        write_chunk(stream, b"")
    }
}
