//! Why a connection of HTTP/2 ends. What ends a single stream is an [`ErrorCode`] alone.

use crate::h2::floods::Flood;
use crate::h2::frame::ErrorCode;
use crate::h2::hpack::CompressionError;
use thiserror::Error;

/// A rule that the peer broke, beyond what ends a stream (RFC 9113 section 5.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{} ({})", .why, .code.name())]
pub struct ConnectionFault {
    pub code: ErrorCode,
    /// A sentence for logs.
    pub why: &'static str,
}

/// What ends a connection from our side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ConnectionEnd {
    #[error(transparent)]
    Fault(#[from] ConnectionFault),
    #[error(transparent)]
    Compression(#[from] CompressionError),
    #[error(transparent)]
    Flood(#[from] Flood),
}

impl ConnectionEnd {
    /// The code of the GOAWAY.
    pub fn code(self) -> ErrorCode {
        match self {
            ConnectionEnd::Fault(fault) => fault.code,
            ConnectionEnd::Compression(_) => ErrorCode::CompressionError,
            ConnectionEnd::Flood(_) => ErrorCode::EnhanceYourCalm,
        }
    }

    /// Whether the peer began a head that is far larger than its list of fields may be. It was not decoded, so it costs
    /// the connection.
    pub fn is_for_size_of_head(self) -> bool {
        match self {
            ConnectionEnd::Fault(fault) => fault.code == ErrorCode::EnhanceYourCalm,
            ConnectionEnd::Compression(_) | ConnectionEnd::Flood(_) => false,
        }
    }
}

pub(super) fn protocol_error(why: &'static str) -> ConnectionFault {
    ConnectionFault { code: ErrorCode::ProtocolError, why }
}

pub(super) fn size_error(why: &'static str) -> ConnectionFault {
    ConnectionFault { code: ErrorCode::FrameSizeError, why }
}
