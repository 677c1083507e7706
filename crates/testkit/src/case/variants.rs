//! Which protocols a case is run over, and how it reads for each of them. A case whose clients say nothing that only
//! one version has is run over HTTP/1.1, HTTP/2 in plain text and HTTP/2 over TLS: what it says holds for all of them.

use super::script::{Act, Case, ClientProtocol, ClientTls, Command, Flow, Message, ScriptedClient, Step, Wire};
use regex::{Captures, Regex};
use std::net::IpAddr;

/// Fields that speak of an HTTP/1.1 connection (RFC 9113 section 8.2.2).
const CONNECTION_FIELDS: [&str; 6] = ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

/// How often a case is run.
pub struct Variants {
    pub protocols: Vec<ClientProtocol>,
    /// Run once, as it is written: its clients say themselves what they speak.
    pub as_written: bool,
    /// The proxy reads a configuration that the kit may add to, so that it can have another driver.
    pub takes_a_driver: bool,
    /// Why it is not run over every protocol.
    pub reason: Option<String>,
}

pub fn variants(case: &Case, text: &str) -> Variants {
    let takes_a_driver =
        case.start.is_none() && case.config.as_ref().is_some_and(|config| !config.bare && !has_driver(&config.text));
    if let Some(reason) = own_version(case) {
        return Variants { protocols: vec![ClientProtocol::Http1], as_written: true, takes_a_driver, reason: Some(reason) };
    }
    let is_plain = is_plain(case);
    let can = |protocol: &ClientProtocol| match protocol {
        ClientProtocol::Http1 => true,
        ClientProtocol::H2c => is_plain,
        ClientProtocol::H2 => !is_plain || can_have_tls(text),
    };
    let wanted = case.over.as_ref().map_or(ClientProtocol::ALL.as_slice(), |(_, protocols)| protocols);
    let chosen: Vec<ClientProtocol> = wanted.iter().copied().filter(can).collect();
    let reason = (chosen.len() < ClientProtocol::ALL.len()).then(|| match &case.over {
        Some(_) => "it says so".to_owned(),
        None if is_plain => "its sites cannot be had over TLS".to_owned(),
        None => "its clients come over TLS".to_owned(),
    });
    Variants { protocols: chosen, as_written: false, takes_a_driver, reason }
}

/// Whether a configuration says itself which driver it wants.
pub fn has_driver(config: &str) -> bool {
    config.lines().any(|line| line.trim_start().starts_with("driver "))
}

/// What makes a case one of HTTP/1.1, or of no protocol, or of one that its clients choose.
fn own_version(case: &Case) -> Option<String> {
    let clients: Vec<&ScriptedClient> = clients(case).collect();
    let config = case.config.as_ref().map(|config| config.text.as_str());
    let Some(config) = config.filter(|_| !clients.is_empty()) else { return Some("it has no clients of a proxy".into()) };
    if config.lines().any(|line| line.starts_with("tcp ")) {
        return Some("it is about bytes".into());
    }
    if clients.iter().any(|client| client.tls.is_some()) && clients.iter().any(|client| client.tls.is_none()) {
        return Some("some of its clients come over TLS and some do not".into());
    }
    clients.iter().find_map(|client| match (&client.tls, client.h2) {
        (_, true) => Some("a client with `h2`".to_owned()),
        (Some(tls), false) if !tls.alpn.is_empty() || !tls.before.is_empty() => {
            Some("a client with a handshake of its own".into())
        }
        (Some(_) | None, false) => own_step(&client.steps).map(|step| format!("line {}: {}", step.line, step.text)),
    })
}

fn clients(case: &Case) -> impl Iterator<Item = &ScriptedClient> {
    case.acts.iter().filter_map(|act| match act {
        Act::Client(client) => Some(client),
        Act::Process(_) | Act::Command(_) => None,
    })
}

/// No client comes over TLS.
pub fn is_plain(case: &Case) -> bool {
    clients(case).all(|client| client.tls.is_none())
}

