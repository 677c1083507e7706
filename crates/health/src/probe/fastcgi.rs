//! The check over FastCGI: asks for a script by the path of its file, or for what the server itself answers, such as
//! `ping.path` of PHP-FPM. What counts as well is said in `http`; how records travel, in the crate `fastcgi`.

use crate::fault::{ProbeFault, Stage};
use crate::probe::body::{BODY_BYTES_MAX, check_body};
use crate::probe::http::{check_status, not_valid};
use crate::probe::tcp::{self, Connection};
use crate::probe::{Limit, Target, USER_AGENT};
use ::http::uri::Authority;
use std::net::{Ipv4Addr, SocketAddr};
use tidegate_fastcgi::record::{FIRST_REQUEST, KeepConnection, encode_begin_request, encode_params, encode_stdin_end};
use tidegate_fastcgi::{
    AnswerHead, AnswerParser, Decoder, Event, Mode, Pairs, Params, Progress, ProtocolStatus, Script, Scripts,
};
use tidegate_model::HttpProbe;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Far more than the params of a check have.
const PARAMS_BYTES_MAX: usize = 256 << 10;
const READ_BYTES: usize = 8 << 10;

pub async fn check(target: &Target, probe: &HttpProbe, limit: &Limit) -> Result<(), ProbeFault> {
    let request = request(target, probe)?;
    let stream = tcp::connect(target, limit).await?;
    limit.hold(Stage::Answer, ask(stream, &request, probe)).await
}

/// The records of the whole request: nothing follows its params.
fn request(target: &Target, probe: &HttpProbe) -> Result<Vec<u8>, ProbeFault> {
    let host = probe.host.as_deref().unwrap_or(&target.authority);
    let server_name = Authority::try_from(host).map_err(|_| not_valid(format!("the host `{host}`")))?;
    let (path, query) = probe.path.split_once('?').unwrap_or((&probe.path, ""));
    // The path is the script's own, so that there is neither a folder for it nor a name to look for in it.
    let scripts = Scripts::new(b"/", b".php", b"index.php", Mode::Direct).map_err(|error| not_valid(format!("{error:?}")))?;
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let params = Params {
        method: probe.method.as_bytes(),
        raw_target: probe.path.as_bytes(),
        query: query.as_bytes(),
        protocol: "HTTP/1.1",
        authority: host.as_bytes(),
        server_name: server_name.host().as_bytes(),
        client: here,
        server: here,
        is_https: false,
        content_length: None,
        user: None,
        software: "tidegate",
        extra: &[],
    };
    let mut fields: Vec<(&str, &str)> = probe.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
        fields.push(("user-agent", USER_AGENT));
    }
    let mut pairs = Pairs::new(PARAMS_BYTES_MAX);
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    params.write(&mut pairs, &scripts, &Script::whole(path), fields).map_err(not_valid)?;
    let mut records = Vec::new();
    encode_begin_request(&mut records, FIRST_REQUEST, KeepConnection::No);
    encode_params(&mut records, FIRST_REQUEST, &pairs);
    encode_stdin_end(&mut records, FIRST_REQUEST);
    Ok(records)
}

async fn ask(mut stream: Box<dyn Connection>, request: &[u8], probe: &HttpProbe) -> Result<(), ProbeFault> {
    stream.write_all(request).await.map_err(fault)?;
    let mut decoder = Decoder::new(FIRST_REQUEST);
    let mut answer = Answer { probe, parser: AnswerParser::new(), head: None, body: Vec::new() };
    let mut read = vec![0; READ_BYTES];
    loop {
        let count = stream.read(&mut read).await.map_err(fault)?;
        if count == 0 {
            return Err(fault("the server closed the connection before the end of its answer"));
        }
        let mut input = &read[..count];
        while let Some(event) = decoder.feed(&mut input).map_err(fault)? {
            match event {
                Event::Stdout(piece) => answer.take(piece)?,
                Event::End { protocol_status: ProtocolStatus::RequestComplete, .. } => return answer.judge(),
                Event::End { protocol_status, .. } => return Err(fault(protocol_status)),
                // What a script complains of is no answer.
                Event::Stderr(_) | Event::Values(_) | Event::UnknownType(_) => {}
            }
        }
        if answer.is_enough() {
            return answer.judge();
        }
    }
}

/// What has come of an answer.
struct Answer<'p> {
    probe: &'p HttpProbe,
    parser: AnswerParser,
    head: Option<AnswerHead>,
    body: Vec<u8>,
}

impl Answer<'_> {
    fn take(&mut self, mut piece: &[u8]) -> Result<(), ProbeFault> {
        if self.head.is_none()
            && let Progress::Complete(head) = self.parser.feed(&mut piece).map_err(fault)?
        {
            check_status(self.probe, head.status())?;
            self.head = Some(head);
        }
        let left = BODY_BYTES_MAX - self.body.len();
        self.body.extend_from_slice(&piece[..piece.len().min(left)]);
        Ok(())
    }

    /// Whether nothing that follows is looked at.
    fn is_enough(&self) -> bool {
        self.head.is_some() && (self.probe.body.is_none() || self.body.len() == BODY_BYTES_MAX)
    }

    fn judge(&self) -> Result<(), ProbeFault> {
        match (&self.head, &self.probe.body) {
            (None, _) => Err(fault(self.parser.end_of_input())),
            (Some(_), None) => Ok(()),
            (Some(_), Some(expect)) => check_body(expect, &self.body),
        }
    }
}

fn fault(why: impl ToString) -> ProbeFault {
    ProbeFault::FastCgi { why: why.to_string() }
}
