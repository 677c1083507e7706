//! The way to an upstream: pools of servers, which server gets a request, its connection, and what becomes of a server
//! by how it does. No route, no site, no client: who asks brings what is known of its request, and gets a server, a
//! connection and a verdict. Read `errand` first, then `choose`, `connect`, `call`, `verdict` and `retry`.

pub mod attempt;
pub mod awaited;
pub mod call;
pub mod choose;
pub mod compiled;
pub mod connect;
pub mod errand;
pub mod fault;
pub mod health;
#[cfg(test)]
mod health_tests;
pub mod pool;
pub mod queue;
#[cfg(test)]
mod queue_tests;
pub mod retry;
pub mod shared;
#[cfg(test)]
mod shared_tests;
mod sync;
pub mod verdict;
