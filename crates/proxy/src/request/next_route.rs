//! Routes that take only requests for which they have a file: others are left to the routes behind. Which file
//! answers is decided in the crate `files`, and how it is sent in `crate::files`.

use super::Request;
use crate::files::{Folder, find_file};
use crate::snapshot::{CompiledRoute, CompiledSite};
use crate::surroundings::context;
use tidegate_access::Claims;
use tidegate_files::{Answer, Refused};
use tidegate_middleware::{Refusal, apply_paths};
use tidegate_routing::RouteId;
use tidegate_routing::decision::Sender;
use tidegate_transport::Sock;
use tidegate_wire::Span;

impl<S: Sock> Request<'_, '_, S> {
    /// The first route from `found` on that has what it answers with. `sent` is the path as it came.
    #[cold]
    pub(super) fn pass_without_file(
        &mut self,
        site: &CompiledSite,
        mut found: Option<RouteId>,
        (sent, claims): (Span, Option<&Claims>),
    ) -> Result<Option<RouteId>, Refusal> {
        while let Some(id) = found {
            let route = site.route(Some(id));
            let Some(folder) = route.terminal.goes_on() else { break };
            if self.has_file(route, folder) {
                break;
            }
            self.exchange.head.path = sent;
            let sender = Sender { claims, ..self.sender() };
            found = site.rules.find_route_behind(&mut self.exchange.head, sender, Some(id))?;
        }
        Ok(found)
    }

    /// Whether there is a file for the path as the steps of the route leave it. The request stays as it is.
    fn has_file(&mut self, route: &CompiledRoute, folder: &Folder) -> bool {
        let (path, query) = (self.exchange.head.path, self.exchange.head.query);
        let made = {
            let context =
                context(self.connection, None, &self.exchange.record, self.exchange.client_ip, self.exchange.hop.upgrade);
            let mut scratch = self.connection.worker.scratch.borrow_mut();
            apply_paths(&route.steps, &mut self.exchange.head, &context, &mut scratch)
        };
        let has_file = match made {
            // Whether the folder is asked for with its slash changes nothing here.
            Ok(()) => match find_file(self.exchange, &[], folder) {
                Answer::Refused(Refused::NotFound | Refused::BadPath | Refused::MethodNotAllowed) => false,
                Answer::Refused(_)
                | Answer::File(_)
                | Answer::Page(_)
                | Answer::Folder(_)
                | Answer::Redirect { .. }
                | Answer::NotModified { .. } => true,
            },
            // The route's own step refuses it, and says why.
            Err(_) => true,
        };
        (self.exchange.head.path, self.exchange.head.query) = (path, query);
        has_file
    }
}
