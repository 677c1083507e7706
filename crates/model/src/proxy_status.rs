//! `proxy-status`: whether answers that the proxy makes itself say so to programs (RFC 9209).

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyStatus {
    /// What this proxy is called there: printable ASCII.
    pub name: String,
}

impl ProxyStatus {
    pub const NAME: &'static str = "tidegate";
    pub const NAME_BYTES_MAX: usize = 64;
}

impl Default for ProxyStatus {
    fn default() -> ProxyStatus {
        ProxyStatus { name: ProxyStatus::NAME.to_owned() }
    }
}
