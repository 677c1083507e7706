//! Opens many keep-alive connections, asks once on each, and then only holds them, so that the runner can weigh the proxy.
//! Prints `ready N` when all stand, and lets go when its standard input closes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use tokio::time::timeout;

use crate::client::connection::{Connection, Target};
use crate::client::response::Response;
use crate::client::tls::{self, SessionTickets};
use crate::content::Page;
use crate::load::http1_request;
use crate::net::{self, Error};

/// Connections that are opened at a time; what counts is how many stay, not how fast they come.
const CONCURRENT_OPENINGS: usize = 64;

const OPENING_TIME_MAX: Duration = Duration::from_secs(60);

/// Holds idle TLS keep-alive connections until standard input closes.
#[derive(Debug, Args)]
pub struct IdleOptions {
    /// Address of the server.
    #[arg(long)]
    pub to: SocketAddr,
    /// PEM file with the authority that signed the server's certificate. Without it any certificate is taken.
    #[arg(long)]
    pub ca: Option<PathBuf>,
    #[arg(long, default_value_t = 5000)]
    pub connections: usize,
}

pub fn run(options: &IdleOptions) -> Result<(), Error> {
    let target = Target {
        address: options.to,
        tls: Some(tls::client_config(options.ca.as_deref(), "http/1.1", SessionTickets::Ignored)?),
    };
    net::runtime()?.block_on(async {
        let target = Rc::new(target);
        let tasks: Vec<_> = (0..CONCURRENT_OPENINGS)
            .map(|index| {
                let share =
                    options.connections / CONCURRENT_OPENINGS + usize::from(index < options.connections % CONCURRENT_OPENINGS);
                let target = Rc::clone(&target);
                tokio::task::spawn_local(async move { open(share, &target).await.map_err(|error| error.to_string()) })
            })
            .collect();
        let open_all = async {
            let mut held = Vec::with_capacity(options.connections);
            for task in tasks {
                held.extend(task.await??);
            }
            Ok::<_, Error>(held)
        };
        let held = timeout(OPENING_TIME_MAX, open_all).await.map_err(|_| "the connections did not open in time")??;
        println!("ready {}", held.len());
        // The runtime stands still meanwhile, which is what idle means.
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
        Ok(())
    })
}

async fn open(count: usize, target: &Target) -> Result<Vec<Connection>, Error> {
    let request = http1_request(Page::Hello11B);
    let body = Page::Hello11B.body();
    let mut response = Response::default();
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        let mut connection = Connection::open(target).await?;
        connection.exchange(&request, &mut response, &body).await?;
        connection.rest();
        held.push(connection);
    }
    Ok(held)
}
