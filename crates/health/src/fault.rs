//! Why a check failed, as one short line for a log and a status page. Much of it comes from the server that was asked,
//! so it is hostile text. Which fault it is, is decided in `probe`.

use crate::probe::grpc_message::{MessageFault, ServingStatus};
use std::fmt;
use std::io;
use std::time::Duration;
use thiserror::Error;
use tidegate_model::{StatusRange, TextPattern};
use tidegate_transport::tls_fault::connection_words;

/// A sentence is a cell of a table and a part of a log line.
pub const SENTENCE_CHARACTERS_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeFault {
    /// The server's name led to no address.
    NoAddress,
    /// No connection, or it broke before anything else could go wrong.
    Connect { why: String },
    /// The one timeout of the whole check ended in this stage.
    Timeout { stage: Stage, after: Duration },
    /// The check needs TLS, and the server's address says that it speaks none.
    NoTls,
    /// The handshake failed.
    Tls { why: String },
    /// The handshake did not agree on HTTP/2, which the check needs.
    NotHttp2,
    /// The check's own settings make no request.
    Request { why: String },
    /// The answer is not HTTP, or it broke off.
    Http { why: String },
    /// The answer is not FastCGI, or it broke off.
    FastCgi { why: String },
    /// `expect` is empty for the default.
    Status { status: u16, expect: Vec<StatusRange> },
    /// The body has not what it should.
    Body { expect: TextPattern },
    /// What the health service of gRPC says.
    Grpc(GrpcFault),
}

/// What a check was waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Connect,
    Handshake,
    Answer,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GrpcFault {
    /// The service answered, and is not well.
    #[error("{0}")]
    NotServing(ServingStatus),
    /// The server speaks gRPC without `grpc.health.v1.Health` (status 12).
    #[error("the server has no health service (grpc.health.v1.Health); use another type of check")]
    NoHealthService,
    /// The server's health service does not know the service that was asked for (status 5).
    #[error("the server's health service {}", unknown(.0.as_deref()))]
    UnknownService(Option<String>),
    /// Any other status but 0.
    #[error("answered status {code}{}", after_colon(.message))]
    Status { code: u32, message: String },
    /// An HTTP answer that is no gRPC answer.
    #[error("{}, which is no gRPC", instead(*.status, .content_type.as_deref()))]
    NotGrpc { status: u16, content_type: Option<String> },
    /// The answer ended without a status, or with one that is no number.
    #[error("the answer ended without a grpc-status")]
    NoStatus,
    #[error("{0}")]
    Message(MessageFault),
}

impl ProbeFault {
    pub(crate) fn connect(error: &io::Error) -> ProbeFault {
        ProbeFault::Connect { why: io_words(error) }
    }

    fn sentence(&self) -> String {
        match self {
            ProbeFault::NoAddress => "its name has no address".to_owned(),
            ProbeFault::Connect { why } => why.clone(),
            ProbeFault::Timeout { stage, after } => format!("{} within {after:?}", stage.missing()),
            ProbeFault::NoTls => "TLS: the server's address is not https; use a tcp check, or write https://".to_owned(),
            ProbeFault::Tls { why } => format!("TLS: {why}"),
            ProbeFault::NotHttp2 => "TLS: the server did not agree to HTTP/2 (ALPN h2)".to_owned(),
            ProbeFault::Request { why } => format!("the check's own request is not valid: {why}"),
            ProbeFault::Http { why } => format!("no valid HTTP answer: {why}"),
            ProbeFault::FastCgi { why } => format!("no valid FastCGI answer: {why}"),
            ProbeFault::Status { status, expect } => format!("answered {status}, expected {}", ranges(expect)),
            ProbeFault::Body { expect } => missing_in_body(expect),
            ProbeFault::Grpc(fault) => format!("grpc: {fault}"),
        }
    }
}

/// What a health service says that does not know what it was asked for; `None` is the server as a whole.
fn unknown(service: Option<&str>) -> String {
    match service {
        Some(service) => format!("does not know `{service}`"),
        None => "says nothing of the server as a whole; set service=".to_owned(),
    }
}

fn after_colon(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

fn instead(status: u16, content_type: Option<&str>) -> String {
    match (status, content_type) {
        (200, Some(content_type)) => format!("answered with content of type `{content_type}`"),
        (status, _) => format!("answered HTTP {status}"),
    }
}

impl Stage {
    fn missing(self) -> &'static str {
        match self {
            Stage::Connect => "no connection",
            Stage::Handshake => "TLS: no handshake",
            Stage::Answer => "no answer",
        }
    }
}

