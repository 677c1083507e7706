//! `error-page`: the answer to an error is made into a page, and an upstream's body that is not sent is read to its end
//! where that is cheap, so that its connection can be kept. Which page it is, and what of the answer stays, is decided
//! in `middleware::error_page`.

use crate::exchange::BodyReader;
use crate::failure::Failure;
use crate::pooled::Pooled;
use crate::request::{Request, context};
use crate::snapshot::CompiledRoute;
use std::pin::pin;
use std::time::Duration;
use tidegate_middleware::error_page::CompiledErrorPage;
use tidegate_middleware::{Context, ErrorFacts, Origin, View};
use tidegate_transport::{Sock, rt};
use tidegate_wire::head::ResponseHead;

/// What is read of a body that nobody gets, so that a connection can be kept: more costs more than another connection.
const DRAINED_BYTES_MAX: usize = 64 << 10;
/// How long that may take. The client has its answer by then.
const DRAIN_TIME_MAX: Duration = Duration::from_millis(100);

impl<S: Sock> Request<'_, S> {
    /// Makes the response head, which has the fields of the error, that of a page, and gives its body.
    pub(crate) fn make_error_page<'b>(
        &mut self,
        page: &'b CompiledErrorPage,
        error: &ErrorFacts,
        buffer: &'b mut Vec<u8>,
    ) -> &'b [u8] {
        let known = context(self.connection, self.pool.as_deref(), &self.record, self.client_ip);
        let context = Context { error: Some((page.status(error.status), error.reason)), ..known };
        // Placeholders may show what the error's own answer said.
        let mut response: Pooled<ResponseHead> = Pooled::take();
        std::mem::swap(&mut *self.response, &mut *response);
        let before: ResponseHead = response.clone();
        let view = View { context: &context, request: &self.head, response: Some(&before) };
        let body = page.answer(error, view, &mut response, buffer);
        std::mem::swap(&mut *self.response, &mut *response);
        body
    }

    /// Sends such a page.
    pub(crate) async fn send_error_page(&mut self, route: Option<&CompiledRoute>, body: &[u8]) -> Result<(), Failure> {
        self.record.status = self.response.status;
        let Some(route) = route else { return self.send_whole(body).await };
        self.run_response_steps(route);
        let coded = self.code_whole(route, body);
        self.send_whole(coded.as_deref().unwrap_or(body)).await
    }

    /// The page that stands for an answer of an upstream, whose head is the response's.
    #[inline]
    pub(crate) fn page_for_upstream<'p>(&self, route: &'p CompiledRoute) -> Option<&'p CompiledErrorPage> {
        if !route.error_pages.has_upstreams() {
            return None;
        }
        route.error_pages.find(self.response.status, Origin::Upstream, &self.head, Some(&self.response))
    }

    /// Sends a page in place of an upstream's answer, whose head is the response's so far. Says whether its body was
    /// read to the end, so that the connection can take the next request.
    pub(crate) async fn replace_reply(
        &mut self,
        route: &CompiledRoute,
        page: &CompiledErrorPage,
        body: &mut BodyReader<'_, S>,
    ) -> Result<bool, Failure> {
        self.send_page_instead(route, page).await?;
        // The client has its answer; whose turn it is need not wait for what nobody reads.
        self.limited = None;
        Ok(drain(body).await)
    }

    /// Sends the page in place of an answer of which nothing has to be read.
    pub(crate) async fn send_page_instead(&mut self, route: &CompiledRoute, page: &CompiledErrorPage) -> Result<(), Failure> {
        let error = ErrorFacts { status: self.response.status, reason: "", sentence: "" };
        let mut buffer: Pooled<Vec<u8>> = Pooled::take();
        let body = self.make_error_page(page, &error, &mut buffer);
        self.send_error_page(Some(route), body).await
    }
}

/// Whether the body ended, within bounds.
async fn drain<S: Sock>(body: &mut BodyReader<'_, S>) -> bool {
    // A stream of HTTP/2 is reset when it is dropped, and its connection goes on.
    if matches!(body, BodyReader::H2(_)) || body.is_finished() {
        return true;
    }
    let reading = async {
        let mut drained = 0;
        while !body.is_finished() && drained < DRAINED_BYTES_MAX {
            match body.read().await {
                Ok(Some(piece)) => drained += piece.len(),
                Ok(None) | Err(_) => break,
            }
        }
        body.is_finished()
    };
    rt::timeout(DRAIN_TIME_MAX, pin!(reading)).await.unwrap_or(false)
}
