//! TLS of a server as a line of ours: certificates, versions, suites, and certificates of clients.

use super::guards::from_folder;
use super::scope::Levels;
use crate::accounts::Origin;
use crate::braces::Statement;
use tidegate_kdl::quoted;

const OLDEST: &str = "1.2 is the oldest version of TLS that is spoken";
const NEWEST: &str = "TLS 1.3 is spoken as well";
const WEAK: &str = "suites without forward secrecy or authenticated encryption are not spoken: those that are left are";
const NOT_SENT: &str = "who shows no certificate gets no connection, and no page with 400";

/// Suites by their names in OpenSSL and here.
const SUITES: [(&str, &str); 6] = [
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];
/// Suites of TLS 1.3, which `ssl_ciphers` says nothing of.
const NEW_SUITES: [&str; 3] = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// The lines for a server over TLS.
pub fn lines(levels: &Levels<'_>, origin: &mut Origin) -> Vec<String> {
    let certificates = certificates(levels, origin);
    let mut inside = Vec::new();
    inside.extend(versions(levels, origin));
    inside.extend(suites(levels, origin));
    if let Some(tickets) = levels.one("ssl_session_tickets").filter(|tickets| tickets.argument() == "off") {
        origin.carry(tickets.start());
        inside.push("tickets #false".to_owned());
    }
    let clients = clients(levels, origin);
    if let Some(early) = levels.one("ssl_early_data").filter(|early| early.argument() == "on") {
        if clients.is_none() && !inside.iter().any(|line| line.starts_with("tickets")) {
            origin.carry(early.start());
            inside.push("early-data #true".to_owned());
        } else {
            origin.differ(early.start(), "it is not had together with certificates of clients, or without tickets");
        }
    }
    inside.extend(clients);
    if let Some(stapling) = levels.one("ssl_stapling").filter(|stapling| stapling.argument() == "off") {
        origin.carry(stapling.start());
        inside.push("ocsp-stapling #false".to_owned());
    }
    let block = if inside.is_empty() { String::new() } else { format!(" {{ {}; }}", inside.join("; ")) };
    let mut lines: Vec<String> = certificates.into_iter().map(|certificate| format!("tls {certificate}")).collect();
    match lines.first_mut() {
        Some(first) => first.push_str(&block),
        None if block.is_empty() => {}
        None => lines.push(format!("tls{block}")),
    }
    lines
}

/// Whether a server has a certificate that is a file.
pub fn has_certificate(levels: &Levels<'_>) -> bool {
    !certificates(levels, &mut Origin::default()).is_empty()
}

fn certificates(levels: &Levels<'_>, origin: &mut Origin) -> Vec<String> {
    let is_file = |own: &&Statement| !own.argument().contains(['$', ':']) && !own.argument().is_empty();
    let certificates: Vec<&Statement> = levels.nearest(&["ssl_certificate"]).into_iter().filter(is_file).collect();
    let keys: Vec<&Statement> = levels.nearest(&["ssl_certificate_key"]).into_iter().filter(is_file).collect();
    let mut lines = Vec::new();
    for (certificate, key) in certificates.into_iter().zip(keys) {
        origin.carry(certificate.start());
        origin.carry(key.start());
        let (file, own) = (from_folder(certificate.argument()), from_folder(key.argument()));
        let key = if file == own { String::new() } else { format!(" key={}", quoted(&own)) };
        lines.push(format!("cert={}{key}", quoted(&file)));
    }
    lines
}

fn versions(levels: &Levels<'_>, origin: &mut Origin) -> Option<String> {
    let said = levels.one("ssl_protocols")?;
    let has = |version: &str| said.arguments().iter().any(|own| own == version);
    let has_old = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"].iter().any(|version| has(version));
    match (has("TLSv1.2") || has_old, has("TLSv1.3")) {
        (false, true) => {
            origin.carry(said.start());
            return Some("min \"1.3\"".to_owned());
        }
        (true, true) if !has_old => origin.carry(said.start()),
        (true, true) => origin.differ(said.start(), OLDEST),
        (_, false) if has_old => origin.differ(said.start(), format!("{OLDEST}, and {NEWEST}")),
        (_, false) => origin.differ(said.start(), NEWEST),
    }
    None
}

