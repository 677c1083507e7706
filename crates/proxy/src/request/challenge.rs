//! Requests of CAs that look for the answer to a challenge of ACME. What the answers are stands in `challenges`.

use super::Request;
use crate::challenges::SHARED_WAIT;
use crate::failure::Failure;
use crate::inquiry::{Answer, Question};
use tidegate_middleware::errors::begin_answer;
use tidegate_transport::Sock;
use tidegate_wire::head::Method;

const HTTP_PREFIX: &[u8] = b"/.well-known/acme-challenge/";
/// RFC 8555 wants at least 128 bits of entropy; CAs use 43 characters.
const TOKEN_BYTES_MAX: usize = 256;
impl<S: Sock> Request<'_, '_, S> {
    /// Whether it asks for the answer to a challenge, as far as one look tells.
    #[inline]
    pub(super) fn may_be_challenge(&self) -> bool {
        self.connection.tls.is_none()
            && self.connection.worker.process.challenges.may_answer_http()
            && self.challenge_token().is_some()
    }

    /// Answers a CA. `None`: nobody here has an order open for that token, and the request is one as any other.
    pub(super) async fn answer_challenge(&mut self) -> Option<Result<(), Failure>> {
        let token = self.challenge_token()?.to_owned();
        let process = &self.connection.worker.process;
        let body = match process.challenges.http(&token) {
            Some(body) => body,
            None if process.challenges.is_shared() => {
                match process.inquiries.ask(Question::HttpChallenge { token }, SHARED_WAIT).await {
                    Answer::HttpChallenge(body) => body,
                    Answer::Certificate | Answer::TlsChallenge(_) | Answer::No | Answer::NotNow => return None,
                }
            }
            None => return None,
        };
        begin_answer(200, &mut self.exchange.response);
        self.exchange.response.fields.push(b"content-type", b"application/octet-stream");
        self.exchange.response.fields.push(b"cache-control", b"no-store");
        self.exchange.record.status = 200;
        let (exchange, around) = self.parts();
        Some(around.send_whole(exchange, body.as_bytes()).await)
    }

    fn challenge_token(&self) -> Option<&str> {
        let token = self.exchange.record.path.of(&self.exchange.head.fields.bytes).strip_prefix(HTTP_PREFIX)?;
        let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_sound = !token.is_empty() && token.len() <= TOKEN_BYTES_MAX && token.iter().all(is_token);
        let is_asked_for = matches!(self.exchange.head.method, Method::Get | Method::Head);
        std::str::from_utf8(token).ok().filter(|_| is_sound && is_asked_for)
    }
}
