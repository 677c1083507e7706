//! The static file step: which file below a folder answers a request, with which status and headers, and which bytes of
//! it to send. It opens files and reads folders, so it blocks as long as the file system does; it owns no socket, no
//! clock and no log. Sending what it answers, error pages, `Date`, `Allow` and `Content-Length` are the proxy's.
//! [`Root::answer`] in `root` is the way in; `beneath` is what keeps every path inside the folder.

mod answer;
mod ask;
mod beneath;
mod coding;
mod conditions;
mod listing;
mod media_type;
mod path;
mod range;
mod refused;
mod representation;
mod root;
mod tries;

pub use answer::{Answer, FileAnswer, Page, Piece};
pub use ask::{Ask, Method};
pub use listing::ListingAsk;
pub use refused::{Headers, Refused};
pub use root::Root;
pub use tidegate_model::{Files as Settings, Symlinks};
