//! Route 53's API of 2013-04-01 as its documentation has it: zones in order of their names, sets of records that change
//! in transactions, and changes that take a while. Signatures are checked against published ones beside the code; here
//! it is that there is one.

use crate::api::{Asked, Emulation, Said, said};
use crate::{publisher, publisher_with, run};
use std::fmt::Write;
use tidegate_dns_records::Publisher;
use tidegate_model::{DnsProvider, Secret};

const NAME: &str = "_acme-challenge.www.example.com";

struct Account {
    /// Identifier, name, whether it is private.
    zones: Vec<(&'static str, &'static str, bool)>,
    set: Option<Set>,
    /// How often a change is still pending when it is asked about.
    pending: u32,
    /// Put beside the values by somebody else, after the set was read and before it is changed.
    rival: Option<&'static str>,
    always: Option<Said>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Set {
    ttl: String,
    values: Vec<String>,
}

impl Default for Account {
    fn default() -> Self {
        Account { zones: vec![("Z1", "example.com", false)], set: None, pending: 0, rival: None, always: None }
    }
}

fn error(code: &str, message: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<ErrorResponse xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><Error><Type>Sender</Type>\
         <Code>{code}</Code><Message>{message}</Message></Error><RequestId>b25f48e8</RequestId></ErrorResponse>"
    )
}

fn document(name: &str, content: &str) -> Said {
    said(
        200,
        format!("<?xml version=\"1.0\"?>\n<{name} xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\">{content}</{name}>"),
    )
}

fn answer(account: &mut Account, asked: &Asked) -> Said {
    if let Some(always) = account.always.take() {
        return always;
    }
    let stamp = asked.header("x-amz-date");
    let day = stamp.get(..8).expect("a date");
    let signed = format!(
        "AWS4-HMAC-SHA256 Credential=AKID/{day}/us-east-1/route53/aws4_request, SignedHeaders=host;x-amz-date, Signature="
    );
    assert!(asked.header("authorization").starts_with(&signed), "{}", asked.header("authorization"));
    match (asked.method.as_str(), asked.segments().as_slice()) {
        ("GET", ["2013-04-01", "hostedzonesbyname"]) => {
            let mut found = String::new();
            let from = account.zones.iter().skip_while(|(_, name, _)| *name != asked.parameter("dnsname"));
            for (id, name, is_private) in from {
                let _ = write!(
                    found,
                    "<HostedZone><Id>/hostedzone/{id}</Id><Name>{name}.</Name><CallerReference>x</CallerReference><Config>\
                     <PrivateZone>{is_private}</PrivateZone></Config><ResourceRecordSetCount>2</ResourceRecordSetCount></HostedZone>"
                );
            }
            document(
                "ListHostedZonesByNameResponse",
                &format!("<HostedZones>{found}</HostedZones><IsTruncated>false</IsTruncated>"),
            )
        }
        ("GET", ["2013-04-01", "hostedzone", "Z1", "rrset"]) => {
            assert_eq!((asked.parameter("name"), asked.parameter("type"), asked.parameter("maxitems")), (NAME, "TXT", "1"));
            let shown = account.set.as_ref().map_or_else(
                // What comes next in the zone.
                || "<ResourceRecordSet><Name>a.example.com.</Name><Type>A</Type><TTL>60</TTL></ResourceRecordSet>".to_owned(),
                |set| format!("<ResourceRecordSet>{}</ResourceRecordSet>", written(set)),
            );
            if let (Some(rival), set) = (account.rival.take(), &mut account.set) {
                let set = set.get_or_insert(Set { ttl: "300".into(), values: Vec::new() });
                set.values.push(format!("&quot;{rival}&quot;"));
            }
            document("ListResourceRecordSetsResponse", &format!("<ResourceRecordSets>{shown}</ResourceRecordSets>"))
        }
        ("POST", ["2013-04-01", "hostedzone", "Z1", "rrset"]) => change(account, asked),
        ("GET", ["2013-04-01", "change", "C1"]) => {
            let status = if account.pending == 0 { "INSYNC" } else { "PENDING" };
            account.pending = account.pending.saturating_sub(1);
            document("GetChangeResponse", &format!("<ChangeInfo><Id>/change/C1</Id><Status>{status}</Status></ChangeInfo>"))
        }
        _ => said(404, error("NoSuchHostedZone", "No hosted zone found with ID")),
    }
}

