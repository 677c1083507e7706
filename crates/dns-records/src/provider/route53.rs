//! Amazon Route 53. All values of a name are one set there, which is replaced as a whole: the change takes the set as
//! it was read away and creates the new one, in one transaction that fails when somebody else changed it meanwhile.
//! Then it is read again.

use super::api::{is_value, quoted};
use super::sigv4::{self, Credentials, Scope, Signable};
use super::xml;
use crate::fault::{DnsProblem, line_of, without_secrets};
use crate::name::Domain;
use crate::publisher::TTL_SECS;
use bytes::Bytes;
use http::{Request, StatusCode, Uri};
use jiff::Timestamp;
use std::time::Duration;
use tidegate_outbound::{HttpsClient, Limits};
use tokio::time::{Instant, sleep};

const BASE: &str = "https://route53.amazonaws.com";
const VERSION: &str = "/2013-04-01";
/// The service is everywhere and signed for here.
const SCOPE: Scope = Scope { region: "us-east-1", service: "route53" };
const LIMITS: Limits = Limits { total: Duration::from_secs(30), body_bytes_max: 1 << 20 };
/// Until all of its servers have a change; it takes a minute at most by the documentation.
const SYNC_LIMIT: Duration = Duration::from_secs(120);
const SYNC_PAUSE_FIRST: Duration = Duration::from_millis(500);
const SYNC_PAUSE_MAX: Duration = Duration::from_secs(8);
/// Times that a set is read again because somebody else changed it.
const ATTEMPTS_MAX: usize = 5;

pub struct Route53 {
    client: HttpsClient,
    credentials: Credentials,
    base: String,
    host: String,
    zone: ZoneChoice,
}

/// What the configuration says about the zone.
enum ZoneChoice {
    /// The zone is looked for among those of the account.
    Look,
    Id(String),
    Name(Domain),
}

/// All TXT values of a name, quoted, in the order in which they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Set {
    ttl: u32,
    values: Vec<String>,
}

struct Route53Answer {
    status: StatusCode,
    text: String,
}

impl Route53 {
    pub fn new(
        client: HttpsClient,
        credentials: Credentials,
        zone: Option<&str>,
        base: Option<&str>,
    ) -> Result<Route53, DnsProblem> {
        let base = base.unwrap_or(BASE).trim_end_matches('/').to_owned();
        let unusable =
            |problem: String| DnsProblem::Settings { problem, remedy: "give the API's address as `https://…`".into() };
        let uri = base.parse::<Uri>().map_err(|error| unusable(format!("`{base}` is not a URL: {error}")))?;
        let host = uri.authority().map(ToString::to_string).ok_or_else(|| unusable(format!("`{base}` names no host")))?;
        let zone = match zone.map(|zone| zone.trim_start_matches("/hostedzone/")) {
            None => ZoneChoice::Look,
            Some(name) if name.contains('.') => ZoneChoice::Name(Domain::parse(name).map_err(DnsProblem::Lookup)?),
            Some(id) => ZoneChoice::Id(checked_id(id)?),
        };
        Ok(Route53 { client, credentials, base, host, zone })
    }

    pub async fn present(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        let add = |set: Option<&Set>| {
            let before = set.cloned().unwrap_or(Set { ttl: TTL_SECS, values: Vec::new() });
            let is_there = before.values.iter().any(|known| is_value(known, value));
            (!is_there).then(|| Set { values: before.values.into_iter().chain([quoted(value)]).collect(), ttl: before.ttl })
        };
        match self.change(name, add).await? {
            Some(change) => self.in_sync(&change).await,
            None => Ok(()),
        }
    }

    pub async fn cleanup(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        let remove = |set: Option<&Set>| {
            let before = set?;
            let values: Vec<String> = before.values.iter().filter(|known| !is_value(known, value)).cloned().collect();
            (values.len() < before.values.len()).then_some(Set { ttl: before.ttl, values })
        };
        // Nobody waits for its end.
        self.change(name, remove).await.map(|_| ())
    }

