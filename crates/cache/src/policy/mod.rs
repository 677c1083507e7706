//! The rules of RFC 9111 as functions of heads, settings and the time. Nothing here stores, locks or reads a clock. A
//! request goes through them in this order: `serving` judges what is stored, `revalidation` asks about it and takes a
//! 304 in, `storing` decides about a new answer, `answer` makes a 304 or a range of what is served, `invalidation`
//! follows an unsafe method.

pub mod answer;
pub mod cache_control;
pub mod cache_status;
pub mod invalidation;
pub mod revalidation;
pub mod serving;
pub mod storing;
pub mod tags;
pub mod targeted;

pub use answer::Answer;
pub use cache_control::{RequestDirectives, ResponseDirectives};
pub use cache_status::{CacheStatus, Forward};
pub use serving::{StaleReason, ValidationReason, Verdict};
pub use storing::{Exchange, Terms, WhyNot};
