//! `Max-Forwards` (RFC 9110 section 7.6.2): how many more proxies an OPTIONS or TRACE may pass.

use super::{Request, answer_refusal};
use crate::failure::Failure;
use crate::snapshot::CompiledRoute;
use crate::terminal::CompiledTerminal;
use tidegate_middleware::errors::begin_answer;
use tidegate_middleware::{METHODS, Refusal};
use tidegate_transport::Sock;
use tidegate_wire::head::Method;

const MAX_FORWARDS: &[u8] = b"max-forwards";

impl<S: Sock> Request<'_, '_, S> {
    /// Whether the request counts the proxies on its way, as far as one look tells.
    #[inline]
    pub(super) fn may_count_hops(&self) -> bool {
        matches!(self.exchange.head.method, Method::Options | Method::Trace)
    }

    /// Takes one from the count. True: there was none left, and the request was answered here.
    pub(super) async fn take_hop(&mut self, route: &CompiledRoute) -> Result<bool, Failure> {
        match route.terminal {
            CompiledTerminal::Proxy(_) | CompiledTerminal::Split(_) => {}
            // The request goes no further anyway. A script is no proxy.
            CompiledTerminal::Answer(_)
            | CompiledTerminal::Files(_)
            | CompiledTerminal::FastCgi(..)
            | CompiledTerminal::NoRoute => return Ok(false),
        }
        let (exchange, around) = self.parts();
        let left = {
            let mut values = exchange.head.fields.all_named(MAX_FORWARDS);
            match (values.next(), values.next()) {
                (None, _) => return Ok(false),
                (Some(value), None) => number(value),
                (Some(_), Some(_)) => None,
            }
        };
        match left {
            None => answer_refusal(exchange, around, Refusal::MaxForwards).await?,
            Some(0) if exchange.head.method == Method::Options => {
                begin_answer(204, &mut exchange.response);
                exchange.response.fields.push(b"allow", METHODS.as_bytes());
                exchange.record.status = 204;
                around.run_response_steps(exchange);
                around.send_whole(exchange, b"").await?;
            }
            // Who is the last to get it would send it back, and that is not done here.
            Some(0) => answer_refusal(exchange, around, Refusal::TraceMethod).await?,
            Some(left) => {
                exchange.head.fields.set(MAX_FORWARDS, itoa::Buffer::new().format(left - 1).as_bytes());
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The most that is counted: as the section allows, a larger count becomes this one.
const HOPS_MAX: u32 = 9_999;

fn number(text: &[u8]) -> Option<u32> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |number, digit| HOPS_MAX.min(number * 10 + u32::from(digit - b'0'))))
}
