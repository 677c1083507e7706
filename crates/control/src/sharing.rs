//! Sockets that change hands between processes that share a port. A process that leaves offers its own to those that
//! stay, because closing a socket resets the connections in its queue; one that starts asks for those that others have
//! too many of. How they travel is in `transport::handover`; which sockets there are, in `sockets`.

use crate::bind::is_shared;
use std::collections::HashSet;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Once;
use std::time::{Duration, Instant};
use tidegate_transport::handover::{self, Fault, Handed, Lent, Listener, Peer, Purpose, Request, peers};

/// What a peer may take to answer. It is a process on the same machine; one that is stopped must not hold everybody up.
pub(crate) const PEER_PATIENCE: Duration = Duration::from_secs(1);
/// What all peers together may take: a process that starts or leaves is not held up for longer, whoever else is there.
const PEERS_PATIENCE: Duration = Duration::from_secs(3);
/// What those whose queue of connections is full may take together. Strangers with such a queue are tried no longer; a
/// process of ours that strangers flood has a free place now and then.
const CROWD_PATIENCE: Duration = Duration::from_millis(300);
/// Nobody runs more on one machine. Strangers do not count.
const PEERS_MAX: usize = 256;
/// Sockets of one offer. One that fails loses no other, and a peer that runs out of descriptors takes as many as it
/// can.
const BATCH: usize = 256;
/// Times that peers are asked to take what is left: see [`spread`].
const ROUNDS: usize = 3;
/// Between two lines about peers that were turned away: any local user can connect at will.
const TURNED_AWAY_PAUSE: Duration = Duration::from_secs(10);
/// Not `/proc/net`, which is not there where `/proc` shows only processes (`ProcSubset=pid` of systemd).
const NETWORK: &str = "/proc/self/net";

// A successor inherits every socket, and the admin endpoint's.
const _: () = assert!(crate::sockets::SOCKETS_MAX < handover::SOCKETS_MAX);
const _: () = assert!(BATCH <= handover::OFFERED_MAX);

/// Offers sockets to the other processes until each has an owner or nobody is left; says which have one. A process must
/// answer nobody any more before it offers its own, or two that leave at the same time would wait for each other.
pub(crate) fn offer_all(own_name: &str, sockets: &[&TcpListener]) -> Vec<bool> {
    if sockets.is_empty() || !seen(are_shared(Path::new(NETWORK), sockets)) {
        return vec![false; sockets.len()];
    }
    let offer = |peer: &Peer, positions: &[usize], patience: Duration| {
        let (positions, lent): (Vec<usize>, Vec<Lent<'_>>) =
            positions.iter().filter_map(|position| Some((*position, lend(sockets[*position])?))).unzip();
        let taken = peer.offer(&lent, patience)?;
        Ok(taken.into_iter().map(|index| positions[index]).collect())
    };
    spread(seen(peers(own_name)), sockets.len(), Instant::now() + PEERS_PATIENCE, offer)
}

/// Has `offer` offer each of `count` sockets to peers until one takes it; it says which of the given positions were
/// taken. Everybody gets a fair share first, so that nobody ends up with all of them; strangers have made the shares
/// too small, so again; then whoever wants takes the rest.
fn spread<P>(
    mut peers: Vec<P>,
    count: usize,
    until: Instant,
    mut offer: impl FnMut(&P, &[usize], Duration) -> Result<Vec<usize>, Fault>,
) -> Vec<bool> {
    let mut is_taken = vec![false; count];
    let mut asking = Asking::until(until);
    let mut round = 1;
    loop {
        let open = is_taken.iter().filter(|is_taken| !**is_taken).count();
        let share = if round < ROUNDS { open.div_ceil(peers.len().max(1)) } else { open };
        peers.retain(|peer| {
            let open: Vec<usize> = (0..count).filter(|position| !is_taken[*position]).take(share).collect();
            if open.is_empty() || round == 1 && !asking.counts_another() {
                return false;
            }
            for batch in open.chunks(BATCH) {
                let Some(patience) = asking.patience() else { return false };
                match asking.heard(offer(peer, batch, patience)) {
                    Answer::Given(taken) => {
                        for position in taken {
                            is_taken[position] = true;
                        }
                    }
                    Answer::NotThese => {}
                    Answer::Crowded => return true,
                    Answer::Nobody => return false,
                }
            }
            round < ROUNDS
        });
        if round >= ROUNDS && !asking.goes_on(peers.len()) {
            return is_taken;
        }
        round += 1;
    }
}

/// One question to all peers.
struct Asking {
    until: Instant,
    crowd_until: Option<Instant>,
    /// How many were asked and are no strangers.
    peers: usize,
    strangers: usize,
}

/// What a peer says to one question.
enum Answer<T> {
    Given(T),
    /// The process can be asked for others.
    NotThese,
    /// Too many wait for it; it may be a stranger that sees to that, or have strangers that do.
    Crowded,
    /// The process is a stranger, hangs, is gone, or is nobody to talk to: it is not asked again.
    Nobody,
}

impl Asking {
    fn until(until: Instant) -> Asking {
        Asking { until, crowd_until: None, peers: 0, strangers: 0 }
    }

    /// Whether one more may be asked.
    fn counts_another(&mut self) -> bool {
        self.peers += 1;
        self.peers <= PEERS_MAX
    }

    /// What the next peer may take to answer; `None` when the time of all is over.
    fn patience(&self) -> Option<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left.min(PEER_PATIENCE))
    }

    /// Whether those that are left because they are crowded are to be tried again.
    fn goes_on(&mut self, crowded: usize) -> bool {
        let now = Instant::now();
        let until = *self.crowd_until.get_or_insert(self.until.min(now + CROWD_PATIENCE));
        let goes_on = crowded > 0 && now < until;
        if goes_on {
            std::thread::yield_now();
        } else if crowded > 0 || self.strangers > 0 {
            tracing::debug!(strangers = self.strangers, crowded, "what has a name like a process of ours was passed over");
        }
        goes_on
    }

    fn heard<T>(&mut self, answer: Result<T, Fault>) -> Answer<T> {
        let fault = match answer {
            Ok(given) => return Answer::Given(given),
            Err(fault) => fault,
        };
        let answer = match fault {
            // There can be thousands of these, so no line of the log for each.
            Fault::Stranger { .. } => {
                self.peers = self.peers.saturating_sub(1);
                self.strangers += 1;
                return Answer::Nobody;
            }
            Fault::Crowded => {
                self.peers = self.peers.saturating_sub(1);
                return Answer::Crowded;
            }
            Fault::Io(_) | Fault::TimedOut | Fault::NotSpawned { .. } | Fault::Malformed(_) | Fault::Unexpected => Answer::Nobody,
            Fault::Closed | Fault::TooManyFiles | Fault::TooMuch { .. } | Fault::Refused { .. } => Answer::NotThese,
        };
        tracing::debug!(%fault, "another process neither took nor gave listening sockets");
        answer
    }
}

