//! A request as it was before the cache changed its head for the upstream: what `Vary`, ranges and conditions are
//! judged by.

use tidegate_cache::{Field, RequestHead, StoredHead};

pub struct Asked {
    method: Box<[u8]>,
    /// Only its fields.
    head: StoredHead,
    has_credentials: bool,
}

impl Asked {
    /// `None` when the head is larger than the cache keeps.
    pub fn new(request: RequestHead<'_>) -> Option<Asked> {
        let head = StoredHead::new(0, request.fields.iter().copied())?;
        Some(Asked { method: request.method.into(), head, has_credentials: request.has_credentials })
    }

    pub fn with<R>(&self, run: impl FnOnce(RequestHead<'_>) -> R) -> R {
        let fields: Vec<Field<'_>> = self.head.fields().collect();
        run(RequestHead { method: &self.method, fields: &fields, has_credentials: self.has_credentials })
    }
}
