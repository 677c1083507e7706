//! Reads a case file into `script.rs`'s data: sections, their options, and which command a line is.
//! The commands themselves are in `parse_command.rs`.

use super::parse_command::{Arguments, steps};
use super::script::{
    Act, Case, ClientProtocol, ClientTls, ConductKind, Config, Matcher, Need, OutputExpectation, PathConduct, ProgramCall,
    ScriptedClient, ScriptedUpstream, Step, UpstreamScript,
};
use super::text::{RawSection, SyntaxError, split_sections, words};
use crate::upstream::{Answer, Behaviour};
use std::time::Duration;

/// Bound of every wait unless the case says `wait`.
const WAIT: Duration = Duration::from_secs(5);

/// Reads a case whose placeholders are already filled in.
pub fn parse(name: &str, text: &str) -> Result<Case, SyntaxError> {
    let (description, sections) = split_sections(text)?;
    let mut case = Case {
        name: name.to_owned(),
        description,
        needs: Vec::new(),
        wait: WAIT,
        config: None,
        files: Vec::new(),
        start: None,
        upstreams: Vec::new(),
        acts: Vec::new(),
        over: None,
    };
    for section in &sections {
        let mut arguments = Arguments::new(section.number, words(section.number, &section.header)?);
        match arguments.text()?.as_str() {
            "skip-unless" => case.needs.push(need(arguments)?),
            "over" => case.over = Some((section.number, over(arguments)?)),
            "wait" => case.wait = arguments.duration()?,
            "config" => case.config = Some(config(section, arguments)?),
            "file" => case.files.push((arguments.text()?, section.dedented())),
            "start" => case.start = Some(arguments.rest()?),
            "upstream" => case.upstreams.push(upstream(section, arguments)?),
            "client" => case.acts.push(Act::Client(client(section, arguments)?)),
            "process" => case.acts.push(Act::Process(steps(&section.lines())?)),
            "command" => case.acts.push(Act::Command(program_call(section, arguments)?)),
            other => return Err(SyntaxError::new(section.number, format!("`{other}` is no section"))),
        }
    }
    if case.acts.is_empty() {
        return Err(SyntaxError::new(1, "a case needs a client, process or command section"));
    }
    Ok(case)
}

fn need(mut arguments: Arguments) -> Result<Need, SyntaxError> {
    let need = if let Some(tool) = arguments.named_text("tool") {
        Need::Tool(tool)
    } else if let Some(variable) = arguments.named_text("env") {
        Need::Env(variable)
    } else {
        match arguments.text()?.as_str() {
            "root" => Need::Root,
            "ipv6" => Need::Ipv6,
            other => return Err(arguments.error(format!("`{other}`: root, ipv6, tool=… or env=…"))),
        }
    };
    arguments.finish()?;
    Ok(need)
}

fn over(mut arguments: Arguments) -> Result<Vec<ClientProtocol>, SyntaxError> {
    let mut protocols = Vec::new();
    while !arguments.is_empty() {
        let word = arguments.text()?;
        let known = ClientProtocol::ALL.into_iter().find(|protocol| protocol.word() == word);
        protocols.push(known.ok_or_else(|| arguments.error(format!("`{word}`: http1, h2c or h2")))?);
    }
    Ok(protocols)
}

fn config(section: &RawSection, mut arguments: Arguments) -> Result<Config, SyntaxError> {
    let config = Config { text: section.dedented(), via_stdin: arguments.flag("via-stdin"), bare: arguments.flag("bare") };
    arguments.finish()?;
    Ok(config)
}

fn upstream(section: &RawSection, mut arguments: Arguments) -> Result<ScriptedUpstream, SyntaxError> {
    let h2 = arguments.flag("h2");
    let offers_protocol = arguments.flag("extended-connect");
    let tls_certificate = arguments.named("tls");
    let client_ca = arguments.named_text("client-ca");
    let alpn = list(arguments.named_text("alpn"), if h2 { "h2" } else { "" });
    let ip = arguments.named_text("ip").unwrap_or_else(|| "127.0.0.1".into());
    let name = arguments.optional_text().unwrap_or_default();
    arguments.finish()?;
    let (mut connections, mut requests) = (None, None);
    let mut automatic = Vec::new();
    let mut script_lines = Vec::new();
    for line in section.lines() {
        let mut arguments = Arguments::new(line.number, words(line.number, &line.text)?);
        let word = arguments.text()?;
        let kind = match word.as_str() {
            "expect-connections" => {
                connections = Some(arguments.range()?);
                continue;
            }
            "expect-requests" => {
                requests = Some(arguments.range()?);
                continue;
            }
            "always-refuse" => ConductKind::Refuse,
            "always" | "always-text" | "always-status" | "always-pattern" | "always-reset" | "always-silence" | "echo-head"
            | "echo-body" => ConductKind::Answer(behaviour(&word, &mut arguments)?),
            _ => {
                script_lines.push(line);
                continue;
            }
        };
        let path = match kind {
            ConductKind::Answer(_) => arguments.named_text("path"),
            ConductKind::Refuse => None,
        };
        let after = arguments.named_text("after");
        arguments.finish()?;
        automatic.push(PathConduct { path, after, conduct: kind });
    }
    let script = match (automatic.is_empty(), script_lines.first()) {
        (false, None) => UpstreamScript::Automatic(automatic),
        (false, Some(line)) => return Err(SyntaxError::new(line.number, "an automatic upstream takes no further commands")),
        (true, _) => UpstreamScript::Scripted(steps(&script_lines)?),
    };
    Ok(ScriptedUpstream {
        line: section.number,
        name,
        h2,
        offers_protocol,
        tls_certificate,
        client_ca,
        alpn,
        ip,
        script,
        connections,
        requests,
    })
}

