//! Sans-IO FastCGI, as a web server speaks it to a responder such as PHP-FPM: records, the CGI environment of a
//! request, the head of the answer. Bytes in, facts out. Nothing here opens a socket, looks at a file system, reads a
//! clock or logs. Start with `params` for what a request becomes, `record` for how it travels, `answer` for what comes
//! back.

#![forbid(unsafe_code)]

pub mod answer;
pub mod pairs;
pub mod params;
pub mod record;

pub use answer::{AnswerError, AnswerHead, AnswerParser, Kind, Progress};
pub use pairs::{Pairs, PairsTooLarge};
pub use params::{Choice, Mode, Params, PathError, Script, Scripts, SettingsError};
pub use record::{Decoder, Event, ProtocolStatus, RecordError, RequestId};