fn written(set: &Set) -> String {
    let values = set
        .values
        .iter()
        .map(|value| format!("<ResourceRecord><Value>{value}</Value></ResourceRecord>"))
        .collect::<Vec<_>>()
        .concat();
    format!("<Name>{NAME}.</Name><Type>TXT</Type><TTL>{}</TTL><ResourceRecords>{values}</ResourceRecords>", set.ttl)
}

/// All changes of a batch, or none.
fn change(account: &mut Account, asked: &Asked) -> Said {
    assert_eq!(asked.header("content-type"), "text/xml");
    assert!(asked.body.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?><ChangeResourceRecordSetsRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><ChangeBatch><Changes>"));
    let between = |text: &str, name: &str| {
        text.split(&format!("<{name}>"))
            .skip(1)
            .map(|rest| rest.split(&format!("</{name}>")).next().expect("it ends").to_owned())
            .collect::<Vec<_>>()
    };
    let mut set = account.set.clone();
    for change in between(&asked.body, "Change") {
        let given = Set { ttl: between(&change, "TTL").remove(0), values: between(&change, "Value") };
        assert!(change.contains(&written(&given)), "{change}");
        let refuse = |why: &str| {
            let text = format!(
                "<InvalidChangeBatch xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><Messages><Message>[Tried to change resource record set [name='{NAME}.', type='TXT'] but {why}]</Message></Messages></InvalidChangeBatch>"
            );
            said(400, text)
        };
        match between(&change, "Action").remove(0).as_str() {
            "DELETE" if set.as_ref() == Some(&given) => set = None,
            "DELETE" => return refuse("the values provided do not match the current values"),
            "CREATE" if set.is_none() => set = Some(given),
            "CREATE" => return refuse("it already exists"),
            other => panic!("{other}"),
        }
    }
    account.set = set;
    document("ChangeResourceRecordSetsResponse", "<ChangeInfo><Id>/change/C1</Id><Status>PENDING</Status></ChangeInfo>")
}

fn provider(api: &Emulation<Account>, zone: Option<&str>) -> DnsProvider {
    DnsProvider::Route53 {
        access_key: "AKID".into(),
        secret_key: Secret::new("secret"),
        session_token: None,
        zone: zone.map(Into::into),
        api: Some(api.url.clone()),
    }
}

fn with(api: &Emulation<Account>) -> Publisher {
    publisher(provider(api, None))
}

fn values(api: &Emulation<Account>) -> Vec<String> {
    api.state().set.as_ref().map(|set| set.values.iter().map(|value| value.replace("&quot;", "\"")).collect()).unwrap_or_default()
}

#[test]
fn values_stand_beside_each_other_and_go_one_by_one() {
    run(async {
        let api = Emulation::start(Account { pending: 1, ..Account::default() }, answer).await;
        let publisher = with(&api);
        let first = publisher.publish(NAME, "first").await.expect("published");
        assert_eq!(api.asked().iter().filter(|asked| *asked == "GET /2013-04-01/change/C1").count(), 2);
        let second = publisher.publish(NAME, "second").await.expect("published");
        publisher.publish(NAME, "first").await.expect("published again");
        assert_eq!(values(&api), ["\"first\"", "\"second\""]);
        publisher.withdraw(&first).await.expect("withdrawn");
        publisher.withdraw(&first).await.expect("withdrawn again");
        assert_eq!(values(&api), ["\"second\""]);
        publisher.withdraw(&second).await.expect("withdrawn");
        assert_eq!(api.state().set, None);
    });
}

#[test]
fn what_somebody_else_writes_meanwhile_stays() {
    run(async {
        for set in [None, Some(Set { ttl: "300".into(), values: vec!["&quot;theirs&quot;".into()] })] {
            let mut expected: Vec<&str> = set.iter().map(|_| "\"theirs\"").collect();
            expected.extend(["\"rival\"", "\"words\""]);
            let api = Emulation::start(Account { set, rival: Some("rival"), ..Account::default() }, answer).await;
            with(&api).publish(NAME, "words").await.expect("published");
            assert_eq!(values(&api), expected);
        }
    });
}

#[test]
fn the_zone_is_the_public_one_of_the_name_or_the_one_that_was_named() {
    let check = |zones: &[(&'static str, &'static str, bool)], zone: Option<&str>, expected: Result<(), &str>| {
        run(async {
            let api = Emulation::start(Account { zones: zones.to_vec(), ..Account::default() }, answer).await;
            let lookup = crate::lookup(tidegate_testkit::dns::NameServer::start().expect("a name server").address);
            let publisher = publisher_with(provider(&api, zone), lookup).expect("a publisher");
            let outcome = publisher.publish(NAME, "words").await.map(|_| ()).map_err(|fault| fault.to_string());
            assert_eq!(outcome, expected.map_err(str::to_owned), "{zones:?} {zone:?}");
        });
    };
    check(&[("Z2", "example.com", true), ("Z1", "example.com", false)], None, Ok(()));
    check(&[("Z1", "www.example.com", false), ("Z2", "example.com", false)], None, Ok(()));
    check(&[], Some("Z1"), Ok(()));
    check(&[], Some("/hostedzone/Z1"), Ok(()));
    check(&[("Z1", "example.com", false)], Some("example.com"), Ok(()));
    check(
        &[("Z1", "example.com", false), ("Z2", "example.com", false)],
        None,
        Err("route53: the account has several public zones named example.com; say which with `zone=` and the zone's ID"),
    );
    check(
        &[("Z1", "example.com", true)],
        None,
        Err(&format!(
            "route53: no zone that can be seen there holds {NAME}; check that a public hosted zone of this account holds it, or give its ID with `zone=`"
        )),
    );
    check(
        &[],
        Some("Z9"),
        Err(&format!("route53: no zone that can be seen there holds {NAME}; check the ID that `zone=` gives")),
    );
}

#[test]
fn refusals_say_what_to_do() {
    let check = |status: u16, code: &str, message: &str, expected: &str| {
        run(async {
            let always = Some(said(status, error(code, message)));
            let api = Emulation::start(Account { always, ..Account::default() }, answer).await;
            let fault = with(&api).publish(NAME, "words").await.expect_err(expected);
            assert_eq!(fault.to_string(), format!("route53: {expected}"));
        });
    };
    check(
        403,
        "InvalidClientTokenId",
        "The security token included in the request is invalid.",
        &format!(
            "for {NAME} the credentials are not accepted: 403 Forbidden, The security token included in the request is invalid. (InvalidClientTokenId); check `access-key=`: AWS does not know it, or it is not active"
        ),
    );
    check(
        403,
        "SignatureDoesNotMatch",
        "Signature expired",
        &format!(
            "for {NAME} the credentials are not accepted: 403 Forbidden, Signature expired (SignatureDoesNotMatch); check `secret-key=`, and that this machine's clock is right"
        ),
    );
    check(
        403,
        "AccessDenied",
        "User is not authorized",
        &format!(
            "changing {NAME} is not permitted: 403 Forbidden, User is not authorized (AccessDenied); allow route53:ListHostedZonesByName, ListResourceRecordSets, ChangeResourceRecordSets and GetChange"
        ),
    );
    check(
        400,
        "Throttling",
        "Rate exceeded",
        &format!("too many requests, so {NAME} is not changed: 400 Bad Request, Rate exceeded (Throttling); try again later"),
    );
    check(500, "InternalFailure", "oops", &format!("{NAME} is not changed: 500 Internal Server Error, oops (InternalFailure)"));
}

#[test]
fn a_signature_that_does_not_match_is_told_without_what_was_signed() {
    run(async {
        let canonical = "The Canonical String for this request should have been 'GET\nx-amz-security-token:token-of-an-hour\n'";
        let always = said(403, error("SignatureDoesNotMatch", canonical));
        let api = Emulation::start(Account { always: Some(always), ..Account::default() }, answer).await;
        let DnsProvider::Route53 { access_key, secret_key, zone, api, .. } = provider(&api, None) else { unreachable!() };
        let session_token = Some(Secret::new("token-of-an-hour"));
        let publisher = publisher(DnsProvider::Route53 { access_key, secret_key, session_token, zone, api });
        let fault = publisher.publish(NAME, "words").await.expect_err("a refusal").to_string();
        assert!(fault.contains("x-amz-security-token:***") && !fault.contains("token-of-an-hour"), "{fault}");
    });
}
