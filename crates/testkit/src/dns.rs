//! A small authoritative name server over UDP and TCP. It answers from a table that the test changes while it runs, and
//! misbehaves where the test says so. It knows A, AAAA, CNAME and SRV; it is no resolver.

use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, SOA, SRV};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A port that is free for TCP may be taken for UDP.
const ATTEMPTS_MAX: usize = 100;
/// Aliases in one answer.
const ALIASES_MAX: usize = 10;
/// For connections that nobody closes.
const IDLE: Duration = Duration::from_secs(60);

/// How questions for a name are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameServerConduct {
    /// With what the table has; NXDOMAIN for a name that is not in it.
    #[default]
    Honest,
    /// With SERVFAIL.
    Fails,
    /// Not at all.
    Silent,
    /// With another identifier than that of the question.
    WrongId,
    /// Cut off over UDP, whole over TCP.
    Truncated,
}

/// A service record: `port` at `target`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    pub target: String,
}

impl Service {
    pub fn new(priority: u16, weight: u16, port: u16, target: &str) -> Service {
        Service { priority, weight, port, target: target.to_owned() }
    }
}

/// A name server for tests. It runs on threads of its own and ends with the test's process.
#[derive(Debug)]
pub struct NameServer {
    pub address: SocketAddr,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    /// By name, lower case, with a dot at its end.
    entries: HashMap<String, Entry>,
    conducts: HashMap<String, NameServerConduct>,
    /// Of SOA records, in seconds.
    negative_ttl: Option<u32>,
    without_additional: bool,
    /// `A api.internal.`
    questions: Vec<String>,
}

#[derive(Debug, Default)]
struct Entry {
    ttl: u32,
    addresses: Vec<IpAddr>,
    services: Vec<Service>,
    alias: Option<String>,
}

impl NameServer {
    pub fn start() -> io::Result<NameServer> {
        let (tcp, udp) = bind()?;
        let address = tcp.local_addr()?;
        let table = Arc::new(Mutex::new(Table::default()));
        let of_udp = table.clone();
        thread::Builder::new().name("dns udp".into()).spawn(move || answer_datagrams(&udp, &of_udp))?;
        let of_tcp = table.clone();
        thread::Builder::new().name("dns tcp".into()).spawn(move || {
            for stream in tcp.incoming().flatten() {
                let table = of_tcp.clone();
                // A client that leaves half way is no fault.
                thread::spawn(move || answer_stream(stream, &table));
            }
        })?;
        Ok(NameServer { address, table })
    }

