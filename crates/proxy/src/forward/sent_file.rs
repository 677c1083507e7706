//! An answer that names a file: the file is sent, and the connection that the answer came on is kept where it can be.

use super::Forwarding;
use super::reply::Replied;
use crate::cached::{Asked, Caching};
use crate::error_page::drain;
use crate::failure::Failure;
use crate::send_file::send_named;
use tidegate_cache::policy::revalidation::REPLACED_FIELDS;
use tidegate_exchange::BodyReader;
use tidegate_middleware::send_file::NamedFile;
use tidegate_transport::Sock;
use tidegate_upstream::call::Keeping;
use tidegate_upstream::verdict::Attempt;

impl<S: Sock> Forwarding<'_, '_, S> {
    /// The head of such an answer has come, and has no more word of it.
    pub(super) async fn send_named_file(
        &mut self,
        attempt: &Attempt<S>,
        named: NamedFile,
        body: &mut BodyReader<'_, S>,
        keeping: Keeping,
    ) -> Result<Replied, Failure> {
        if matches!(self.way.caching.as_deref(), Some(Caching::Past { .. })) {
            // The cache still has to hear of what the request has changed.
            let _ = Box::pin(self.keep_answer(body)).await?;
        } else if let Some(Caching::Fetch(fetch)) = self.way.caching.take().map(|caching| *caching) {
            // Who waits for the answer asks for it: the file is in its folder, and kept by the system.
            self.ask_as_the_client(&fetch.asked);
        }
        if !self.exchange.is_in_background() {
            self.name_server(attempt);
            let folders = &self.route.send_folders;
            let (exchange, around) = self.parts();
            send_named(exchange, around, folders, &named).await?;
            // The client has its answer; whose turn it is need not wait for what nobody reads.
            self.exchange.limited = None;
        }
        Ok(Replied::Whole(keeping.only_if(drain(body).await)))
    }

    /// A fetch for the cache is made without the client's ranges and conditions; of the file they count.
    fn ask_as_the_client(&mut self, asked: &Asked) {
        let fields = &mut self.exchange.head.fields;
        for replaced in REPLACED_FIELDS {
            fields.remove(replaced.as_bytes());
            asked.with(|request| {
                let sent = request.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(replaced.as_bytes()));
                sent.for_each(|(name, value)| fields.push(name, value));
            });
        }
    }
}