    /// The identifier of the change; `None` when there was nothing to change.
    async fn change(&self, name: &Domain, next: impl Fn(Option<&Set>) -> Option<Set>) -> Result<Option<String>, DnsProblem> {
        let zone = self.zone_of(name).await?;
        let mut answer = None;
        for _ in 0..ATTEMPTS_MAX {
            let before = self.read(&zone, name).await?;
            let Some(after) = next(before.as_ref()) else { return Ok(None) };
            let body = batch(name, before.as_ref(), &after);
            let said = self.call("POST", &format!("{VERSION}/hostedzone/{zone}/rrset/"), "", body.into_bytes()).await?;
            if said.status.is_success() {
                let id = xml::first(&said.text, "Id").map(|id| id.trim_start_matches("/change/")).unwrap_or_default();
                return checked_id(id).map(Some);
            }
            // Somebody was faster: `but it already exists`, `but the values provided do not match the current values`.
            if !said.text.contains("InvalidChangeBatch") {
                return Err(problem(&said));
            }
            answer = Some(said);
        }
        match answer {
            Some(said) => Err(DnsProblem::Refused { answer: words(&said) }),
            None => Err(DnsProblem::Unfinished { waited: Duration::ZERO }),
        }
    }

    async fn in_sync(&self, change: &str) -> Result<(), DnsProblem> {
        let deadline = Instant::now() + SYNC_LIMIT;
        let mut pause = SYNC_PAUSE_FIRST;
        loop {
            let said = self.get(&format!("{VERSION}/change/{change}"), "").await?;
            match xml::first(&said.text, "Status") {
                Some("INSYNC") => return Ok(()),
                Some("PENDING") => {}
                _ => return Err(DnsProblem::Unintelligible { problem: "it does not tell the change's status".into() }),
            }
            if Instant::now() + pause >= deadline {
                return Err(DnsProblem::Unfinished { waited: SYNC_LIMIT });
            }
            sleep(pause).await;
            pause = (pause * 2).min(SYNC_PAUSE_MAX);
        }
    }

    async fn zone_of(&self, name: &Domain) -> Result<String, DnsProblem> {
        let candidates: Vec<Domain> = match &self.zone {
            ZoneChoice::Id(id) => return Ok(id.clone()),
            ZoneChoice::Name(zone) => vec![zone.clone()],
            ZoneChoice::Look => name.zone_candidates().collect(),
        };
        for candidate in candidates {
            let said = self.get(&format!("{VERSION}/hostedzonesbyname"), &format!("dnsname={candidate}&maxitems=10")).await?;
            let is_public = |zone: &&str| xml::first(zone, "PrivateZone") != Some("true");
            let is_it =
                |zone: &&str| xml::first(zone, "Name").is_some_and(|name| name.trim_end_matches('.') == candidate.as_str());
            let found: Vec<&str> = xml::all(&said.text, "HostedZone").filter(is_it).filter(is_public).collect();
            match found.as_slice() {
                [] => {}
                [zone] => return checked_id(xml::first(zone, "Id").unwrap_or_default().trim_start_matches("/hostedzone/")),
                [..] => {
                    let problem = format!("the account has several public zones named {candidate}");
                    return Err(DnsProblem::Settings { problem, remedy: "say which with `zone=` and the zone's ID".into() });
                }
            }
        }
        Err(DnsProblem::NoZone {
            remedy: "check that a public hosted zone of this account holds it, or give its ID with `zone=`".into(),
        })
    }

    async fn read(&self, zone: &str, name: &Domain) -> Result<Option<Set>, DnsProblem> {
        // The list begins at this name and type; what comes first may be behind it.
        let said = self.get(&format!("{VERSION}/hostedzone/{zone}/rrset"), &format!("maxitems=1&name={name}&type=TXT")).await?;
        let is_it = |set: &&str| {
            let is_name = xml::first(set, "Name").is_some_and(|at| at.trim_end_matches('.') == name.as_str());
            is_name && xml::first(set, "Type") == Some("TXT")
        };
        let Some(set) = xml::all(&said.text, "ResourceRecordSet").find(is_it) else { return Ok(None) };
        if xml::first(set, "SetIdentifier").is_some() {
            let answer = "its TXT records have a routing policy, so they are not one set".to_owned();
            return Err(DnsProblem::Refused { answer });
        }
        let values = xml::all(set, "Value").map(xml::unescaped).collect();
        let ttl = xml::first(set, "TTL").and_then(|ttl| ttl.parse().ok());
        let ttl = ttl.ok_or_else(|| DnsProblem::Unintelligible { problem: "a set of records has no TTL".into() })?;
        Ok(Some(Set { ttl, values }))
    }

    async fn get(&self, path: &str, query: &str) -> Result<Route53Answer, DnsProblem> {
        let said = self.call("GET", path, query, Vec::new()).await?;
        if said.status.is_success() { Ok(said) } else { Err(problem(&said)) }
    }

