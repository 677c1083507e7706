//! Upstreams of a case without a script: what they do depends on the path asked for and on what was marked so far, down
//! to not listening at all. How a request is answered is in `crate::upstream`.

use super::script::{ConductKind, PathConduct};
use super::world::World;
use crate::connection::Socket;
use crate::head::Head;
use crate::upstream::{self, Answer, Behaviour, Choose, Counters};
use socket2::SockRef;
use std::io;
use std::net::Shutdown;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsStream};

const BACKLOG: i32 = 1024;

/// The socket keeps its port all the time.
enum Listening {
    Now(TcpListener),
    /// Whoever connects is refused.
    Later(std::net::TcpListener),
    /// The system would not have it.
    Never,
}

pub struct AutomaticServer {
    pub acceptor: Option<TlsAcceptor>,
    pub is_h2: bool,
    pub conducts: Vec<PathConduct>,
    pub counters: Arc<Counters>,
}

impl AutomaticServer {
    /// Serves until the case is over.
    pub async fn run(self, listener: TcpListener, world: Weak<World>) {
        let choose = self.chooser(world.clone());
        let mut listening = Listening::Now(listener);
        let mut connections = JoinSet::new();
        loop {
            let Some(case) = world.upgrade() else { return };
            let marked = case.marked.notified();
            let refuses = self.refuses(&case);
            listening = match listening {
                Listening::Now(listener) if refuses => {
                    connections.shutdown().await;
                    listener.into_std().and_then(stop)
                }
                Listening::Later(socket) if !refuses => start(socket),
                unchanged => Ok(unchanged),
            }
            .unwrap_or(Listening::Never);
            let accepting = async {
                match &listening {
                    Listening::Now(listener) => listener.accept().await,
                    Listening::Later(_) | Listening::Never => std::future::pending().await,
                }
            };
            tokio::select! {
                () = marked => {}
                accepted = accepting => {
                    // An error is that of a client which is gone already.
                    if let Ok((tcp, _)) = accepted {
                        let serving = serve(tcp, self.acceptor.clone(), self.is_h2, choose.clone(), self.counters.clone());
                        connections.spawn_local(serving);
                    }
                }
            }
        }
    }

    fn refuses(&self, case: &World) -> bool {
        let fits = |conduct: &&PathConduct| conduct.path.is_none() && is_after(conduct, case);
        matches!(self.conducts.iter().rfind(fits), Some(PathConduct { conduct: ConductKind::Refuse, .. }))
    }

    fn chooser(&self, world: Weak<World>) -> Rc<Choose> {
        let conducts = self.conducts.clone();
        Rc::new(move |head| {
            let case = world.upgrade();
            let fits = |conduct: &&PathConduct| {
                conduct.path.as_deref().is_none_or(|path| path == path_of(head))
                    && case.as_ref().is_some_and(|case| is_after(conduct, case))
            };
            match conducts.iter().rfind(fits) {
                Some(PathConduct { conduct: ConductKind::Answer(behaviour), .. }) => behaviour.clone(),
                Some(PathConduct { conduct: ConductKind::Refuse, .. }) | None => Behaviour::new(Answer::Reset),
            }
        })
    }
}

/// The runtime takes a socket that was shut down for ended for ever, so it does not keep it.
fn stop(socket: std::net::TcpListener) -> io::Result<Listening> {
    SockRef::from(&socket).shutdown(Shutdown::Read)?;
    Ok(Listening::Later(socket))
}

fn start(socket: std::net::TcpListener) -> io::Result<Listening> {
    SockRef::from(&socket).listen(BACKLOG)?;
    TcpListener::from_std(socket).map(Listening::Now)
}

async fn serve(tcp: TcpStream, acceptor: Option<TlsAcceptor>, is_h2: bool, choose: Rc<Choose>, counters: Arc<Counters>) {
    let socket = match acceptor {
        None => Socket::Plain(tcp),
        Some(acceptor) => match acceptor.accept(tcp).await {
            Ok(stream) => Socket::Tls(Box::new(TlsStream::Server(stream))),
            Err(_) => return,
        },
    };
    upstream::serve(socket, is_h2, choose, counters).await;
}

fn is_after(conduct: &PathConduct, case: &World) -> bool {
    conduct.after.as_deref().is_none_or(|mark| case.marks.borrow().contains(mark))
}

/// Of the target, without its query.
fn path_of(head: &Head) -> String {
    let target = match head.start.split(' ').nth(1) {
        Some(target) => target.to_owned(),
        None => head.value(":path").map(|path| String::from_utf8_lossy(&path).into_owned()).unwrap_or_default(),
    };
    target.split('?').next().unwrap_or_default().to_owned()
}
