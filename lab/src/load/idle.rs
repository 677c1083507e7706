//! Opens many keep-alive connections, asks once on each, and then only holds them, so that the runner can weigh the
//! proxy. Prints `ready N` when all stand, and lets go when its standard input closes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use tokio::time::timeout;

use crate::client::Question;
use crate::client::body::Expected;
use crate::client::connection::Target;
use crate::client::failure::Failure;
use crate::client::http1::Http1Client;
use crate::client::tls::{self, SessionTickets};
use crate::content::Page;
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
    let question = Question {
        target: Target {
            address: options.to,
            tls: Some(tls::client_config(options.ca.as_deref(), "http/1.1", SessionTickets::Ignored)?),
            wire: Rc::default(),
        },
        path: Page::Hello11B.path().to_owned(),
        accept_encoding: None,
        expected: Expected::new(Page::Hello11B.body()),
    };
    net::runtime()?.block_on(async {
        let question = Rc::new(question);
        let tasks: Vec<_> = (0..CONCURRENT_OPENINGS)
            .map(|index| {
                let share =
                    options.connections / CONCURRENT_OPENINGS + usize::from(index < options.connections % CONCURRENT_OPENINGS);
                let question = Rc::clone(&question);
                tokio::task::spawn_local(async move { open(share, &question).await })
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

async fn open(count: usize, question: &Question) -> Result<Vec<Http1Client>, Failure> {
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        let mut client = Http1Client::default();
        client.ask(question).await?;
        client.rest();
        held.push(client);
    }
    Ok(held)
}
