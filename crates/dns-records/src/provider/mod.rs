//! Who publishes records: the closed set of providers. Each adds one TXT value to a name and takes it away again; both
//! may be repeated, and neither touches another value. What a provider's API has in common with the others is in
//! `api.rs`.

mod api;
mod cloudflare;
mod digitalocean;
mod exec;
mod hetzner;
mod rfc2136;
mod route53;
mod sigv4;
mod tsig;
mod webhook;
mod xml;

use crate::fault::DnsProblem;
use crate::lookup::Lookup;
use crate::name::Domain;
use tidegate_model::DnsProvider;
use tidegate_outbound::HttpsClient;

pub enum Provider {
    Exec(exec::Exec),
    Webhook(webhook::Webhook),
    Rfc2136(Box<rfc2136::Updater>),
    Cloudflare(cloudflare::Cloudflare),
    Route53(Box<route53::Route53>),
    DigitalOcean(digitalocean::DigitalOcean),
    Hetzner(hetzner::Hetzner),
}

impl Provider {
    pub fn new(provider: &DnsProvider, client: HttpsClient, lookup: Lookup) -> Result<Provider, DnsProblem> {
        Ok(match provider {
            DnsProvider::Exec { command } => Provider::Exec(exec::Exec::new(command.clone())),
            DnsProvider::Webhook { url, token } => Provider::Webhook(webhook::Webhook::new(client, url, token.as_ref())?),
            DnsProvider::Rfc2136(settings) => Provider::Rfc2136(Box::new(rfc2136::Updater::new(settings, lookup)?)),
            DnsProvider::Cloudflare { token, api } => {
                Provider::Cloudflare(cloudflare::Cloudflare::new(client, token, api.as_deref())?)
            }
            DnsProvider::Route53 { access_key, secret_key, session_token, zone, api } => {
                let credentials = sigv4::Credentials {
                    access_key: access_key.clone(),
                    secret_key: secret_key.clone(),
                    session_token: session_token.clone(),
                };
                Provider::Route53(Box::new(route53::Route53::new(client, credentials, zone.as_deref(), api.as_deref())?))
            }
            DnsProvider::DigitalOcean { token, api } => {
                Provider::DigitalOcean(digitalocean::DigitalOcean::new(client, token, api.as_deref())?)
            }
            DnsProvider::Hetzner { token, api } => Provider::Hetzner(hetzner::Hetzner::new(client, token, api.as_deref())?),
        })
    }

    pub async fn present(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        match self {
            Provider::Exec(exec) => exec.run("present", name, value).await,
            Provider::Webhook(webhook) => webhook.tell("present", name, value).await,
            Provider::Rfc2136(updater) => updater.present(name, value).await,
            Provider::Cloudflare(cloudflare) => cloudflare.present(name, value).await,
            Provider::Route53(route53) => route53.present(name, value).await,
            Provider::DigitalOcean(digitalocean) => digitalocean.present(name, value).await,
            Provider::Hetzner(hetzner) => hetzner.present(name, value).await,
        }
    }

    pub async fn cleanup(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        match self {
            Provider::Exec(exec) => exec.run("cleanup", name, value).await,
            Provider::Webhook(webhook) => webhook.tell("cleanup", name, value).await,
            Provider::Rfc2136(updater) => updater.cleanup(name, value).await,
            Provider::Cloudflare(cloudflare) => cloudflare.cleanup(name, value).await,
            Provider::Route53(route53) => route53.cleanup(name, value).await,
            Provider::DigitalOcean(digitalocean) => digitalocean.cleanup(name, value).await,
            Provider::Hetzner(hetzner) => hetzner.cleanup(name, value).await,
        }
    }
}
