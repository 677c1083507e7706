//! DigitalOcean, API version 2. A record is one value; a second record with the same value would be taken, so it is
//! looked for first.

use super::api::{Api, Remedies, is_value};
use crate::fault::DnsProblem;
use crate::name::Domain;
use crate::publisher::TTL_SECS;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tidegate_model::Secret;
use tidegate_outbound::HttpsClient;

const BASE: &str = "https://api.digitalocean.com";
const REMEDIES: Remedies = Remedies {
    credentials: "check `token=`: it has to be a personal access token that has not expired",
    permission: "give the token the scopes `domain:read`, `domain:create` and `domain:delete`, or full access",
};
const PER_PAGE: usize = 200;
/// Of the records of one name.
const PAGES_MAX: usize = 10;

pub struct DigitalOcean {
    api: Api,
}

impl DigitalOcean {
    pub fn new(client: HttpsClient, token: &Secret, base: Option<&str>) -> Result<DigitalOcean, DnsProblem> {
        Ok(DigitalOcean { api: Api::new(client, base.unwrap_or(BASE), Some(token), REMEDIES)? })
    }

    pub async fn present(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        let zone = self.zone_of(name).await?;
        if !self.records(&zone, name, value).await?.is_empty() {
            return Ok(());
        }
        let record = json!({ "type": "TXT", "name": name.within(&zone), "data": value, "ttl": TTL_SECS });
        let answer = self.api.call(Method::POST, &format!("/v2/domains/{zone}/records"), Some(&record)).await?;
        if answer.status.is_success() { Ok(()) } else { Err(self.api.problem(&answer)) }
    }

    pub async fn cleanup(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        let zone = self.zone_of(name).await?;
        for id in self.records(&zone, name, value).await? {
            let answer = self.api.call(Method::DELETE, &format!("/v2/domains/{zone}/records/{id}"), None).await?;
            if !answer.status.is_success() && answer.status != StatusCode::NOT_FOUND {
                return Err(self.api.problem(&answer));
            }
        }
        Ok(())
    }

    async fn zone_of(&self, name: &Domain) -> Result<Domain, DnsProblem> {
        for candidate in name.zone_candidates() {
            let answer = self.api.call(Method::GET, &format!("/v2/domains/{candidate}"), None).await?;
            match answer.status {
                status if status.is_success() => return Ok(candidate),
                StatusCode::NOT_FOUND => {}
                _ => return Err(self.api.problem(&answer)),
            }
        }
        Err(DnsProblem::NoZone { remedy: "add the domain under Networking / Domains of the team that the token is of".into() })
    }

    async fn records(&self, zone: &Domain, name: &Domain, value: &str) -> Result<Vec<u64>, DnsProblem> {
        let mut ids = Vec::new();
        for page in 1..=PAGES_MAX {
            let path = format!("/v2/domains/{zone}/records?type=TXT&name={name}&per_page={PER_PAGE}&page={page}");
            let answer = self.api.call(Method::GET, &path, None).await?;
            if !answer.status.is_success() {
                return Err(self.api.problem(&answer));
            }
            let json = answer.json()?;
            let records = json["domain_records"].as_array().map(Vec::as_slice).unwrap_or_default();
            let own = records.iter().filter(|record| record["data"].as_str().is_some_and(|data| is_value(data, value)));
            ids.extend(own.filter_map(|record| record["id"].as_u64()));
            if json["links"]["pages"]["next"] == Value::Null {
                break;
            }
        }
        Ok(ids)
    }
}
