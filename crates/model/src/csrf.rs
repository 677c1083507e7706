//! `csrf`: pages of which other origins may have a browser change something.

use crate::cors::OriginPattern;

/// Beside the site's own pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Csrf {
    pub origins: Vec<OriginPattern>,
}