/// What cannot be seen is as if it were not there. Said once: it stays so while the process runs.
fn seen<T: Default>(outcome: io::Result<T>) -> T {
    static SAID: Once = Once::new();
    outcome.unwrap_or_else(|error| {
        SAID.call_once(|| {
            tracing::warn!(
                "other processes that share a port cannot be found: {error}; when one of them leaves, what waits in its sockets is lost\n  help: let this process read {NETWORK}"
            );
        });
        T::default()
    })
}

/// Whether somebody else listens on one of these ports, by the tables in this folder: otherwise no process is asked,
/// and none that hangs holds this one up.
fn are_shared(network: &Path, sockets: &[&TcpListener]) -> io::Result<bool> {
    // Sockets of this machine are in none of the tables.
    let own: Vec<u16> = sockets.iter().filter_map(|socket| Some(socket.local_addr().ok()?.port())).collect();
    let ports: HashSet<u16> = own.iter().copied().collect();
    let mut listening = 0;
    for table in ["tcp", "tcp6"] {
        let path = network.join(table);
        let file = match std::fs::File::open(&path) {
            Ok(file) => file,
            // A machine without IPv6.
            Err(error) if table == "tcp6" && error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        };
        // Listening sockets come first.
        let lines = BufReader::new(file).lines().skip(1).map_while(Result::ok);
        listening += lines.map_while(|line| listening_port(&line)).filter(|port| ports.contains(port)).count();
    }
    Ok(listening > own.len())
}

/// The port in a line of `sl local_address rem_address st …`, if that socket listens.
fn listening_port(line: &str) -> Option<u16> {
    const LISTEN: &str = "0A";
    let mut columns = line.split_ascii_whitespace().skip(1);
    let (local, state) = (columns.next()?, columns.nth(1)?);
    let port = local.rsplit_once(':')?.1;
    (state == LISTEN).then(|| u16::from_str_radix(port, 16).ok())?
}

pub(crate) fn lend(socket: &TcpListener) -> Option<Lent<'_>> {
    Lent::tcp(socket, Purpose::Site, None).ok()
}

