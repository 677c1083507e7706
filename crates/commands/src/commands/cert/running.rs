//! `tidegate cert list`, `show`, `renew` and `revoke`: certificates of the process that runs, asked through its admin
//! endpoint.

use crate::cli::Running;
use crate::commands::reach;
use crate::commands::status::{expiry, fault, time};
use crate::commands::table::{labelled, table};
use crate::output;
use jiff::Timestamp;
use std::process::ExitCode;
use tidegate_admin::client::{Client, ClientFault, path_segment};
use tidegate_api::{Certificate, CertificateChanged, Certificates, NoOptions, RevokeRequest, Staple};

pub fn list(running: &Running) -> ExitCode {
    reach::with(reach::running(running), |client| {
        if output::is_json() {
            println!("{}", client.fetch_text("/v1/certificates")?);
            return Ok(());
        }
        print!("{}", page_of_all(&all(client)?, Timestamp::now()));
        Ok(())
    })
}

pub fn show(name: &str, running: &Running) -> ExitCode {
    let mut is_there = false;
    let code = reach::with(reach::running(running), |client| {
        let certificates = all(client)?;
        let of_name: Vec<&Certificate> = certificates.iter().filter(|one| is_of(one, name)).collect();
        is_there = !of_name.is_empty();
        if is_there {
            let page = |one: &&Certificate| page_of_one(one, Timestamp::now());
            output::say(&of_name, || of_name.iter().map(page).collect::<Vec<_>>().join("\n"));
        }
        Ok(())
    });
    if code != ExitCode::SUCCESS || is_there {
        return code;
    }
    super::super::fail(&format!(
        "no certificate that is served has the name `{}`\n  help: `tidegate cert list` has those that are",
        name.escape_debug()
    ))
}

pub fn renew(name: &str, running: &Running) -> ExitCode {
    reach::with(reach::running(running), |client| {
        let changed: CertificateChanged = client.post(&path(name, "renew"), &NoOptions {}, None)?;
        output::say(&changed, || format!("{}\n", outcome(&changed, "renewed")));
        Ok(())
    })
}

pub fn revoke(name: &str, reason: Option<String>, running: &Running) -> ExitCode {
    reach::with(reach::running(running), |client| {
        let changed: CertificateChanged = client.post(&path(name, "revoke"), &RevokeRequest { reason }, None)?;
        output::say(&changed, || format!("{}\n", outcome(&changed, "revoked; another one is obtained")));
        Ok(())
    })
}

fn path(name: &str, word: &str) -> String {
    format!("/v1/certificates/{}/{word}", path_segment(name))
}

fn outcome(changed: &CertificateChanged, done: &str) -> String {
    if changed.done {
        format!("{}: {done}", changed.name)
    } else {
        format!("{0}: on its way; `tidegate cert show {0}` says how it goes", changed.name)
    }
}

fn all(client: &Client) -> Result<Vec<Certificate>, ClientFault> {
    let certificates: Certificates = client.fetch("/v1/certificates")?;
    Ok(certificates.certificates)
}

/// By its own name, or by a wildcard that it is for.
fn is_of(certificate: &Certificate, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let wildcard = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
    certificate.names.iter().any(|known| *known == name || Some(known) == wildcard.as_ref())
}

fn page_of_all(certificates: &[Certificate], now: Timestamp) -> String {
    if certificates.is_empty() {
        return "no site has a certificate\n".to_owned();
    }
    let row = |one: &Certificate| {
        let renewed = one.obtained.as_ref().and_then(|obtained| obtained.renew_at).map_or_else(String::new, time);
        vec![one.names.join(" "), one.source.as_str().to_owned(), one.state.as_str().to_owned(), expiry(one, now), renewed]
    };
    let rows: Vec<Vec<String>> = certificates.iter().map(row).collect();
    let mut page = table(&["NAME", "FROM", "STATE", "ENDS", "RENEWAL (UTC)"], &rows);
    let faults: Vec<String> = certificates.iter().filter_map(fault).collect();
    if !faults.is_empty() {
        page.push('\n');
        page.push_str(&faults.concat());
    }
    page
}

fn page_of_one(one: &Certificate, now: Timestamp) -> String {
    let mut page = String::new();
    let mut row = |label: &str, text: &str| {
        if !text.is_empty() {
            page.push_str(&labelled(label, text));
        }
    };
    row("names", &one.names.join(" "));
    row("site", &one.site);
    row("from", one.source.as_str());
    row("files", &one.files.join(" "));
    row("state", one.state.as_str());
    row("key", one.key.as_deref().unwrap_or_default());
    row("valid from", &one.not_before.map(time).unwrap_or_default());
    if let Some(end) = one.not_after {
        row("valid until", &format!("{}, {}", time(end), expiry(one, now)));
    }
    if let Some(obtained) = &one.obtained {
        row("issued by", obtained.directory.as_deref().unwrap_or_default());
        row("serial", obtained.serial.as_deref().unwrap_or_default());
        row("renewed at", &obtained.renew_at.map(time).unwrap_or_default());
        if let Some(fault) = &obtained.fault {
            row("fault", &format!("{}: {}", time(fault.at), fault.cause));
            row("remedy", &fault.remedy);
        }
        if obtained.failures_in_a_row > 0 {
            row("failures", &format!("{} in a row", obtained.failures_in_a_row));
        }
        row("tried again", &obtained.next_attempt_at.map(time).unwrap_or_default());
    }
    if let Some(staple) = &one.staple {
        row("OCSP staple", &staple_text(staple));
        row("  responder", staple.responder.as_deref().unwrap_or_default());
        if let Some(fault) = &staple.fault {
            row("  fault", &format!("{}: {}", time(fault.at), fault.cause));
            row("  remedy", &fault.remedy);
        }
        row("  asked again", &staple.next_question_at.map(time).unwrap_or_default());
    }
    page
}