impl fmt::Display for ProbeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.sentence()))
    }
}

impl std::error::Error for ProbeFault {}

/// What the system says, without its number: `connection refused`.
pub(crate) fn io_words(error: &io::Error) -> String {
    let words = connection_words(error);
    let words = words.split(" (os error").next().unwrap_or_default();
    let mut letters = words.chars();
    // A word in capitals such as TLS stays as it is.
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => format!("{}{}", first.to_lowercase(), &words[first.len_utf8()..]),
        _ => words.to_owned(),
    }
}

/// An error and what caused it, each once.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.ends_with(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        source = cause.source();
    }
    words
}

/// What cannot be printed is escaped: it comes from the network, and would end the line or turn it around in a
/// terminal.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    let mut characters = 0;
    for letter in text.chars() {
        let piece: String = match letter {
            '"' | '\'' | '\\' => letter.into(),
            _ => letter.escape_debug().collect(),
        };
        let count = piece.chars().count();
        if characters + count > SENTENCE_CHARACTERS_MAX - 1 {
            line.push('…');
            break;
        }
        line.push_str(&piece);
        characters += count;
    }
    line
}

fn ranges(expect: &[StatusRange]) -> String {
    if expect.is_empty() {
        return "200-399".to_owned();
    }
    let one = |range: &StatusRange| {
        if range.first == range.last { range.first.to_string() } else { format!("{}-{}", range.first, range.last) }
    };
    expect.iter().map(one).collect::<Vec<_>>().join(",")
}

fn missing_in_body(expect: &TextPattern) -> String {
    match expect {
        TextPattern::Present => "the body is empty".to_owned(),
        TextPattern::Exact(text) => format!("the body is not `{text}`"),
        TextPattern::Prefix(text) => format!("the body does not begin with `{text}`"),
        TextPattern::Suffix(text) => format!("the body does not end with `{text}`"),
        TextPattern::Regex(regex) => format!("the body does not contain anything that matches `{regex}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::{GrpcFault, ProbeFault, SENTENCE_CHARACTERS_MAX, Stage, io_words};
    use proptest::prelude::{prop_assert, proptest};
    use std::io;
    use std::time::Duration;
    use tidegate_model::{StatusRange, TextPattern};

    #[track_caller]
    fn check(fault: ProbeFault, expect: &str) {
        assert_eq!(fault.to_string(), expect);
    }

    #[test]
    fn a_fault_is_a_sentence() {
        check(ProbeFault::connect(&io::Error::from_raw_os_error(111)), "connection refused");
        check(ProbeFault::Timeout { stage: Stage::Connect, after: Duration::from_secs(1) }, "no connection within 1s");
        check(ProbeFault::Timeout { stage: Stage::Answer, after: Duration::from_millis(1500) }, "no answer within 1.5s");
        check(ProbeFault::Status { status: 503, expect: Vec::new() }, "answered 503, expected 200-399");
        let expect = vec![StatusRange { first: 200, last: 299 }, StatusRange { first: 401, last: 401 }];
        check(ProbeFault::Status { status: 302, expect }, "answered 302, expected 200-299,401");
        check(ProbeFault::Body { expect: TextPattern::Exact("ok".into()) }, "the body is not `ok`");
        check(ProbeFault::Grpc(GrpcFault::Status { code: 14, message: "busy".into() }), "grpc: answered status 14: busy");
    }

    #[test]
    fn hostile_words_stay_in_their_line() {
        let message = "a\r\nb\u{1b}[2J\u{202e}c\"d\\".to_owned();
        let fault = ProbeFault::Grpc(GrpcFault::Status { code: 2, message });
        check(fault, "grpc: answered status 2: a\\r\\nb\\u{1b}[2J\\u{202e}c\"d\\");
    }

    #[test]
    fn words_of_the_system_lose_their_number() {
        assert_eq!(io_words(&io::Error::from_raw_os_error(113)), "no route to host");
        assert_eq!(io_words(&io::Error::other("TLS broke (os error 5)")), "TLS broke");
    }

    proptest! {
        #[test]
        fn a_sentence_is_bounded_and_printable(why in ".{0,400}") {
            let line = ProbeFault::Tls { why }.to_string();
            prop_assert!(line.chars().count() <= SENTENCE_CHARACTERS_MAX);
            prop_assert!(!line.chars().any(char::is_control));
        }
    }
}
