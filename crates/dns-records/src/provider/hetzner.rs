//! Hetzner, by the Cloud API: zones are in a project, and its token is for all of them. Values are added to and taken
//! from a set of records by the API itself, so nobody's values are lost when two write at once.

use super::api::{Answer, Api, Remedies, is_value, quoted};
use crate::fault::{DnsProblem, line_of};
use crate::name::Domain;
use crate::publisher::TTL_SECS;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tidegate_model::Secret;
use tidegate_outbound::HttpsClient;
use tokio::time::{Instant, sleep};

const BASE: &str = "https://api.hetzner.cloud/v1";
const REMEDIES: Remedies = Remedies {
    credentials: "check `token=`: it has to be an API token of the Cloud project that has the zone; tokens of the former DNS console are void",
    permission: "make an API token with the permission Read & Write",
    is_about_token: |_| false,
};
/// How long an action may run, and how often it is asked about.
const ACTION_LIMIT: Duration = Duration::from_secs(60);
const ACTION_PAUSE: Duration = Duration::from_secs(1);

pub struct Hetzner {
    api: Api,
}

impl Hetzner {
    pub fn new(client: HttpsClient, token: &Secret, base: Option<&str>) -> Result<Hetzner, DnsProblem> {
        Ok(Hetzner { api: Api::new(client, base.unwrap_or(BASE), Some(token), REMEDIES)? })
    }

    pub async fn present(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        let set = self.set_of(name).await?;
        let body = match self.values(&set).await? {
            Some(values) if values.iter().any(|known| is_value(known, value)) => return Ok(()),
            // The set has a time to live already, and only one.
            Some(_) => json!({ "records": [{ "value": quoted(value) }] }),
            None => json!({ "ttl": TTL_SECS, "records": [{ "value": quoted(value) }] }),
        };
        self.act(&format!("{set}/actions/add_records"), &body).await
    }

    pub async fn cleanup(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        let set = self.set_of(name).await?;
        let values = self.values(&set).await?.unwrap_or_default();
        match values.iter().find(|known| is_value(known, value)) {
            Some(known) => self.act(&format!("{set}/actions/remove_records"), &json!({ "records": [{ "value": known }] })).await,
            None => Ok(()),
        }
    }

    /// The path of the set of TXT records.
    async fn set_of(&self, name: &Domain) -> Result<String, DnsProblem> {
        let remedy = "check that the zone is in the project that the token is of; former zones have to be moved there";
        let zone = self.api.zone_of(name, "/zones", remedy).await?;
        Ok(format!("/zones/{zone}/rrsets/{}/TXT", name.within(&zone)))
    }

    /// `None` where there is no set.
    async fn values(&self, set: &str) -> Result<Option<Vec<String>>, DnsProblem> {
        let Some(answer) = self.api.found(Method::GET, set).await? else { return Ok(None) };
        let json = answer.json()?;
        let records = json["rrset"]["records"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Some(records.iter().filter_map(|record| record["value"].as_str().map(str::to_owned)).collect()))
    }

    async fn act(&self, path: &str, body: &Value) -> Result<(), DnsProblem> {
        let mut answer = self.api.done(Method::POST, path, Some(body)).await?;
        let deadline = Instant::now() + ACTION_LIMIT;
        loop {
            let Some(action) = running(&answer)? else { return Ok(()) };
            if Instant::now() >= deadline {
                return Err(DnsProblem::Unfinished { waited: ACTION_LIMIT });
            }
            sleep(ACTION_PAUSE).await;
            answer = self.api.done(Method::GET, &format!("/actions/{action}"), None).await?;
        }
    }
}

/// The action to ask about again, if it is not done.
fn running(answer: &Answer) -> Result<Option<u64>, DnsProblem> {
    let action = &answer.json()?["action"];
    match (action["status"].as_str(), action["id"].as_u64()) {
        (Some("success"), _) => Ok(None),
        (Some("running"), Some(id)) => Ok(Some(id)),
        (Some("error"), _) => {
            let words = action["error"]["message"].as_str().unwrap_or("the action failed");
            Err(DnsProblem::Refused { answer: line_of(words) })
        }
        (_, _) => Err(DnsProblem::Unintelligible { problem: "it tells of no action".into() }),
    }
}
