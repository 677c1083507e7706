//! Which driver the workers have, and why.

use tidegate_model::DriverChoice;
use tidegate_transport::ring::Unavailable;
use tidegate_transport::{Driver, driver};

/// What can be done where a driver that is asked for cannot be had.
pub const DRIVER_HELP: &str = "mend that, or take `driver \"auto\"`, which runs everywhere";

/// A driver that can be had here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    pub driver: Driver,
    /// In a few words.
    pub reason: &'static str,
}

/// The drivers that a worker can have here, for who asks what the program can do: a sentence without its full stop.
pub fn drivers_here() -> String {
    match driver::probe(Driver::IoUring, 1) {
        Ok(()) => "epoll (which `auto` takes in this version), io-uring".to_owned(),
        Err(reason) => format!("epoll (which `auto` takes in this version); io-uring cannot be had here: {reason}"),
    }
}

impl Chosen {
    /// Fails where the one that is asked for by name cannot be had by that many workers beside those that run.
    pub fn by(choice: DriverChoice, workers: usize) -> Result<Chosen, Unavailable> {
        let (driver, reason) = match choice {
            DriverChoice::Auto => (Driver::Epoll, "auto is epoll in this version"),
            DriverChoice::Epoll => (Driver::Epoll, "the configuration says so"),
            DriverChoice::IoUring => (Driver::IoUring, "the configuration says so"),
        };
        driver::probe(driver, workers)?;
        Ok(Chosen { driver, reason })
    }
}
