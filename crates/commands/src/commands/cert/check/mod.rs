//! `tidegate cert check`: what a server shows to clients, and what they would complain of. Asking is in `ask.rs` and
//! `old_hello.rs`, judging in `judge.rs`, saying it in `report.rs` and `json.rs`.

mod ask;
mod json;
mod judge;
mod old_hello;
mod report;

use crate::cli::cert::Check;
use crate::commands::{FAILED, fail};
use crate::output;
use ask::{Answer, Oldest};
use jiff::Timestamp;
use judge::Judgement;
use rustls_pki_types::ServerName;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use tidegate_certs::CertificateDescription;

const DEFAULT_PORT: u16 = 443;

/// Whom to ask, by which name.
pub struct Target {
    pub host: String,
    pub name: ServerName<'static>,
    pub port: u16,
}

/// All that was found out.
pub struct Found {
    pub target: Target,
    pub address: SocketAddr,
    pub answer: Answer,
    pub oldest: Oldest,
    /// Leaf first.
    pub chain: Vec<CertificateDescription>,
    pub judgement: Judgement,
    pub now: Timestamp,
}

pub fn run(wanted: &Check) -> ExitCode {
    let now = Timestamp::now();
    let found = match look(wanted, now) {
        Ok(found) => found,
        Err(why) if output::is_json() => {
            println!("{:#}", json::failed(&wanted.host, &why));
            return ExitCode::from(FAILED);
        }
        Err(why) => return fail(&why),
    };
    if output::is_json() {
        println!("{:#}", json::report(&found));
    } else {
        print!("{}", report::report(&found));
    }
    if found.judgement.has_problem() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
}

fn look(wanted: &Check, now: Timestamp) -> Result<Found, String> {
    let target = Target::parse(&wanted.host)?;
    let trusted = judge::Trusted::find(wanted)?;
    let (address, answer, oldest) = ask::ask(&target, wanted.resolve)?;
    let mut chain = Vec::with_capacity(answer.chain.len());
    for (index, der) in answer.chain.iter().enumerate() {
        let described = CertificateDescription::read(der);
        chain.push(described.map_err(|why| format!("number {} of the certificates that came cannot be read: {why}", index + 1))?);
    }
    let judgement = judge::judge(&target, &answer, &oldest, &chain, &trusted, now);
    Ok(Found { target, address, answer, oldest, chain, judgement, now })
}

impl Target {
    /// `example.com`, `example.com:8443`, `[::1]:8443`, and the beginning of a URL of one of them.
    fn parse(text: &str) -> Result<Target, String> {
        let wrong = || format!("`{text}` is not HOST or HOST:PORT\n  help: write `example.com`, `10.0.0.5:8443` or `[::1]:8443`");
        let bare = text.strip_prefix("https://").unwrap_or(text);
        let bare = bare.split('/').next().unwrap_or_default();
        let (host, port) = match bare.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(wrong)?;
                (host, after.strip_prefix(':').or(after.is_empty().then_some("")).ok_or_else(wrong)?)
            }
            // An address of version 6 may stand alone.
            None if bare.parse::<IpAddr>().is_ok() => (bare, ""),
            None => bare.split_once(':').unwrap_or((bare, "")),
        };
        let port = if port.is_empty() { DEFAULT_PORT } else { port.parse().map_err(|_| wrong())? };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let name = ServerName::try_from(host.clone()).map_err(|_| wrong())?;
        Ok(Target { host, name, port })
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn whom_to_ask() {
        let check = |text: &str, expected: Option<(&str, u16)>| {
            let seen = Target::parse(text).ok().map(|target| (target.host, target.port));
            assert_eq!(seen, expected.map(|(host, port)| (host.to_owned(), port)), "{text}");
        };
        check("example.com", Some(("example.com", 443)));
        check("Example.com.:8443", Some(("example.com", 8443)));
        check("https://example.com/a?b", Some(("example.com", 443)));
        check("10.0.0.5:8443", Some(("10.0.0.5", 8443)));
        check("::1", Some(("::1", 443)));
        check("[::1]:8443", Some(("::1", 8443)));
        check("[::1]", Some(("::1", 443)));
        check("example.com:", Some(("example.com", 443)));
        check("example.com:99999", None);
        check("[::1]8443", None);
        check("", None);
        check("a b", None);
    }
}