    /// The addresses of a name, instead of what it had; `ttl` in seconds. Without any the name exists and has none.
    pub fn set_addresses(&self, name: &str, ttl: u32, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().expect("an IP address")).collect();
        self.set(name, Entry { ttl, addresses, ..Entry::default() });
    }

    /// The SRV records of a name. The addresses of their targets come with them when the table has them.
    pub fn set_services(&self, name: &str, ttl: u32, services: &[Service]) {
        self.set(name, Entry { ttl, services: services.to_vec(), ..Entry::default() });
    }

    /// A CNAME record.
    pub fn set_alias(&self, name: &str, ttl: u32, target: &str) {
        self.set(name, Entry { ttl, alias: Some(target.to_owned()), ..Entry::default() });
    }

    pub fn remove(&self, name: &str) {
        self.table().entries.remove(&full(name));
    }

    /// For all questions for a name, or with `AAAA api.internal` for those of one kind.
    pub fn set_conduct(&self, question: &str, conduct: NameServerConduct) {
        self.table().conducts.insert(full(question), conduct);
    }

    /// What negative answers say, in seconds; `None` leaves the record out that says it.
    pub fn set_negative_ttl(&self, ttl: Option<u32>) {
        self.table().negative_ttl = ttl;
    }

    /// Whether the addresses of targets come with SRV records.
    pub fn set_additional(&self, is_given: bool) {
        self.table().without_additional = !is_given;
    }

    /// How often something was asked: `A api.internal`.
    pub fn count(&self, question: &str) -> usize {
        let question = full(question);
        self.table().questions.iter().filter(|asked| asked.eq_ignore_ascii_case(&question)).count()
    }

    fn set(&self, name: &str, entry: Entry) {
        self.table().entries.insert(full(name), entry);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

fn full(name: &str) -> String {
    format!("{}.", name.trim_end_matches('.').to_lowercase())
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Both on one port.
fn bind() -> io::Result<(TcpListener, UdpSocket)> {
    let mut last = io::Error::other("no attempt");
    for _ in 0..ATTEMPTS_MAX {
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        match UdpSocket::bind(tcp.local_addr()?) {
            Ok(udp) => return Ok((tcp, udp)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn answer_datagrams(socket: &UdpSocket, table: &Mutex<Table>) {
    let mut buffer = [0; 4096];
    while let Ok((length, client)) = socket.recv_from(&mut buffer) {
        if let Some(answer) = answer(&buffer[..length], table, true) {
            let _ = socket.send_to(&answer, client);
        }
    }
}

fn answer_stream(mut stream: TcpStream, table: &Mutex<Table>) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut question)?;
        if let Some(answer) = answer(&question, table, false) {
            let mut framed = (answer.len() as u16).to_be_bytes().to_vec();
            framed.extend_from_slice(&answer);
            stream.write_all(&framed)?;
        }
    }
}

fn answer(bytes: &[u8], table: &Mutex<Table>, is_udp: bool) -> Option<Vec<u8>> {
    let question = Message::from_vec(bytes).ok()?;
    let query = question.queries.first()?.clone();
    let name = full(&query.name().to_ascii());
    let asked = format!("{} {name}", query.query_type());
    let mut table = lock(table);
    table.questions.push(asked.clone());
    let of_kind = table.conducts.get(&asked.to_lowercase());
    let conduct = of_kind.or_else(|| table.conducts.get(&name)).copied().unwrap_or_default();
    let mut message = Message::response(question.metadata.id, OpCode::Query);
    message.metadata.authoritative = true;
    message.metadata.recursion_desired = question.metadata.recursion_desired;
    message.add_query(query.clone());
    match conduct {
        NameServerConduct::Silent => return None,
        NameServerConduct::Fails => message.metadata.response_code = ResponseCode::ServFail,
        NameServerConduct::Honest => table.fill(&mut message, &query, &name),
        NameServerConduct::WrongId => {
            table.fill(&mut message, &query, &name);
            message.metadata.id = message.metadata.id.wrapping_add(1);
        }
        NameServerConduct::Truncated if is_udp => message.metadata.truncation = true,
        NameServerConduct::Truncated => table.fill(&mut message, &query, &name),
    }
    message.to_vec().ok()
}

impl Table {
    fn fill(&mut self, message: &mut Message, query: &Query, name: &str) {
        // Order means nothing in DNS, and servers change it from answer to answer.
        if let Some(entry) = self.entries.get_mut(name) {
            if !entry.addresses.is_empty() {
                entry.addresses.rotate_left(1);
            }
            if !entry.services.is_empty() {
                entry.services.rotate_left(1);
            }
        }
        let mut at = name.to_owned();
        // An alias may lead to itself.
        while message.answers.len() < ALIASES_MAX
            && let Some((entry, target)) = self.entries.get(&at).and_then(|entry| Some((entry, entry.alias.clone()?)))
        {
            message.add_answer(Record::from_rdata(parse(&at), entry.ttl, RData::CNAME(CNAME(parse(&target)))));
            at = full(&target);
        }
        let records = self.records(&at, query.query_type());
        match (records.is_empty(), self.entries.contains_key(&at)) {
            (false, _) => {
                message.add_answers(records);
            }
            (true, exists) => {
                if !exists {
                    message.metadata.response_code = ResponseCode::NXDomain;
                }
                if let Some(ttl) = self.negative_ttl {
                    let soa = SOA::new(parse("ns."), parse("admin."), 1, 3600, 600, 86400, ttl);
                    message.add_authority(Record::from_rdata(parse(name), ttl, RData::SOA(soa)));
                }
            }
        }
        if query.query_type() == RecordType::SRV && !self.without_additional {
            let targets: Vec<String> = self
                .entries
                .get(&at)
                .into_iter()
                .flat_map(|entry| &entry.services)
                .map(|service| full(&service.target))
                .collect();
            for target in targets {
                message.add_additionals(self.records(&target, RecordType::A));
                message.add_additionals(self.records(&target, RecordType::AAAA));
            }
        }
    }

    fn records(&self, name: &str, kind: RecordType) -> Vec<Record> {
        let Some(entry) = self.entries.get(name) else { return Vec::new() };
        let record = |data| Record::from_rdata(parse(name), entry.ttl, data);
        match kind {
            RecordType::A | RecordType::AAAA => {
                let data = |ip: &IpAddr| match ip {
                    IpAddr::V4(ip) => RData::A(A(*ip)),
                    IpAddr::V6(ip) => RData::AAAA(AAAA(*ip)),
                };
                let wanted = entry.addresses.iter().filter(|ip| ip.is_ipv4() == (kind == RecordType::A));
                wanted.map(data).map(record).collect()
            }
            RecordType::SRV => {
                let data = |service: &Service| {
                    let Service { priority, weight, port, target } = service;
                    RData::SRV(SRV::new(*priority, *weight, *port, parse(target)))
                };
                entry.services.iter().map(data).map(record).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn parse(name: &str) -> Name {
    Name::from_ascii(full(name)).expect("a name")
}
