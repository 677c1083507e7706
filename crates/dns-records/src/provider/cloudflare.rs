//! Cloudflare, API version 4, with an API token. A record is one value, so values stand beside each other by
//! themselves.

use super::api::{Answer, Api, Remedies, is_value, quoted};
use crate::fault::DnsProblem;
use crate::name::Domain;
use crate::publisher::TTL_SECS;
use http::Method;
use serde_json::{Value, json};
use tidegate_model::Secret;
use tidegate_outbound::HttpsClient;

const BASE: &str = "https://api.cloudflare.com/client/v4";
const REMEDIES: Remedies = Remedies {
    credentials: "check `token=`: it has to be an API token, not the global API key, and still be active",
    permission: "give the API token the permissions Zone / DNS / Edit and Zone / Zone / Read for this zone",
    is_about_token,
};
/// A token in a form that cannot be one comes back as 400.
const MALFORMED_TOKEN: &[i64] = &[6003, 6111];
/// The same record is there.
const EXISTS: &[i64] = &[81057, 81058];
const PER_PAGE: usize = 100;
/// Of the records of one name.
const PAGES_MAX: usize = 10;

pub struct Cloudflare {
    api: Api,
}

impl Cloudflare {
    pub fn new(client: HttpsClient, token: &Secret, base: Option<&str>) -> Result<Cloudflare, DnsProblem> {
        Ok(Cloudflare { api: Api::new(client, base.unwrap_or(BASE), Some(token), REMEDIES)? })
    }

    pub async fn present(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        let zone = self.zone_of(name).await?;
        let record = json!({ "type": "TXT", "name": name.as_str(), "content": quoted(value), "ttl": TTL_SECS });
        let answer = self.api.call(Method::POST, &format!("/zones/{zone}/dns_records"), Some(&record)).await?;
        if answer.status.is_success() || codes(&answer).iter().any(|code| EXISTS.contains(code)) {
            return Ok(());
        }
        Err(self.api.problem(&answer))
    }

    pub async fn cleanup(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        let zone = self.zone_of(name).await?;
        for id in self.records(&zone, name, value).await? {
            self.api.found(Method::DELETE, &format!("/zones/{zone}/dns_records/{id}")).await?;
        }
        Ok(())
    }

    async fn zone_of(&self, name: &Domain) -> Result<String, DnsProblem> {
        // No zone there begins with an underscore, and asking for one is an error.
        for candidate in name.zone_candidates().filter(|candidate| !candidate.as_str().starts_with('_')) {
            let answer = self.result(&format!("/zones?name={candidate}")).await?;
            let zones = answer["result"].as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(zone) = zones.iter().find(|zone| zone["name"].as_str() == Some(candidate.as_str())) {
                return id_of(zone);
            }
        }
        Err(DnsProblem::NoZone {
            remedy: "check that the zone is in this account, and that the token is for it (Zone Resources)".into(),
        })
    }

    async fn records(&self, zone: &str, name: &Domain, value: &str) -> Result<Vec<String>, DnsProblem> {
        let mut ids = Vec::new();
        for page in 1..=PAGES_MAX {
            let answer =
                self.result(&format!("/zones/{zone}/dns_records?type=TXT&name={name}&per_page={PER_PAGE}&page={page}")).await?;
            let records = answer["result"].as_array().map(Vec::as_slice).unwrap_or_default();
            for record in records.iter().filter(|record| record["content"].as_str().is_some_and(|text| is_value(text, value))) {
                ids.push(id_of(record)?);
            }
            if records.len() < PER_PAGE {
                break;
            }
        }
        Ok(ids)
    }

    async fn result(&self, path: &str) -> Result<Value, DnsProblem> {
        self.api.done(Method::GET, path, None).await?.json()
    }
}

/// One code stands for a token that is none and for one that lacks a permission.
fn is_about_token(answer: &Answer) -> bool {
    let codes = codes(answer);
    let is_unknown = codes.contains(&9109) && String::from_utf8_lossy(&answer.body).contains("Invalid access token");
    is_unknown || codes.iter().any(|code| MALFORMED_TOKEN.contains(code))
}

/// Identifiers go into paths.
fn id_of(object: &Value) -> Result<String, DnsProblem> {
    let id =
        object["id"].as_str().filter(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    id.map(str::to_owned).ok_or_else(|| DnsProblem::Unintelligible { problem: "it has no identifier".into() })
}

/// Of the errors and of what caused them.
fn codes(answer: &Answer) -> Vec<i64> {
    let Ok(json) = answer.json() else { return Vec::new() };
    let errors = json["errors"].as_array().cloned().unwrap_or_default();
    let causes = errors.iter().flat_map(|error| error["error_chain"].as_array().cloned().unwrap_or_default()).collect::<Vec<_>>();
    errors.iter().chain(&causes).filter_map(|error| error["code"].as_i64()).collect()
}
