//! What the hop-by-hop fields of a request said. They are taken out of its head before anything else looks at it.

use tidegate_wire::head::{HeaderId, RequestHead};
use tidegate_wire::{Span, http1};

/// What the hop-by-hop fields said, which are gone from the head.
#[derive(Debug, Clone, Copy, Default)]
pub struct HopByHop {
    /// The protocol that the client asks to switch to.
    pub upgrade: Option<Span>,
    /// `TE: trailers`
    pub trailers_wanted: bool,
}

impl HopByHop {
    pub fn take(head: &mut RequestHead) -> HopByHop {
        let upgrade = http1::asked_switch(head);
        let trailers_wanted = head.fields.all(HeaderId::Te).any(|value| http1::has_token(value, b"trailers"));
        head.fields.remove_hop_by_hop();
        HopByHop { upgrade, trailers_wanted }
    }
}