/// The first step that only one version has.
fn own_step(steps: &[Step]) -> Option<&Step> {
    steps.iter().find_map(|step| match &step.command {
        Command::Flow(Flow::Repeat(_, steps)) => own_step(steps),
        Command::Flow(Flow::Pause(_) | Flow::Mark(_) | Flow::Await(_)) | Command::Process(_) => None,
        Command::Message(message) => (!is_neutral(message)).then_some(step),
        Command::Wire(Wire::Connect(_) | Wire::Use(_) | Wire::Reset | Wire::ExpectEnd | Wire::ExpectReset | Wire::ExpectOpen) => {
            None
        }
        Command::Wire(
            Wire::Accept(_)
            | Wire::Send { .. }
            | Wire::SendChunk(_)
            | Wire::SendChunkPattern { .. }
            | Wire::SendLastChunk(_)
            | Wire::ExpectBytes(_)
            | Wire::ExpectBytesPattern(_)
            | Wire::SwitchToWebSocket(_)
            | Wire::ReceiveScript(_)
            | Wire::SendScript(_)
            | Wire::CloseWrite
            | Wire::ExpectTlsRefused(_),
        )
        | Command::Stream(_)
        | Command::Frames(_) => Some(step),
    })
}

fn is_neutral(message: &Message) -> bool {
    match message {
        // `TE: trailers` is the one that HTTP/2 has as well.
        Message::Request(request) => {
            !CONNECTION_FIELDS.iter().any(|name| request.field(name).is_some_and(|value| *name != "te" || value != b"trailers"))
        }
        Message::ExpectHeader(name, _) => !CONNECTION_FIELDS.contains(&name.to_ascii_lowercase().as_str()),
        Message::ExpectStatus(allowed) => !allowed.contains(&101),
        Message::ExpectTls { alpn, .. } => alpn.is_none(),
        Message::SendHead { .. } | Message::ReceiveHead(_) | Message::ExpectCertificate(_) => false,
        Message::SendData { .. }
        | Message::EndBody
        | Message::SendTrailers(_)
        | Message::ExpectRefusal { .. }
        | Message::ExpectCutOff
        | Message::SendPattern { .. }
        | Message::ExpectNoHeader(_)
        | Message::ExpectBody(_)
        | Message::ExpectDecoded { .. }
        | Message::ExpectBodyAs { .. }
        | Message::ExpectBodyLength(_)
        | Message::ExpectBodyPattern { .. }
        | Message::ExpectData(_)
        | Message::ExpectNoBody
        | Message::ExpectTrailer(..)
        | Message::ExpectNoTrailer(_)
        | Message::Close
        | Message::ExpectClosed => true,
    }
}

/// Every address of a plain site can be one over TLS, with a certificate of the kit.
fn can_have_tls(text: &str) -> bool {
    !text.lines().any(|line| line.trim_start().starts_with("tls \"")) && site_lines(text).all(|line| line.contains('{'))
}

fn site_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| is_plain_site(line))
}

fn is_plain_site(line: &str) -> bool {
    line.trim_start().starts_with("site \"http://") && line.contains("{port")
}

/// The names of plain sites, as a certificate has them.
fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in site_lines(text).flat_map(|line| line.split("\"http://").skip(1)) {
        let name = part.split(['"', ':', '/', '{']).next().unwrap_or_default().to_owned();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The text of a case for one of its protocols: words for what differs are filled in, and over TLS its plain sites have
/// a certificate. Lines keep their numbers.
pub fn text_for(text: &str, protocol: ClientProtocol, is_plain: bool) -> Result<String, String> {
    let over_tls = protocol == ClientProtocol::H2 || !is_plain;
    let placeholder = Regex::new(r"\{client:(scheme|protocol)\}").map_err(|error| error.to_string())?;
    let text = placeholder.replace_all(text, |found: &Captures<'_>| match (&found[1], protocol) {
        ("scheme", _) if over_tls => "https",
        ("scheme", _) => "http",
        (_, ClientProtocol::Http1) => "HTTP/1.1",
        (_, ClientProtocol::H2c | ClientProtocol::H2) => "HTTP/2",
    });
    if protocol != ClientProtocol::H2 || !is_plain {
        return Ok(text.into_owned());
    }
    let mut names = names(&text);
    if names.is_empty() {
        names.push("example.com".to_owned());
    }
    let subjects = names.join("+");
    let certificate = format!("{{ tls cert=\"{{cert:{subjects}}}\" key=\"{{key:{subjects}}}\";");
    let lines: Vec<String> =
        text.lines().map(|line| if is_plain_site(line) { site_with_tls(line, &certificate) } else { line.to_owned() }).collect();
    Ok(format!("{}\n", lines.join("\n")))
}

/// The block begins at the first brace that is not part of an address.
fn site_with_tls(line: &str, certificate: &str) -> String {
    let line = line.replace("\"http://", "\"https://");
    match line.find("\" {") {
        Some(quote) => {
            let (addresses, block) = (&line[..=quote], &line[quote + 3..]);
            let block = if block.trim().is_empty() { "" } else { block };
            format!("{addresses} {certificate}{block}")
        }
        None => line,
    }
}