    async fn call(&self, method: &str, path: &str, query: &str, body: Vec<u8>) -> Result<Route53Answer, DnsProblem> {
        let stamp = sigv4::stamp(Timestamp::now());
        let mut headers = vec![("host", self.host.as_str()), ("x-amz-date", stamp.as_str())];
        if let Some(token) = &self.credentials.session_token {
            headers.push(("x-amz-security-token", token.reveal()));
        }
        let signable = Signable { method, path, query, headers: &headers, body: &body };
        let authorization = sigv4::authorization(&signable, &self.credentials, &SCOPE, &stamp);
        let separator = if query.is_empty() { "" } else { "?" };
        let mut request = Request::builder().method(method).uri(format!("{}{path}{separator}{query}", self.base));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.header("authorization", authorization).header("content-type", "text/xml").body(Bytes::from(body));
        let request = request.map_err(|error| DnsProblem::Settings {
            problem: format!("no request can be made of the settings: {error}"),
            remedy: "check `access-key=` and the session token for characters that do not belong there".into(),
        })?;
        let answer = self.client.send(request, LIMITS).await.map_err(DnsProblem::Unreachable)?;
        let (head, body) = answer.into_parts();
        // A signature that does not match is answered with all that was signed, the session token too.
        let secrets = [Some(&self.credentials.secret_key), self.credentials.session_token.as_ref()];
        let text = without_secrets(&String::from_utf8_lossy(&body), secrets.into_iter().flatten());
        Ok(Route53Answer { status: head.status, text })
    }
}

/// Identifiers go into paths.
fn checked_id(id: &str) -> Result<String, DnsProblem> {
    if !id.is_empty() && id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(id.to_owned());
    }
    Err(DnsProblem::Unintelligible { problem: format!("`{}` is not an identifier", line_of(id)) })
}

fn batch(name: &Domain, before: Option<&Set>, after: &Set) -> String {
    let change = |action: &str, set: &Set| {
        let records = set.values.iter().fold(String::new(), |records, value| {
            records + "<ResourceRecord><Value>" + &xml::escaped(value) + "</Value></ResourceRecord>"
        });
        format!(
            "<Change><Action>{action}</Action><ResourceRecordSet><Name>{name}.</Name><Type>TXT</Type><TTL>{}</TTL>\
             <ResourceRecords>{records}</ResourceRecords></ResourceRecordSet></Change>",
            set.ttl
        )
    };
    let mut changes = before.map(|set| change("DELETE", set)).unwrap_or_default();
    if !after.values.is_empty() {
        changes.push_str(&change("CREATE", after));
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
         <ChangeResourceRecordSetsRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\">\
         <ChangeBatch><Changes>{changes}</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>"
    )
}

fn words(answer: &Route53Answer) -> String {
    let code = xml::first(&answer.text, "Code").map(|code| format!(" ({})", line_of(code))).unwrap_or_default();
    let message = xml::first(&answer.text, "Message").map(|text| line_of(&xml::unescaped(text))).unwrap_or_default();
    let separator = if message.is_empty() && code.is_empty() { "" } else { ", " };
    format!("{}{separator}{message}{code}", answer.status)
}

fn problem(said: &Route53Answer) -> DnsProblem {
    let answer = words(said);
    match xml::first(&said.text, "Code").unwrap_or_default() {
        "InvalidClientTokenId" | "UnrecognizedClientException" => {
            DnsProblem::Credentials { answer, remedy: "check `access-key=`: AWS does not know it, or it is not active".into() }
        }
        "ExpiredToken" | "ExpiredTokenException" => {
            DnsProblem::Credentials { answer, remedy: "the credentials were for a time that is over; get new ones".into() }
        }
        "SignatureDoesNotMatch" | "IncompleteSignature" | "RequestExpired" => {
            let remedy = "check `secret-key=`, and that this machine's clock is right".into();
            DnsProblem::Credentials { answer, remedy }
        }
        "AccessDenied" | "AccessDeniedException" | "NotAuthorizedException" => DnsProblem::Permission {
            answer,
            remedy: "allow route53:ListHostedZonesByName, ListResourceRecordSets, ChangeResourceRecordSets and GetChange".into(),
        },
        "NoSuchHostedZone" => DnsProblem::NoZone { remedy: "check the ID that `zone=` gives".into() },
        "Throttling" | "ThrottlingException" => DnsProblem::RateLimited { answer, retry_after: None },
        // The account's last change is still under way.
        "PriorRequestNotComplete" => DnsProblem::RateLimited { answer, retry_after: None },
        _ if said.status == StatusCode::TOO_MANY_REQUESTS => DnsProblem::RateLimited { answer, retry_after: None },
        _ => DnsProblem::Refused { answer },
    }
}
