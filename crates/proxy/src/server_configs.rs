//! How the handshakes of a site are made: settings of TLS for the kinds of clients there are, and who judges the
//! certificates that a handshake takes without asking.

use rustls::ServerConfig;
use std::fmt;
use std::sync::Arc;

/// A site's TLS settings, for the clients that resume in one way or another.
#[derive(Debug, Clone)]
pub struct ServerConfigs {
    pub usual: Arc<ServerConfig>,
    /// For clients of TLS 1.2 that take no tickets: their sessions are remembered here. rustls would remember those of
    /// everybody else as well.
    pub by_session_id: Option<Arc<ServerConfig>>,
    /// For clients of TLS 1.3, where the site takes early data.
    pub early_data: Option<Arc<ServerConfig>>,
    /// Where the handshake takes any certificate: who says whether it is good.
    pub judge: Option<Arc<ClientJudge>>,
}

/// Says what is wrong with a chain of certificates at a time, in seconds since 1970; `None`: it is good.
pub struct ClientJudge(Box<JudgesChain>);

type JudgesChain = dyn Fn(&[Box<[u8]>], u64) -> Option<&'static str> + Send + Sync;

impl ClientJudge {
    pub fn new(judge: impl Fn(&[Box<[u8]>], u64) -> Option<&'static str> + Send + Sync + 'static) -> ClientJudge {
        ClientJudge(Box::new(judge))
    }

    pub fn fault(&self, chain: &[Box<[u8]>], unix_seconds: u64) -> Option<&'static str> {
        (self.0)(chain, unix_seconds)
    }
}

impl fmt::Debug for ClientJudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientJudge")
    }
}

impl ServerConfigs {
    pub fn for_client(&self, offers_tls13: bool, offers_tickets: bool) -> &Arc<ServerConfig> {
        let own = match (offers_tls13, offers_tickets) {
            (true, _) => self.early_data.as_ref(),
            (false, false) => self.by_session_id.as_ref(),
            (false, true) => None,
        };
        own.unwrap_or(&self.usual)
    }
}
