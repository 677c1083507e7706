//! Maps over the API: what they have, and single rows that are changed without a new generation.

use crate::ask::ask;
use crate::extract::{Json, Parameters, Query};
use crate::handlers::{Answer, json};
use crate::problem::{Problem, bad_request, of_change};
use axum::extract::State;
use tidegate_api::{MapRow, MapRowChange};
use tidegate_control::report::{ROWS_LISTED_MAX, RowFilter};
use tidegate_control::{ControlHandle, RowChange};
use tokio::sync::oneshot;

/// Rows that an answer lists where nothing is said.
const ROWS_LISTED: usize = 100;

pub async fn list(State(handle): State<ControlHandle>) -> Answer {
    json(&ask(&handle, |control| control.maps()).await?)
}

pub async fn one(State(handle): State<ControlHandle>, parameters: Parameters) -> Answer {
    let name = parameters.text("name");
    json(&ask(&handle, move |control| control.map_named(&name)).await?.map_err(|fault| of_change(&fault))?)
}

pub async fn rows(State(handle): State<ControlHandle>, parameters: Parameters, query: Query) -> Answer {
    let query = query.allowing(&["changed", "from", "limit"])?;
    let number = |name: &str, otherwise: usize, most: usize| -> Result<usize, Problem> {
        let Some(text) = query.text(name) else { return Ok(otherwise) };
        let number = text.parse().ok().filter(|number| *number <= most);
        number.ok_or_else(|| bad_request(format!("`{name}` is not a number up to {most}")))
    };
    let changed = match query.text("changed") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(bad_request("`changed` is `true` or `false`")),
    };
    let meant = RowFilter {
        changed,
        from: number("from", 0, tidegate_control::MAP_ROWS_MAX)?,
        limit: number("limit", ROWS_LISTED, ROWS_LISTED_MAX)?,
    };
    let name = parameters.text("name");
    json(&ask(&handle, move |control| control.map_rows(&name, &meant)).await?.map_err(|fault| of_change(&fault))?)
}

pub async fn read_row(State(handle): State<ControlHandle>, parameters: Parameters) -> Answer {
    let (name, key) = (parameters.text("name"), parameters.text("key"));
    json(&ask(&handle, move |control| control.map_row(&name, &key)).await?.map_err(|fault| of_change(&fault))?)
}

pub async fn set_row(State(handle): State<ControlHandle>, parameters: Parameters, Json(change): Json<MapRowChange>) -> Answer {
    let change = match change {
        MapRowChange { value: Some(value), absent: None | Some(false) } => RowChange::Set(value),
        MapRowChange { value: None, absent: Some(true) } => RowChange::Absent,
        MapRowChange { .. } => {
            let problem = bad_request("a row has a `value`, or is `absent`");
            return Err(problem
                .with_help("for example `{\"value\": \"/new\"}`, or `{\"absent\": true}` for a key that is to have no row"));
        }
    };
    changed(&handle, &parameters, change).await
}

pub async fn drop_row(State(handle): State<ControlHandle>, parameters: Parameters) -> Answer {
    changed(&handle, &parameters, RowChange::Drop).await
}

/// The row as it is when the change is kept and counts.
async fn changed(handle: &ControlHandle, parameters: &Parameters, change: RowChange) -> Answer {
    let (name, written) = (parameters.text("name"), parameters.text("key"));
    let (reply, replied) = oneshot::channel();
    let of_map = name.clone();
    let key = ask(handle, move |control| control.change_map_row(&of_map, &written, change, reply)).await?;
    let key = key.map_err(|fault| of_change(&fault))?;
    // Bounded where the storage is asked.
    let outcome = replied.await.map_err(|_| crate::problem::draining())?;
    outcome.map_err(|fault| of_change(&fault.into()))?;
    let of_key = key.clone();
    match ask(handle, move |control| control.map_row(&name, &of_key)).await? {
        Ok(row) => json(&row),
        // Dropped, and the source has none.
        Err(_) => json(&MapRow { key, value: None, changed: false, source_value: None, hides_newer: false }),
    }
}