/// Clients speak that protocol now. `text` is the case as it is written, with the names of its sites.
pub fn adapt_clients(case: &mut Case, protocol: ClientProtocol, text: &str) {
    if protocol == ClientProtocol::Http1 {
        return;
    }
    // Any certificate will do: which one is shown is not what the case is about.
    let name = names(text).into_iter().find(|name| !name.starts_with('*') && name.parse::<IpAddr>().is_err());
    for act in &mut case.acts {
        let Act::Client(client) = act else { continue };
        client.over_h2 = true;
        match (&mut client.tls, protocol) {
            (Some(tls), _) => tls.alpn = vec![b"h2".to_vec()],
            (None, ClientProtocol::H2) => {
                let (alpn, ca) = (vec![b"h2".to_vec()], "internal".to_owned());
                client.tls = Some(Box::new(ClientTls { sni: name.clone(), alpn, ca, ..ClientTls::default() }));
            }
            (None, ClientProtocol::Http1 | ClientProtocol::H2c) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::parse::parse;

    /// `over` are the words of the protocols that the case is run over, or a part of the reason for HTTP/1.1 alone.
    fn check(case: &str, over: &str) {
        let text = format!("# Text.\n{case}");
        let case = parse("kit/self", &text).unwrap_or_else(|error| panic!("{error}"));
        let Variants { protocols, reason, .. } = variants(&case, &text);
        let words: Vec<&str> = protocols.iter().map(|protocol| protocol.word()).collect();
        let reason = reason.unwrap_or_default();
        assert!(words.join(" ") == over || reason.contains(over), "{words:?}, {reason}: expected {over} of\n{text}");
    }

    #[test]
    fn cases_are_run_over_what_their_commands_allow() {
        let site = "config\n    site \"http://:{port}\" { respond 200; }\n";
        for (client, over) in [
            ("client\n    get /\n    expect-status 200\n", "http1 h2c h2"),
            (
                "client\n    repeat 2\n        get / method=POST open\n        send-data \"x\"\n        end-stream\n",
                "http1 h2c h2",
            ),
            ("client\n    send \"GET / HTTP/1.1\\r\\n\"\n", "line 5: send"),
            ("client\n    repeat 2\n        expect-bytes \"x\"\n", "line 6: expect-bytes"),
            ("client\n    get /\n        Connection: close\n", "line 5: get /"),
            ("client\n    get /\n    expect-status 101\n", "line 6: expect-status"),
            ("client h2\n    request GET /\n", "a client with `h2`"),
            ("client tls alpn=h2\n    get /\n", "a handshake of its own"),
            ("client tls sni=example.com\n    get /\n", "http1 h2"),
            ("over h2c http1\nclient\n    get /\n", "h2c http1"),
            ("process\n    pause 1ms\n", "no clients"),
        ] {
            check(&format!("{site}{client}"), over);
        }
        check("config\n    site \"http://:{port}\" {\n        tls \"off\"\n    }\nclient\n    get /\n", "http1 h2c");
        check("config\n    tcp \":{port}\" { proxy \"127.0.0.1:1\"; }\nclient\n    get /\n", "about bytes");
    }

    #[test]
    fn over_tls_plain_sites_have_certificates() {
        let text = "config\n    site \"http://a.test:{port}\" \"http://:{port:b}\" { respond 200 body=\"{client:scheme} {scheme}\"; }\n    site \"http://b.test:{port}\" {\n    }\n    pool \"x\" { server \"http://c\"; }\n";
        let expected = "config\n    site \"https://a.test:{port}\" \"https://:{port:b}\" { tls cert=\"{cert:a.test+b.test}\" key=\"{key:a.test+b.test}\"; respond 200 body=\"https {scheme}\"; }\n    site \"https://b.test:{port}\" { tls cert=\"{cert:a.test+b.test}\" key=\"{key:a.test+b.test}\";\n    }\n    pool \"x\" { server \"http://c\"; }\n";
        assert_eq!(text_for(text, ClientProtocol::H2, true), Ok(expected.to_owned()));
        assert_eq!(text_for("{client:protocol} {client:scheme}", ClientProtocol::H2c, true), Ok("HTTP/2 http".to_owned()));
        assert_eq!(text_for("{client:protocol} {client:scheme}", ClientProtocol::Http1, false), Ok("HTTP/1.1 https".to_owned()));
    }
}
