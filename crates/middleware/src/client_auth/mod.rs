//! `client-auth` as a step: who has shown no certificate in its handshake does not get past it. Whether a certificate
//! is good was decided there, in `certs`; there is no way to ask for one later.

use crate::context::Context;
use tidegate_model::{ClientAuthDemand, Step};

/// Whether the requests of a route need a certificate: the last word counts, the route's after its site's.
pub fn requires_certificate<'s>(steps: impl DoubleEndedIterator<Item = &'s Step>) -> bool {
    let demand = |step: &Step| if let Step::ClientAuth(demand) = step { Some(*demand) } else { None };
    steps.rev().find_map(demand) == Some(ClientAuthDemand::Require)
}

/// Whether the client has shown one.
pub(crate) fn lets_through(context: &Context<'_>) -> bool {
    context.client_certificate.is_some()
}

#[cfg(test)]
mod tests {
    use super::{lets_through, requires_certificate};
    use crate::context::Context;
    use crate::fixtures::context;
    use tidegate_model::{ClientAuthDemand, Step};
    use tidegate_wire::ClientCertificate;

    #[test]
    fn the_last_word_counts() {
        let check = |demands: &[ClientAuthDemand], expected: bool| {
            let steps: Vec<Step> = demands.iter().copied().map(Step::ClientAuth).collect();
            assert_eq!(requires_certificate(steps.iter()), expected, "{demands:?}");
        };
        let (require, off) = (ClientAuthDemand::Require, ClientAuthDemand::Off);
        check(&[], false);
        check(&[require], true);
        check(&[require, off], false);
        check(&[off, require], true);
    }

    #[test]
    fn what_was_shown_in_the_handshake_is_enough() {
        let certificate = ClientCertificate::new(vec![Box::from(*b"any")], |_| [0; 32]);
        assert!(lets_through(&Context { client_certificate: certificate.as_ref(), ..context() }));
        assert!(!lets_through(&context()));
    }
}
