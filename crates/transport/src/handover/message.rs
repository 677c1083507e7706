//! What two processes say to each other, as bytes: one message is one packet. Written by hand, because two binaries of
//! different ages read it, and because what arrives is hostile until it was read. No socket here; `link` carries
//! packets and descriptors.

use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Both sides must speak the same; a successor that does not leaves its predecessor at work.
const VERSION: u8 = 1;
/// A packet; what is longer is not ours.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// The kernel's own bound of descriptors in one packet (`SCM_MAX_FD`).
pub const SOCKETS_PER_MESSAGE_MAX: usize = 253;
/// Addresses that a starting process asks for; more than anybody configures, and they fit one packet.
pub const ADDRESSES_MAX: usize = 1024;
/// State goes in pieces that fit the send buffer of any system.
pub const STATE_PIECE_BYTES_MAX: usize = 32 << 10;
/// A reason is one diagnostic, not a log.
pub const REASON_BYTES_MAX: usize = 4 << 10;
/// `sun_path` without its closing zero.
const UNIX_PATH_BYTES_MAX: usize = 107;
/// No worker has this number.
const NO_WORKER: u16 = u16::MAX;

/// One packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A leaving process: the descriptors of these are attached, in this order. More such packets follow while `more`.
    Offer { sockets: Vec<Announced>, more: bool },
    /// Sockets that somebody asked for.
    Sockets { sockets: Vec<Announced>, more: bool },
    /// Which of all announced sockets the receiver keeps, counted from 0 over all packets.
    Taken { indices: Vec<u16> },
    /// A starting process asks for surplus sockets on these addresses.
    Spare { addresses: Vec<SocketAddr> },
    /// A successor asks for everything.
    Upgrade,
    /// A piece of what the program carries over.
    State { piece: Vec<u8>, more: bool },
    /// The successor runs.
    Ready,
    /// Whoever says it cannot go on.
    Failed { reason: String },
}

/// What a listening socket is for, where it listens and whose it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    pub purpose: Purpose,
    pub place: Place,
    /// The worker that accepted from it, counted from 0.
    pub worker: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Clients of sites connect to it.
    Site,
    /// The admin endpoint.
    Admin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `only_v6` is false for IPv4.
    Tcp { address: SocketAddr, only_v6: bool },
    /// 1 to 107 bytes.
    Unix { path: PathBuf },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp { address, .. } => address.fmt(f),
            Place::Unix { path } => path.display().fmt(f),
        }
    }
}