fn suites(levels: &Levels<'_>, origin: &mut Origin) -> Option<String> {
    let said = levels.one("ssl_ciphers")?;
    let words: Vec<&str> = said.argument().split([':', ' ', ',']).filter(|word| !word.is_empty()).collect();
    let of = |word: &str| SUITES.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours);
    let known: Vec<&str> = words.iter().filter_map(|word| of(word.trim_start_matches('+'))).collect();
    // Groups of suites are all that are strong.
    let is_of_groups = known.is_empty();
    let has_others =
        words.iter().any(|word| of(word).is_none() && !word.starts_with(['!', '-', '@']) && !word.starts_with("TLS_"));
    if has_others && !is_of_groups {
        origin.differ(said.start(), WEAK);
    } else {
        origin.carry(said.start());
    }
    if is_of_groups || known.len() == SUITES.len() {
        return None;
    }
    let names: Vec<String> = known.iter().chain(&NEW_SUITES).map(|name| quoted(name)).collect();
    Some(format!("ciphers {}", names.join(" ")))
}

fn clients(levels: &Levels<'_>, origin: &mut Origin) -> Option<String> {
    let asked = levels.one("ssl_verify_client").filter(|asked| asked.argument() != "off")?;
    let authorities = levels.one("ssl_client_certificate").or_else(|| levels.one("ssl_trusted_certificate"))?;
    let mode = match asked.argument() {
        "on" => "require",
        "optional" => "request",
        _ => return None,
    };
    let mut line = format!("client-auth ca={}", quoted(&from_folder(authorities.argument())));
    if let Some(revoked) = levels.one("ssl_crl") {
        line.push_str(&format!(" crl={}", quoted(&from_folder(revoked.argument()))));
        origin.carry(revoked.start());
    }
    line.push_str(&format!(" mode=\"{mode}\""));
    if mode == "require" {
        origin.differ(asked.start(), NOT_SENT);
    } else {
        origin.carry(asked.start());
    }
    origin.carry(authorities.start());
    origin.carry_all(levels.one("ssl_verify_depth").map(Statement::start));
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::accounts::Origin;
    use crate::braces::of_nginx;
    use crate::nginx::scope::Levels;

    #[test]
    fn tls_of_a_server_is_a_line() {
        let check = |text: &str, expected: &[&str], differs: usize| {
            let statements = of_nginx(text);
            let mut origin = Origin::default();
            assert_eq!(lines(&Levels::of(vec![&statements]), &mut origin), expected, "for {text}");
            assert_eq!(origin.differs.len(), differs, "for {text}: {:?}", origin.differs);
        };
        check("ssl_certificate /a.pem; ssl_certificate_key /a.key;", &["tls cert=\"/a.pem\" key=\"/a.key\""], 0);
        check("ssl_certificate a.pem; ssl_certificate_key a.pem;", &["tls cert=\"/etc/nginx/a.pem\""], 0);
        check("ssl_certificate $x; ssl_certificate_key $x;", &[], 0);
        check("ssl_protocols TLSv1.3;", &["tls { min \"1.3\"; }"], 0);
        check("ssl_protocols TLSv1.2 TLSv1.3;", &[], 0);
        check("ssl_protocols TLSv1 TLSv1.1 TLSv1.2;", &[], 1);
        check("ssl_ciphers HIGH:!aNULL:!MD5;", &[], 0);
        check(
            "ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA;",
            &[
                "tls { ciphers \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\" \"TLS_AES_128_GCM_SHA256\" \"TLS_AES_256_GCM_SHA384\" \"TLS_CHACHA20_POLY1305_SHA256\"; }",
            ],
            1,
        );
        check(
            "ssl_certificate /a.pem; ssl_certificate_key /a.key; ssl_client_certificate /ca.pem; ssl_verify_client optional;",
            &["tls cert=\"/a.pem\" key=\"/a.key\" { client-auth ca=\"/ca.pem\" mode=\"request\"; }"],
            0,
        );
        check("ssl_client_certificate /ca.pem; ssl_verify_client optional_no_ca;", &[], 0);
    }
}
