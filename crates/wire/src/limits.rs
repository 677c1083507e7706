//! Bounds on what a head may be. The values come from the configuration's `limits`; bounds that nobody needs to
//! change are constants beside the code that keeps them.

/// Bounds on one message head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// `limits header-bytes`: the whole head, from its first byte to the end of the empty line.
    pub head_bytes_max: usize,
    /// `limits request-line`: method, target and version, without the line's end.
    pub request_line_bytes_max: usize,
    /// `limits header-count`: field lines.
    pub fields_max: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        HeadLimits { head_bytes_max: 64 << 10, request_line_bytes_max: 16 << 10, fields_max: 128 }
    }
}