/// `stapled until …`, or why not.
fn staple_text(staple: &Staple) -> String {
    let state = match (staple.until, staple.revoked_at) {
        (_, Some(at)) => format!("none: the certificate was revoked at {}", time(at)),
        (Some(until), None) => format!("{} until {}", staple.state.as_str(), time(until)),
        (None, None) => format!("none: {}", staple.state.as_str()),
    };
    if staple.required && staple.until.is_none() { state + "; browsers refuse the certificate without one" } else { state }
}

#[cfg(test)]
mod tests {
    use super::{is_of, page_of_all, page_of_one};
    use jiff::Timestamp;
    use tidegate_api::{Certificate, CertificateFault, CertificateSource, CertificateState, Obtained, Staple, StapleState};

    fn failing() -> Certificate {
        Certificate {
            site: "https://a.example".into(),
            source: CertificateSource::Acme,
            files: Vec::new(),
            names: vec!["a.example".into()],
            state: CertificateState::Missing,
            not_before: None,
            not_after: None,
            key: None,
            obtained: Some(Obtained {
                serial: None,
                directory: None,
                renew_at: None,
                failures_in_a_row: 2,
                fault: Some(CertificateFault {
                    at: "2026-11-20T11:00:00Z".parse().unwrap(),
                    cause: "a.example has no address".into(),
                    remedy: "add an A or AAAA record".into(),
                }),
                next_attempt_at: Some("2026-11-20T13:00:00Z".parse().unwrap()),
            }),
            staple: None,
        }
    }

    #[test]
    fn what_is_in_the_way_stands_below_the_list_and_in_the_page_of_the_name() {
        let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
        assert_eq!(
            page_of_all(&[failing()], now),
            "\
NAME       FROM  STATE    ENDS     RENEWAL (UTC)
a.example  acme  missing  MISSING

a.example: a.example has no address; add an A or AAAA record; tried again at 2026-11-20 13:00:00
"
        );
        assert_eq!(
            page_of_one(&failing(), now),
            "\
names         a.example
site          https://a.example
from          acme
state         missing
fault         2026-11-20 11:00:00: a.example has no address
remedy        add an A or AAAA record
failures      2 in a row
tried again   2026-11-20 13:00:00
"
        );
    }

    #[test]
    fn what_is_stapled_is_shown_and_a_fault_only_where_browsers_insist_on_it() {
        let stapled = Staple {
            state: StapleState::Stapled,
            required: true,
            responder: Some("http://ocsp.example/".into()),
            until: Some("2026-11-27T12:00:00Z".parse().unwrap()),
            revoked_at: None,
            next_question_at: Some("2026-11-24T12:00:00Z".parse().unwrap()),
            failures_in_a_row: 0,
            fault: None,
        };
        let refused = Staple {
            state: StapleState::Failing,
            until: None,
            failures_in_a_row: 1,
            fault: Some(CertificateFault {
                at: "2026-11-20T11:00:00Z".parse().unwrap(),
                cause: "it hangs".into(),
                remedy: "wait".into(),
            }),
            ..stapled.clone()
        };
        let optional = Staple { required: false, ..refused.clone() };
        let revoked =
            Staple { state: StapleState::Revoked, revoked_at: Some("2026-11-19T00:00:00Z".parse().unwrap()), ..optional.clone() };
        let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
        let check = |staple: Staple, shown: &str, listed: &str| {
            let certificate = Certificate { obtained: None, staple: Some(staple), ..failing() };
            let page = page_of_one(&certificate, now);
            assert!(page.contains(&format!("OCSP staple   {shown}\n")), "{page}");
            let list = page_of_all(&[certificate], now);
            assert_eq!(list.split_once("\n\n").map_or("", |(_, faults)| faults), listed);
        };
        check(stapled, "stapled until 2026-11-27 12:00:00", "");
        check(optional, "none: failing", "");
        check(
            refused,
            "none: failing; browsers refuse the certificate without one",
            "a.example: browsers refuse this certificate without a staple, and there is none: it hangs; wait\n",
        );
        check(
            revoked,
            "none: the certificate was revoked at 2026-11-19 00:00:00",
            "a.example: revoked by its CA at 2026-11-19 00:00:00; have another one issued\n",
        );
    }

    #[test]
    fn certificates_are_found_by_their_names() {
        let wildcard = Certificate { names: vec!["*.a.example".into()], ..failing() };
        let check =
            |certificate: &Certificate, name: &str, expected: bool| assert_eq!(is_of(certificate, name), expected, "{name}");
        check(&failing(), "a.example", true);
        check(&failing(), "A.Example", true);
        check(&failing(), "b.a.example", false);
        check(&wildcard, "b.a.example", true);
        check(&wildcard, "*.a.example", true);
        check(&wildcard, "c.b.a.example", false);
    }
}
