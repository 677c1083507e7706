//! One question to one server, without recursion: over UDP, and over TCP when the answer does not fit. It believes only
//! what repeats the question, from the address that was asked.

use crate::fault::LookupFault;
use crate::name::Domain;
use hickory_proto::op::{Edns, Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::{RData, RecordType};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tidegate_outbound::spelt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// How long an answer is waited for each time that a question is sent.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
const ATTEMPTS_MAX: usize = 2;
/// Connecting, asking and reading over TCP.
const TCP_LIMIT: Duration = Duration::from_secs(5);
/// What every path carries in one piece (DNS flag day 2020).
const UDP_BYTES_MAX: u16 = 1232;
const RECORDS_MAX: usize = 1000;

/// NODATA and NXDOMAIN are no values.
pub async fn txt(server: SocketAddr, name: &Domain) -> Result<Vec<String>, LookupFault> {
    let answer = own_answer(server, name, RecordType::TXT).await?;
    let question = name.question()?;
    let own = answer.answers.iter().take(RECORDS_MAX).filter(|record| record.name == question);
    Ok(own.filter_map(|record| text(&record.data)).collect())
}

/// Where an alias leads, by a server that is authoritative for the name; `None` when it is no alias.
pub async fn alias(server: SocketAddr, name: &Domain) -> Result<Option<Domain>, LookupFault> {
    let answer = own_answer(server, name, RecordType::CNAME).await?;
    let question = name.question()?;
    answer.answers.iter().filter(|record| record.name == question).find_map(|record| target(&record.data)).transpose()
}

pub fn target(data: &RData) -> Option<Result<Domain, LookupFault>> {
    match data {
        RData::CNAME(alias) => Some(Domain::of(&alias.0)),
        _ => None,
    }
}

/// Whether a server has a zone of this very name.
pub async fn has_soa(server: SocketAddr, name: &Domain) -> Result<bool, LookupFault> {
    let answer = ask(server, name, RecordType::SOA).await?;
    match answer.metadata.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => {}
        code => return Err(LookupFault::Refused { name: name.to_string(), whom: server.to_string(), code: spelt(code) }),
    }
    let question = name.question()?;
    let is_own = answer.answers.iter().any(|record| record.name == question && matches!(record.data, RData::SOA(_)));
    Ok(answer.metadata.authoritative && is_own)
}

/// The strings of a record are one value (RFC 8555 section 8.4, RFC 7208 section 3.3).
pub fn text(data: &RData) -> Option<String> {
    match data {
        RData::TXT(txt) => Some(txt.txt_data.iter().map(|part| String::from_utf8_lossy(part)).collect()),
        _ => None,
    }
}

/// The zone's own answer, which says that there is something or nothing, by who serves the zone.
async fn own_answer(server: SocketAddr, name: &Domain, kind: RecordType) -> Result<Message, LookupFault> {
    let answer = ask(server, name, kind).await?;
    match answer.metadata.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => {}
        code => return Err(LookupFault::Refused { name: name.to_string(), whom: server.to_string(), code: spelt(code) }),
    }
    // Without the flag it speaks of what it heard from others, or of nothing: it does not serve this zone.
    if !answer.metadata.authoritative {
        let problem = "is not authoritative for it".to_owned();
        return Err(LookupFault::Broken { name: name.to_string(), whom: server.to_string(), problem });
    }
    Ok(answer)
}

async fn ask(server: SocketAddr, name: &Domain, kind: RecordType) -> Result<Message, LookupFault> {
    let broken = |problem: String| LookupFault::Broken { name: name.to_string(), whom: server.to_string(), problem };
    let mut question = Message::query();
    question.metadata.id = rand::random();
    question.metadata.op_code = OpCode::Query;
    question.metadata.recursion_desired = false;
    question.add_query(Query::query(name.question()?, kind));
    let mut edns = Edns::new();
    edns.set_max_payload(UDP_BYTES_MAX);
    question.set_edns(edns);
    let bytes = question.to_vec().map_err(|error| broken(format!("cannot be asked ({error})")))?;
    for _ in 0..ATTEMPTS_MAX {
        match timeout(ANSWER_LIMIT, datagram(server, &bytes, |answer| fitting(answer, &question))).await {
            Ok(Ok(answer)) if !answer.metadata.truncation => return Ok(answer),
            Ok(Ok(_)) => {
                let answer = over_tcp(server, &bytes).await.map_err(|error| broken(reason(&error)))?;
                return fitting(&answer, &question).ok_or_else(|| broken("answers another question over TCP".to_owned()));
            }
            Ok(Err(error)) => return Err(broken(reason(&error))),
            Err(_) => {}
        }
    }
    Err(LookupFault::Silent { name: name.to_string(), whom: server.to_string() })
}

/// For a message that is no question; what has its number is its answer.
pub async fn over_udp(server: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let exchange = datagram(server, bytes, |answer| (answer.get(..2) == bytes.get(..2)).then(|| answer.to_vec()));
    timeout(ANSWER_LIMIT, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The first answer that is taken.
async fn datagram<T>(server: SocketAddr, bytes: &[u8], take: impl Fn(&[u8]) -> Option<T>) -> io::Result<T> {
    let any = if server.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { IpAddr::from(Ipv6Addr::UNSPECIFIED) };
    // A socket of its own has a port of its own, which is what makes an answer hard to forge.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(bytes).await?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(taken) = take(&buffer[..length]) {
            return Ok(taken);
        }
    }
}

/// The whole exchange has [`TCP_LIMIT`].
pub async fn over_tcp(server: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(bytes.len()).map_err(|_| io::Error::other("the message is too long"))?;
    let exchange = async {
        let mut stream = TcpStream::connect(server).await?;
        let mut framed = length.to_be_bytes().to_vec();
        framed.extend_from_slice(bytes);
        stream.write_all(&framed).await?;
        let mut answer = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    };
    timeout(TCP_LIMIT, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn fitting(bytes: &[u8], question: &Message) -> Option<Message> {
    let answer = Message::from_vec(bytes).ok()?;
    (answer.metadata.id == question.metadata.id && answer.queries == question.queries).then_some(answer)
}

pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refuses to be asked".to_owned(),
        io::ErrorKind::TimedOut => "does not answer".to_owned(),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => "has no route from here".to_owned(),
        io::ErrorKind::UnexpectedEof => "closes the connection without an answer".to_owned(),
        _ => format!("cannot be asked ({error})"),
    }
}
