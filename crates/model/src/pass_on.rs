//! `pass-on`: what of requests goes to upstreams only where it is asked for.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PassOn {
    /// TRACE. An upstream answers it with the request as it got it, and so tells a client what steps have added.
    pub trace: bool,
    /// Trailers of requests that are no gRPC. Some servers take them for fields of the head.
    pub trailers: bool,
}