/// Sockets that other processes can do without, on these addresses. Nobody is asked when nobody is there.
pub(crate) fn ask_for_spares(addresses: &[SocketAddr]) -> Vec<TcpListener> {
    let mut sockets = Vec::new();
    if !addresses.iter().any(|address| is_shared((*address).into())) {
        return sockets;
    }
    // This process has no name yet.
    let mut peers = seen(peers(""));
    let mut asking = Asking::until(Instant::now() + PEERS_PATIENCE);
    let mut is_first_time = true;
    loop {
        peers.retain(|peer| {
            if is_first_time && !asking.counts_another() {
                return false;
            }
            let Some(patience) = asking.patience() else { return false };
            match asking.heard(peer.ask_spare(addresses, patience)) {
                Answer::Given(adopted) => sockets.extend(tcp_sockets(adopted.sockets)),
                Answer::Crowded => return true,
                Answer::NotThese | Answer::Nobody => {}
            }
            false
        });
        if !asking.goes_on(peers.len()) {
            return sockets;
        }
        is_first_time = false;
    }
}

pub(crate) fn tcp_sockets(handed: Vec<Handed>) -> Vec<TcpListener> {
    let site = handed.into_iter().filter(|handed| handed.announced.purpose == Purpose::Site);
    site.map(|handed| match handed.listener {
        Listener::Tcp(socket) => socket,
        // A descriptor that listens, whatever it is of.
        Listener::Unix(socket) => TcpListener::from(OwnedFd::from(socket)),
    })
    .collect()
}

