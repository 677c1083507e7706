//! Dynamic updates (RFC 2136) of a name server, signed with TSIG: one message adds a record or deletes one, and leaves
//! the others of the name as they are. Over TCP, where no address can be forged; over UDP where TCP does not get
//! through.

use super::tsig::{Key, Mismatch, wire};
use crate::ask;
use crate::fault::DnsProblem;
use crate::lookup::Lookup;
use crate::name::Domain;
use crate::publisher::TTL_SECS;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hickory_proto::op::ResponseCode;
use std::net::SocketAddr;
use tidegate_model::{Rfc2136, TsigKey};
use tidegate_outbound::spelt;
use zeroize::Zeroizing;

const OPCODE_UPDATE: u8 = 5;
const TYPE_SOA: u16 = 6;
const TYPE_TXT: u16 = 16;
const CLASS_IN: u16 = 1;
/// The class that says: delete this record.
const CLASS_NONE: u16 = 254;

pub struct Updater {
    server: SocketAddr,
    key: Option<Key>,
    zone: Option<Domain>,
    lookup: Lookup,
}

impl Updater {
    pub fn new(settings: &Rfc2136, lookup: Lookup) -> Result<Updater, DnsProblem> {
        let key = settings.key.as_ref().map(key_of).transpose()?;
        let zone = settings.zone.as_deref().map(Domain::parse).transpose().map_err(DnsProblem::Lookup)?;
        Ok(Updater { server: settings.server, key, zone, lookup })
    }

    pub async fn present(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        self.update(name, value, CLASS_IN, TTL_SECS).await
    }

    pub async fn cleanup(&self, name: &Domain, value: &str) -> Result<(), DnsProblem> {
        self.update(name, value, CLASS_NONE, 0).await
    }

    async fn update(&self, name: &Domain, value: &str, class: u16, ttl_secs: u32) -> Result<(), DnsProblem> {
        let zone = self.zone_of(name).await?;
        let id: u16 = rand::random();
        let message = message(id, &zone, name, value, class, ttl_secs);
        let now_secs = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default();
        let (bytes, mac) = match &self.key {
            Some(key) => key.sign(&message, now_secs),
            None => (message, Vec::new()),
        };
        let answer = match ask::over_tcp(self.server, &bytes).await {
            Ok(answer) => answer,
            Err(error) => ask::over_udp(self.server, &bytes)
                .await
                .map_err(|_| DnsProblem::Refused { answer: format!("{} {}", self.server, ask::reason(&error)) })?,
        };
        if answer.get(..2) != Some(&id.to_be_bytes()) || answer.len() < 12 {
            return Err(DnsProblem::Unintelligible { problem: format!("{} answers something else", self.server) });
        }
        let signature = self.key.as_ref().map_or(Ok(()), |key| key.verify(&answer, &mac, now_secs));
        let code = ResponseCode::from(0, answer[3] & 0x0f);
        self.verdict(code, signature, &zone)
    }

    fn verdict(&self, code: ResponseCode, signature: Result<(), Mismatch>, zone: &Domain) -> Result<(), DnsProblem> {
        let server = self.server;
        let credentials = |answer: String, remedy: &str| Err(DnsProblem::Credentials { answer, remedy: remedy.into() });
        match (code, signature) {
            (ResponseCode::NoError, Ok(())) => Ok(()),
            (_, Err(Mismatch::UnknownKey)) => credentials(
                format!("{server} says BADKEY"),
                "check `key-name=` and `key-algorithm=` against the server's `key` statement",
            ),
            (_, Err(Mismatch::OtherSecret)) => {
                credentials(format!("{server} says BADSIG"), "check `key-secret=`: the server has another secret for this key")
            }
            (_, Err(Mismatch::Clock)) => credentials(
                format!("{server} says BADTIME"),
                "set this machine's clock and the server's: they differ by more than five minutes",
            ),
            (ResponseCode::NoError, Err(mismatch @ (Mismatch::Unsigned | Mismatch::Malformed | Mismatch::Forged))) => {
                Err(DnsProblem::Unintelligible { problem: format!("that of {server} {mismatch}") })
            }
            (ResponseCode::Refused, _) => Err(DnsProblem::Permission {
                answer: format!("{server} says REFUSED"),
                remedy: format!("let the key update TXT records of {zone}: `update-policy` or `allow-update` of the zone"),
            }),
            (ResponseCode::NotAuth | ResponseCode::NotZone, _) => {
                let problem = format!("{server} is not the primary server of {zone}: it says {}", spelt(code));
                Err(DnsProblem::Settings { problem, remedy: "check `server=` and `zone=`".into() })
            }
            (code, _) => {
                let answer = format!("{server} says {}", spelt(code));
                Err(DnsProblem::Refused { answer })
            }
        }
    }

    /// By the server itself, which may have a zone that others do not see; where it does not say, by the resolver.
    async fn zone_of(&self, name: &Domain) -> Result<Domain, DnsProblem> {
        if let Some(zone) = &self.zone {
            return Ok(zone.clone());
        }
        for candidate in name.and_ancestors() {
            match ask::has_soa(self.server, &candidate).await {
                Ok(true) => return Ok(candidate),
                Ok(false) => {}
                Err(_) => break,
            }
        }
        let zone = self.lookup.zone_of(name.as_str()).await.and_then(|zone| Domain::parse(&zone));
        zone.map_err(DnsProblem::Lookup)
    }
}

fn key_of(key: &TsigKey) -> Result<Key, DnsProblem> {
    let name = Domain::parse(&key.name).map_err(DnsProblem::Lookup)?;
    let secret = STANDARD.decode(key.secret.reveal().trim()).map(Zeroizing::new).map_err(|_| DnsProblem::Settings {
        problem: "`key-secret=` is no base64".into(),
        remedy: "give it as `tsig-keygen` writes it".into(),
    })?;
    Ok(Key::new(&name, key.algorithm, &secret))
}

/// Header, the zone as a question for its SOA, and one record to add or to delete (RFC 2136 sections 2 and 3.4).
fn message(id: u16, zone: &Domain, name: &Domain, value: &str, class: u16, ttl_secs: u32) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([OPCODE_UPDATE << 3, 0]);
    for count in [1u16, 0, 1, 0] {
        bytes.extend(count.to_be_bytes());
    }
    bytes.extend(wire(zone.as_str()));
    bytes.extend(TYPE_SOA.to_be_bytes());
    bytes.extend(CLASS_IN.to_be_bytes());
    bytes.extend(wire(name.as_str()));
    bytes.extend(TYPE_TXT.to_be_bytes());
    bytes.extend(class.to_be_bytes());
    bytes.extend(ttl_secs.to_be_bytes());
    // The publisher lets no value through that is longer than one string.
    bytes.extend((value.len() as u16 + 1).to_be_bytes());
    bytes.push(value.len() as u8);
    bytes.extend(value.as_bytes());
    bytes
}
