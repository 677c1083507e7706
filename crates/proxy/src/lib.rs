//! The data plane: workers, their client connections, the life of a request, and its way to an upstream.
//! No configuration text, no certificates, no admin endpoint: it is handed an immutable `Snapshot` and hands back
//! measurements. Read `request` first: it is the life of a request from top to bottom.

pub mod request;
mod request_ids;

mod answering;
pub mod auth;
pub mod connection;
mod error_page;
pub mod failure;
mod fastcgi;
mod files;
pub mod forward;
mod mounted;
mod passthrough;
mod send_file;
mod serve;
pub mod tunnel;

mod busy;
pub mod cached;
pub mod challenges;
mod coded;
pub mod command;
pub mod control_group;
mod counted;
mod decoded;
pub mod inquiry;
mod introduction;
pub mod listeners;
pub mod listening;
pub mod persistent;
pub mod pressure;
pub mod process_state;
pub mod recent;
mod relief;
pub mod run;
pub mod server_configs;
pub mod snapshot;
mod streaming;
mod surroundings;
pub mod terminal;
pub mod worker;
pub mod worker_snapshot;

#[cfg(test)]
mod tests {
    use crate::connection::Connection;
    use crate::request::{Place, handle};
    use std::rc::Rc;
    use tidegate_exchange::Exchange;
    use tidegate_transport::DriverSock;

    fn output_size<A, B, C, F>(_: fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// Every request that waits has such a future, with its exchange: what is rare in it is boxed, and nothing is in it
    /// twice. The query is there as it was sent and as others are told it, which differ where a key stood in it.
    #[test]
    fn the_future_of_a_request_stays_small() {
        let exchange = size_of::<Exchange<'_, DriverSock>>();
        let bytes =
            exchange + output_size::<&Rc<Connection<DriverSock>>, Place<DriverSock>, &mut Exchange<'_, DriverSock>, _>(handle);
        assert!(bytes <= 1192, "{bytes} bytes");
    }
}
