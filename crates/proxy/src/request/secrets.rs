//! Keys, tokens and codes in a request's query: who is told of them, and that no log is. Which parameters these are is
//! said by `middleware`.

use super::Request;
use std::rc::Rc;
use tidegate_middleware::{OidcAddress, shown_address, without};
use tidegate_transport::Sock;
use tidegate_wire::head::{Fields, HeaderId, Span};

type Names = [Box<[u8]>];

impl<S: Sock> Request<'_, '_, S> {
    /// Takes keys out of what others are told of the URL; the client knows them, and conditions may ask for them.
    #[cold]
    pub(super) fn withhold(&mut self, names: &Names) {
        let told = self.exchange.record.told_query;
        self.exchange.record.told_query = told.and_then(|query| without_all(&mut self.exchange.head.fields, query, names));
    }

    /// Before the request is written of, and when nobody needs it any more: in what logs show of the query there is
    /// nothing by which somebody else could be its client. Of a request whose site is not known, this is what any site
    /// takes for such.
    pub(super) fn hide_secrets(&mut self) {
        match (&self.site, &self.place) {
            (Some(site), _) => {
                if !site.compiled.secret_parameters.is_empty() {
                    let site = Rc::clone(site);
                    self.hide(&site.compiled.secret_parameters);
                }
                self.hide_code();
            }
            (None, Some((snapshot, _))) if !snapshot.shared.secret_parameters.is_empty() => {
                let snapshot = Rc::clone(snapshot);
                self.hide(&snapshot.shared.secret_parameters);
            }
            (None, _) => {}
        }
    }

    /// Hides them in the address that a browser comes from too, whichever site's that is. Others were told it as it
    /// came.
    pub(super) fn hide_in_referer(&mut self) {
        if !self.exchange.head.fields.has(HeaderId::Referer) {
            return;
        }
        let snapshot = self.connection.worker.snapshot();
        let names = &snapshot.shared.secret_parameters;
        if !names.is_empty() {
            let shown = |id, address: &[u8]| if id == HeaderId::Referer { shown_address(address, names) } else { None };
            self.exchange.head.fields.change_values(|id, _, value| shown(id, value));
        }
    }

    /// What a browser brings from a provider (RFC 9700 section 4.2.4).
    fn hide_code(&mut self) {
        let Some(log_ins) = self.site.as_ref().and_then(|site| site.compiled.log_ins.as_ref()) else { return };
        let path = self.exchange.record.path.of(&self.exchange.head.fields.bytes);
        if matches!(log_ins.steps.address(path), Some(OidcAddress::Callback)) {
            self.exchange.record.query = None;
            self.exchange.head.query = None;
        }
    }

    /// Fields of a `log` are made of the head, steps may have left it another query.
    #[cold]
    fn hide(&mut self, names: &Names) {
        let exchange = &mut *self.exchange;
        let (of_record, of_head) = (exchange.record.query, exchange.head.query);
        let mut shown = |query: Option<Span>| query.and_then(|query| without_all(&mut exchange.head.fields, query, names));
        (exchange.record.query, exchange.head.query) = (shown(of_record), shown(of_head));
    }
}

fn without_all(fields: &mut Fields, query: Span, names: &Names) -> Option<Span> {
    let mut left = query;
    for name in names {
        if let Some(rest) = without(left.of(&fields.bytes), name) {
            if rest.is_empty() {
                return None;
            }
            left = fields.append(&[&rest]);
        }
    }
    Some(left)
}