/// What is done with those that the handover thread has heard: requests wait for the control thread, which `tell`
/// reaches. Those that were turned away end here, or any local user could fill its queue.
pub(crate) fn receive_peers(tell: impl Fn(Request) + Send + 'static) -> impl FnMut(Result<Request, Fault>) + Send + 'static {
    let mut ration = Ration::default();
    move |heard| match heard {
        Ok(request) => tell(request),
        Err(fault) => {
            if let Some(unsaid) = ration.say(Instant::now()) {
                tracing::debug!(%fault, unsaid, "another process was turned away");
            }
        }
    }
}

/// How often something is said that others cause.
#[derive(Default)]
struct Ration {
    said: Option<Instant>,
    unsaid: u64,
}

impl Ration {
    /// Whether it is said now, and how many times it was not since the last time.
    fn say(&mut self, now: Instant) -> Option<u64> {
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < TURNED_AWAY_PAUSE) {
            self.unsaid += 1;
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// Where processes of ours meet; `None` where the system has no abstract sockets, and then nobody hands anything over.
pub(crate) fn open_rendezvous() -> Option<handover::Rendezvous> {
    match handover::Rendezvous::open() {
        Ok(rendezvous) => Some(rendezvous),
        Err(error) => {
            tracing::warn!(%error, "other processes cannot hand their listening sockets over to this one");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH, Fault, NETWORK, PEERS_MAX, Ration, TURNED_AWAY_PAUSE, are_shared, listening_port, receive_peers, spread};
    use crate::bind::bind_one;
    use std::path::Path;
    use std::time::{Duration, Instant};

    #[test]
    fn ports_are_read_from_sockets_that_listen() {
        let check = |line: &str, expected: Option<u16>| assert_eq!(listening_port(line), expected, "{line}");
        check("   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0", Some(8080));
        check("   1: 00000000000000000000000000000000:01BB 00000000000000000000000000000000:0000 0A 0", Some(443));
        check("   2: 0100007F:1F90 0100007F:9C40 01 00000000:00000000", None);
        check("", None);
    }

    #[test]
    fn a_port_is_shared_when_more_sockets_listen_than_ours() {
        let check = |sockets: &[&std::net::TcpListener], expected: bool| {
            assert_eq!(are_shared(Path::new(NETWORK), sockets).expect("the tables"), expected);
        };
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let own = bind_one(free).expect("nobody else has it");
        check(&[&own], false);
        let other = bind_one(free).expect("they share it");
        check(&[&own], true);
        check(&[&own, &other], false);
    }

    #[test]
    fn a_machine_may_lack_ipv6_but_not_the_tables() {
        let network = tempfile::tempdir().expect("a folder");
        let own = bind_one("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let fault = are_shared(network.path(), &[&own]).expect_err("nothing can be seen").to_string();
        assert!(fault.starts_with(&network.path().join("tcp").display().to_string()), "{fault}");
        let port = own.local_addr().expect("an address").port();
        let line = |number: u8| format!("   {number}: 0100007F:{port:04X} 00000000:0000 0A\n");
        std::fs::write(network.path().join("tcp"), format!("  sl\n{}{}", line(0), line(1))).expect("a table");
        assert!(are_shared(network.path(), &[&own]).expect("a table"));
    }

    /// Processes that a socket can be offered to.
    #[derive(Clone, Copy)]
    enum Other {
        /// Takes whatever it is offered.
        Eager,
        /// Listens elsewhere.
        Elsewhere,
        /// Has descriptors for so many more, and says nothing when they are not enough.
        Full(usize),
        Hanging,
        Gone,
        Stranger,
        /// Has a place for a connection after so many tries.
        Crowded(usize),
    }

    /// How many of the sockets each has afterwards, and how often each was asked.
    fn spread_over(others: &[Other], sockets: usize, patience: Duration) -> (Vec<usize>, Vec<usize>) {
        let (mut has, mut asked) = (vec![0; others.len()], vec![0; others.len()]);
        let taken = spread((0..others.len()).collect(), sockets, Instant::now() + patience, |other, positions, left| {
            assert!(!positions.is_empty() && positions.len() <= BATCH && left <= patience);
            asked[*other] += 1;
            match others[*other] {
                Other::Crowded(tries) if asked[*other] <= tries => Err(Fault::Crowded),
                Other::Eager | Other::Crowded(_) => {
                    has[*other] += positions.len();
                    Ok(positions.to_vec())
                }
                Other::Elsewhere => Ok(Vec::new()),
                Other::Full(room) if has[*other] + positions.len() > room => Err(Fault::Closed),
                Other::Full(_) => {
                    has[*other] += positions.len();
                    Ok(positions.to_vec())
                }
                Other::Hanging => Err(Fault::TimedOut),
                Other::Gone => Err(Fault::Io(std::io::ErrorKind::ConnectionRefused.into())),
                Other::Stranger => Err(Fault::Stranger { uid: 7 }),
            }
        });
        assert_eq!(taken.iter().filter(|is_taken| **is_taken).count(), has.iter().sum::<usize>());
        (has, asked)
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn sockets_are_spread_over_those_that_want_them() {
        use Other::{Crowded, Eager, Elsewhere, Full, Gone, Hanging, Stranger};
        fn check(others: &[Other], sockets: usize, expected: &[usize]) {
            assert_eq!(spread_over(others, sockets, LONG).0, expected);
        }
        check(&[], 3, &[]);
        check(&[Eager], 3, &[3]);
        check(&[Eager, Eager], 5, &[3, 2]);
        check(&[Eager, Elsewhere, Eager], 6, &[3, 0, 3]);
        check(&[Elsewhere, Hanging, Gone, Stranger, Crowded(usize::MAX)], 2, &[0; 5]);
        check(&[Hanging, Eager, Gone], 6, &[0, 6, 0]);
        // An offer that fails loses no other, and what one cannot take another gets.
        check(&[Full(3 * BATCH)], 4 * BATCH, &[3 * BATCH]);
        check(&[Full(BATCH + 1), Eager], 8 * BATCH, &[BATCH, 7 * BATCH]);
        check(&[Full(0), Full(2 * BATCH)], 2 * BATCH, &[0, 2 * BATCH]);
        check(&[Eager], 65_536, &[65_536]);
        // Strangers that flood one of ours find it no less.
        check(&[Crowded(50)], 3, &[3]);
        check(&[Crowded(1), Eager], 6, &[2, 4]);
        // Strangers make no share smaller in the end.
        check(&[Stranger, Eager, Stranger, Crowded(usize::MAX), Eager, Stranger], 8, &[0, 4, 0, 0, 4, 0]);
    }

    #[test]
    fn strangers_crowd_nobody_out_and_nobody_is_asked_for_ever() {
        let mut others = vec![Other::Stranger; 4 * PEERS_MAX];
        others.push(Other::Eager);
        let (has, asked) = spread_over(&others, 3, LONG);
        assert_eq!(has.last(), Some(&3));
        assert!(asked[..4 * PEERS_MAX].iter().all(|times| *times == 1));

        let (_, asked) = spread_over(&vec![Other::Elsewhere; 2 * PEERS_MAX], 3, LONG);
        assert_eq!(asked.iter().filter(|times| **times > 0).count(), PEERS_MAX);
        let (_, asked) = spread_over(&[Other::Hanging, Other::Gone], 3, LONG);
        assert_eq!(asked, [1, 1]);
        let (_, asked) = spread_over(&[Other::Eager], 3, Duration::ZERO);
        assert_eq!(asked, [0]);
    }

    #[test]
    fn those_that_were_turned_away_do_not_wait_for_the_control_thread() {
        let (sender, waiting) = std::sync::mpsc::channel();
        let mut receive = receive_peers(move |request| drop(sender.send(request)));
        for _ in 0..3 {
            receive(Err(Fault::Stranger { uid: 7 }));
        }
        assert!(waiting.try_recv().is_err());
    }

    #[test]
    fn what_others_cause_is_said_once_in_a_while() {
        let mut ration = Ration::default();
        let begin = Instant::now();
        let mut check = |after: Duration, expected: Option<u64>| assert_eq!(ration.say(begin + after), expected, "{after:?}");
        check(Duration::ZERO, Some(0));
        check(Duration::ZERO, None);
        check(TURNED_AWAY_PAUSE / 2, None);
        check(TURNED_AWAY_PAUSE, Some(2));
        check(TURNED_AWAY_PAUSE * 3 / 2, None);
        check(TURNED_AWAY_PAUSE * 3, Some(1));
    }
}
