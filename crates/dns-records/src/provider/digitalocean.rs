//! DigitalOcean, API version 2. A record is one value; a second record with the same value would be taken, so it is
//! looked for first.

use super::api::{Api, Remedies, is_value};
use crate::fault::DnsProblem;
use crate::name::Domain;
use crate::publisher::TTL_SECS;
use http::Method;
use serde_json::{Value, json};
use tidegate_model::Secret;
use tidegate_outbound::HttpsClient;

const BASE: &str = "https://api.digitalocean.com";
const REMEDIES: Remedies = Remedies {
    credentials: "check `token=`: it has to be a personal access token that has not expired",
    permission: "give the token the scopes `domain:read`, `domain:create` and `domain:delete`, or full access",
    is_about_token: |_| false,
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
        self.api.done(Method::POST, &format!("/v2/domains/{zone}/records"), Some(&record)).await.map(drop)
    }

    pub async fn cleanup(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        let zone = self.zone_of(name).await?;
        for id in self.records(&zone, name, value).await? {
            self.api.found(Method::DELETE, &format!("/v2/domains/{zone}/records/{id}")).await?;
        }
        Ok(())
    }

    async fn zone_of(&self, name: &Domain) -> Result<Domain, DnsProblem> {
        let remedy = "add the domain under Networking / Domains of the team that the token is of";
        self.api.zone_of(name, "/v2/domains", remedy).await
    }

    async fn records(&self, zone: &Domain, name: &Domain, value: &str) -> Result<Vec<u64>, DnsProblem> {
        let mut ids = Vec::new();
        for page in 1..=PAGES_MAX {
            let path = format!("/v2/domains/{zone}/records?type=TXT&name={name}&per_page={PER_PAGE}&page={page}");
            let json = self.api.done(Method::GET, &path, None).await?.json()?;
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
