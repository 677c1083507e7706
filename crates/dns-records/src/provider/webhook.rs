//! A service of the user's: POST of a small JSON object; any 2xx says that it is done. It knows the zones, we do not.

use super::api::{Api, Remedies};
use crate::fault::DnsProblem;
use crate::name::Domain;
use crate::publisher::TTL_SECS;
use http::Method;
use serde_json::json;
use tidegate_model::Secret;
use tidegate_outbound::HttpsClient;

const REMEDIES: Remedies = Remedies {
    credentials: "check `token=`: it is sent as `Authorization: Bearer …`",
    permission: "the service behind `url=` decides what the token may do",
    is_about_token: |_| false,
};

pub struct Webhook {
    api: Api,
}

impl Webhook {
    pub fn new(client: HttpsClient, url: &str, token: Option<&Secret>) -> Result<Webhook, DnsProblem> {
        Ok(Webhook { api: Api::new(client, url, token, REMEDIES)? })
    }

    pub async fn tell(&self, action: &str, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        let body = json!({ "action": action, "name": name.as_str(), "value": value, "ttl": TTL_SECS });
        self.api.done(Method::POST, "", Some(&body)).await.map(drop)
    }
}