fn behaviour(word: &str, arguments: &mut Arguments) -> Result<Behaviour, SyntaxError> {
    let answer = match word {
        "always" => Answer::Fixed(arguments.bytes()?),
        "always-text" => Answer::Text(arguments.bytes()?),
        "always-status" => {
            Answer::Fixed(format!("HTTP/1.1 {} Always\r\nContent-Length: 0\r\n\r\n", arguments.number()?).into_bytes())
        }
        "always-pattern" => Answer::Pattern(arguments.number()?),
        "always-reset" => Answer::Reset,
        "always-silence" => Answer::Silence,
        "echo-head" => Answer::EchoHead,
        _ => Answer::EchoBody,
    };
    let close = arguments.flag("close");
    let delay = arguments.named_duration("delay")?;
    let idle_close = arguments.named_duration("idle-close")?;
    Ok(Behaviour { answer, close, delay, idle_close })
}

fn client(section: &RawSection, mut arguments: Arguments) -> Result<ScriptedClient, SyntaxError> {
    let background = arguments.flag("background");
    let h2 = arguments.flag("h2");
    let tls = arguments.flag("tls");
    let to = arguments.named("to").unwrap_or_default();
    let from = arguments.named_text("from");
    let cookies = arguments.named_text("cookies");
    if h2 && cookies.is_some() {
        return Err(arguments.error("`cookies=` is for clients without `h2`"));
    }
    let options = ClientTls {
        sni: arguments.named_text("sni"),
        alpn: list(arguments.named_text("alpn"), if h2 { "h2" } else { "" }),
        min: arguments.named_text("min"),
        max: arguments.named_text("max"),
        only: arguments.named_text("only"),
        ca: arguments.named_text("ca").unwrap_or_default(),
        before: arguments.named("before").unwrap_or_default(),
        cert: arguments.named("client-cert"),
    };
    // A name is for the reader.
    let _ = arguments.optional_text();
    arguments.finish()?;
    let steps: Vec<Step> = steps(&section.lines())?;
    Ok(ScriptedClient { background, h2, over_h2: false, to, from, tls: tls.then(|| Box::new(options)), cookies, steps })
}

/// `a,b` as a list; empty text is the empty list.
fn list(text: Option<String>, default: &str) -> Vec<Vec<u8>> {
    let text = text.unwrap_or_else(|| default.to_owned());
    text.split(',').filter(|part| !part.is_empty()).map(|part| part.as_bytes().to_vec()).collect()
}

fn program_call(section: &RawSection, arguments: Arguments) -> Result<ProgramCall, SyntaxError> {
    let mut call =
        ProgramCall { line: section.number, arguments: arguments.rest()?, stdin: None, exit: 0, expectations: Vec::new() };
    for line in section.lines() {
        let mut arguments = Arguments::new(line.number, words(line.number, &line.text)?);
        let expectation = match arguments.text()?.as_str() {
            "exit" => {
                call.exit = arguments.number()? as i32;
                None
            }
            "stdin" => {
                let lines: Vec<String> = super::script::block(&line).into_iter().map(|(_, text)| text).collect();
                call.stdin = Some(format!("{}\n", lines.join("\n")).into_bytes());
                None
            }
            "stdout" => Some(OutputExpectation::Stdout(arguments.matcher()?)),
            "stderr" => Some(OutputExpectation::Stderr(arguments.matcher()?)),
            "not-stderr" => Some(OutputExpectation::NotStderr(arguments.matcher()?)),
            "file" => Some(OutputExpectation::File(arguments.bytes()?, file_matcher(&line, &mut arguments)?)),
            other => return Err(arguments.error(format!("`{other}`: exit, stdin, stdout, stderr, not-stderr or file"))),
        };
        arguments.finish()?;
        call.expectations.extend(expectation.map(|expectation| (line.number, expectation)));
    }
    Ok(call)
}

/// A pattern on the line, or the whole content in the block beneath it, which keeps its indentation relative to `file`.
fn file_matcher(line: &super::text::Line, arguments: &mut Arguments) -> Result<Matcher, SyntaxError> {
    if line.children.is_empty() {
        return arguments.matcher();
    }
    Err(SyntaxError::new(line.number, "a file is matched by a pattern on the same line"))
}