/// Why a packet is not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The message ends too early.
    #[error("it ends too early")]
    Short,
    /// The message goes on after its end.
    #[error("it goes on after its end")]
    Trailing,
    /// Another version of this protocol.
    #[error("it is of version {0}, and this process speaks version {v}", v = VERSION)]
    Version(u8),
    /// A kind of message that this version does not have.
    #[error("there is no message {0}")]
    Kind(u8),
    /// A value that the named field cannot have.
    #[error("{0} has no such value")]
    Value(&'static str),
    /// More than the bound of what is named.
    #[error("too many {0}")]
    TooMany(&'static str),
    /// Not as many descriptors as sockets.
    #[error("{announced} sockets and {attached} descriptors")]
    Descriptors { announced: usize, attached: usize },
}

const OFFER: u8 = 1;
const SOCKETS: u8 = 2;
const TAKEN: u8 = 3;
const SPARE: u8 = 4;
const UPGRADE: u8 = 5;
const STATE: u8 = 6;
const READY: u8 = 7;
const FAILED: u8 = 8;

const PURPOSE_SITE: u8 = 1;
const PURPOSE_ADMIN: u8 = 2;

const PLACE_V4: u8 = 4;
const PLACE_V6: u8 = 6;
const PLACE_UNIX: u8 = 1;

impl Message {
    /// The packet. What is in it must keep the bounds of this module; senders cut lists and state accordingly.
    pub fn encode(&self) -> Vec<u8> {
        let mut packet = vec![VERSION];
        match self {
            Message::Offer { sockets, more } => put_sockets(&mut packet, OFFER, sockets, *more),
            Message::Sockets { sockets, more } => put_sockets(&mut packet, SOCKETS, sockets, *more),
            Message::Taken { indices } => {
                packet.push(TAKEN);
                put_count(&mut packet, indices.len());
                packet.extend(indices.iter().flat_map(|index| index.to_be_bytes()));
            }
            Message::Spare { addresses } => {
                packet.push(SPARE);
                put_count(&mut packet, addresses.len());
                for address in addresses {
                    put_address(&mut packet, *address);
                }
            }
            Message::Upgrade => packet.push(UPGRADE),
            Message::State { piece, more } => {
                packet.extend([STATE, u8::from(*more)]);
                packet.extend(piece);
            }
            Message::Ready => packet.push(READY),
            Message::Failed { reason } => {
                packet.push(FAILED);
                packet.extend(reason.as_bytes());
            }
        }
        packet
    }

    /// Reads one packet. There is one way to write each message, so whatever this takes, [`Message::encode`] gives
    /// back.
    pub fn decode(packet: &[u8]) -> Result<Message, Malformed> {
        if packet.len() > MESSAGE_BYTES_MAX {
            return Err(Malformed::TooMany("bytes"));
        }
        let mut rest = Rest(packet);
        let version = rest.byte()?;
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let message = match rest.byte()? {
            OFFER => {
                let (sockets, more) = rest.sockets()?;
                Message::Offer { sockets, more }
            }
            SOCKETS => {
                let (sockets, more) = rest.sockets()?;
                Message::Sockets { sockets, more }
            }
            TAKEN => Message::Taken { indices: rest.list("indices", super::OFFERED_MAX, Rest::number)? },
            SPARE => Message::Spare { addresses: rest.list("addresses", ADDRESSES_MAX, Rest::address)? },
            UPGRADE => Message::Upgrade,
            STATE => {
                let more = rest.flag("more")?;
                let piece = rest.everything("bytes of state", STATE_PIECE_BYTES_MAX)?;
                Message::State { piece: piece.to_vec(), more }
            }
            READY => Message::Ready,
            FAILED => {
                let reason = rest.everything("bytes of a reason", REASON_BYTES_MAX)?;
                let reason = str::from_utf8(reason).map_err(|_| Malformed::Value("a reason"))?;
                Message::Failed { reason: reason.to_owned() }
            }
            kind => return Err(Malformed::Kind(kind)),
        };
        if rest.0.is_empty() { Ok(message) } else { Err(Malformed::Trailing) }
    }
}

/// A reason that fits a message; its end is cut off.
pub fn bounded_reason(reason: &str) -> String {
    reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned()
}

/// Whether an announced path fits `sun_path` and means a file.
pub fn is_unix_path(path: &[u8]) -> bool {
    (1..=UNIX_PATH_BYTES_MAX).contains(&path.len()) && !path.contains(&0)
}

fn put_sockets(packet: &mut Vec<u8>, kind: u8, sockets: &[Announced], more: bool) {
    packet.extend([kind, u8::from(more)]);
    put_count(packet, sockets.len());
    for socket in sockets {
        packet.push(match socket.purpose {
            Purpose::Site => PURPOSE_SITE,
            Purpose::Admin => PURPOSE_ADMIN,
        });
        packet.extend(socket.worker.unwrap_or(NO_WORKER).to_be_bytes());
        match &socket.place {
            Place::Tcp { address, only_v6 } => {
                put_address(packet, *address);
                if address.is_ipv6() {
                    packet.push(u8::from(*only_v6));
                }
            }
            Place::Unix { path } => {
                let path = path.as_os_str().as_bytes();
                packet.extend([PLACE_UNIX, path.len() as u8]);
                packet.extend(path);
            }
        }
    }
}

fn put_count(packet: &mut Vec<u8>, count: usize) {
    packet.extend((count as u16).to_be_bytes());
}

fn put_address(packet: &mut Vec<u8>, address: SocketAddr) {
    match address {
        SocketAddr::V4(address) => {
            packet.push(PLACE_V4);
            packet.extend(address.ip().octets());
            packet.extend(address.port().to_be_bytes());
        }
        SocketAddr::V6(address) => {
            packet.push(PLACE_V6);
            packet.extend(address.ip().octets());
            packet.extend(address.port().to_be_bytes());
            packet.extend(address.scope_id().to_be_bytes());
        }
    }
}

/// What of a packet is still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(Malformed::Short)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = tail;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Value(field)),
        }
    }

    fn everything(&mut self, what: &'static str, bytes_max: usize) -> Result<&'a [u8], Malformed> {
        if self.0.len() > bytes_max { Err(Malformed::TooMany(what)) } else { self.bytes(self.0.len()) }
    }

    /// A count and so many of one kind. Memory grows with what was read, not with what a count promises.
    fn list<T>(
        &mut self,
        what: &'static str,
        count_max: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = usize::from(self.number()?);
        if count > count_max {
            return Err(Malformed::TooMany(what));
        }
        (0..count).map(|_| one(self)).collect()
    }

    fn sockets(&mut self) -> Result<(Vec<Announced>, bool), Malformed> {
        let more = self.flag("more")?;
        let sockets = self.list("sockets", SOCKETS_PER_MESSAGE_MAX, Rest::announced)?;
        // Packets that bring nothing and announce another would go on until the deadline.
        if more && sockets.is_empty() { Err(Malformed::Value("more")) } else { Ok((sockets, more)) }
    }

    fn announced(&mut self) -> Result<Announced, Malformed> {
        let purpose = match self.byte()? {
            PURPOSE_SITE => Purpose::Site,
            PURPOSE_ADMIN => Purpose::Admin,
            _ => return Err(Malformed::Value("a purpose")),
        };
        let worker = Some(self.number()?).filter(|worker| *worker != NO_WORKER);
        let place = if self.0.first() == Some(&PLACE_UNIX) {
            self.byte()?;
            let length = self.byte()?;
            let path = self.bytes(usize::from(length))?;
            if !is_unix_path(path) {
                return Err(Malformed::Value("a path"));
            }
            Place::Unix { path: PathBuf::from(OsStr::from_bytes(path)) }
        } else {
            let address = self.address()?;
            Place::Tcp { address, only_v6: address.is_ipv6() && self.flag("only-v6")? }
        };
        Ok(Announced { purpose, place, worker })
    }

    fn address(&mut self) -> Result<SocketAddr, Malformed> {
        match self.byte()? {
            PLACE_V4 => {
                let ip = Ipv4Addr::from(self.array::<4>()?);
                Ok(SocketAddr::new(IpAddr::V4(ip), self.number()?))
            }
            PLACE_V6 => {
                let ip = Ipv6Addr::from(self.array::<16>()?);
                let port = self.number()?;
                let scope_id = self.array().map(u32::from_be_bytes)?;
                Ok(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope_id)))
            }
            _ => Err(Malformed::Value("an address")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ADDRESSES_MAX, Announced, MESSAGE_BYTES_MAX, Malformed, Message, Place, Purpose, REASON_BYTES_MAX,
        SOCKETS_PER_MESSAGE_MAX, STATE_PIECE_BYTES_MAX, bounded_reason,
    };
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};
    use std::net::SocketAddr;
    use std::path::PathBuf;

    /// Addresses as a socket reports them: IPv6 without flow information.
    fn address() -> impl Strategy<Value = SocketAddr> {
        any::<SocketAddr>().prop_map(|mut address| {
            if let SocketAddr::V6(address) = &mut address {
                address.set_flowinfo(0);
            }
            address
        })
    }

    fn announced() -> impl Strategy<Value = Announced> {
        let tcp = (address(), any::<bool>())
            .prop_map(|(address, only_v6)| Place::Tcp { address, only_v6: only_v6 && address.is_ipv6() });
        let unix = "[a-zé/]{1,50}".prop_map(|path| Place::Unix { path: PathBuf::from(path) });
        let purpose = any::<bool>().prop_map(|site| if site { Purpose::Site } else { Purpose::Admin });
        (purpose, prop_oneof![tcp, unix], proptest::option::of(0..u16::MAX)).prop_map(|(purpose, place, worker)| Announced {
            purpose,
            place,
            worker,
        })
    }

    fn sockets() -> impl Strategy<Value = (Vec<Announced>, bool)> {
        (vec(announced(), 0..8), any::<bool>()).prop_map(|(sockets, more)| {
            let more = more && !sockets.is_empty();
            (sockets, more)
        })
    }

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            sockets().prop_map(|(sockets, more)| Message::Offer { sockets, more }),
            sockets().prop_map(|(sockets, more)| Message::Sockets { sockets, more }),
            vec(any::<u16>(), 0..40).prop_map(|indices| Message::Taken { indices }),
            vec(address(), 0..40).prop_map(|addresses| Message::Spare { addresses }),
            (vec(any::<u8>(), 0..80), any::<bool>()).prop_map(|(piece, more)| Message::State { piece, more }),
            ".{0,40}".prop_map(|reason| Message::Failed { reason }),
            proptest::sample::select(vec![Message::Upgrade, Message::Ready]),
        ]
    }

    proptest! {
        #[test]
        fn messages_read_back(message in message()) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }

        /// No panic, and one way to write each message: whatever is taken reads back byte by byte.
        #[test]
        fn changed_messages_are_refused_or_mean_what_they_say(
            message in message(), edits in vec((any::<usize>(), any::<u8>()), 1..4), length in any::<usize>()
        ) {
            let mut packet = message.encode();
            for (place, byte) in edits {
                let place = place % packet.len();
                packet[place] = byte;
            }
            packet.truncate(packet.len() - length % 3);
            if let Ok(read) = Message::decode(&packet) {
                prop_assert_eq!(read.encode(), packet);
            }
        }

        #[test]
        fn any_bytes_are_survived(mut packet in vec(any::<u8>(), 0..200), kind in 0..10_u8) {
            if let [version, second, ..] = packet.as_mut_slice() {
                (*version, *second) = (1, kind);
            }
            if let Ok(read) = Message::decode(&packet) {
                prop_assert_eq!(read.encode(), packet);
            }
        }
    }

    fn check_refused(packet: &[u8], expected: Malformed) {
        assert_eq!(Message::decode(packet), Err(expected), "{:02x?}", &packet[..packet.len().min(16)]);
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        check_refused(&[], Malformed::Short);
        check_refused(&[2, 5], Malformed::Version(2));
        check_refused(&[1, 9], Malformed::Kind(9));
        check_refused(&[1, 5, 0], Malformed::Trailing);
        check_refused(&vec![1; MESSAGE_BYTES_MAX + 1], Malformed::TooMany("bytes"));
        check_refused(&[1, 1, 0, 0, SOCKETS_PER_MESSAGE_MAX as u8 + 1], Malformed::TooMany("sockets"));
        check_refused(&[1, 1, 0, 0, 1], Malformed::Short);
        check_refused(&[1, 1, 1, 0, 0], Malformed::Value("more"));
        check_refused(&[1, 1, 2, 0, 0], Malformed::Value("more"));
        check_refused(&[1, 1, 0, 0, 1, 3], Malformed::Value("a purpose"));
        check_refused(&[1, 1, 0, 0, 1, 1, 0, 0, 1, 0], Malformed::Value("a path"));
        check_refused(&[1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0], Malformed::Value("a path"));
        check_refused(&[1, 1, 0, 0, 1, 1, 0, 0, 5], Malformed::Value("an address"));
        check_refused(&[1, 3, 0x10, 1], Malformed::TooMany("indices"));
        check_refused(&[1, 8, 0xff], Malformed::Value("a reason"));
        check_refused(&[&[1, 6, 0][..], &vec![0; STATE_PIECE_BYTES_MAX + 1]].concat(), Malformed::TooMany("bytes of state"));
        check_refused(&[&[1, 8][..], &vec![b'a'; REASON_BYTES_MAX + 1]].concat(), Malformed::TooMany("bytes of a reason"));
    }

    #[test]
    fn the_largest_messages_fit_a_packet() {
        let unix = Place::Unix { path: PathBuf::from("a".repeat(107)) };
        let socket = Announced { purpose: Purpose::Admin, place: unix, worker: Some(0) };
        let v6 = SocketAddr::from(([1_u16; 8], 443));
        for message in [
            Message::Offer { sockets: vec![socket; SOCKETS_PER_MESSAGE_MAX], more: true },
            Message::Spare { addresses: vec![v6; ADDRESSES_MAX] },
            Message::Taken { indices: vec![0; super::super::OFFERED_MAX] },
            Message::Failed { reason: bounded_reason(&"é".repeat(REASON_BYTES_MAX)) },
        ] {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }
}
