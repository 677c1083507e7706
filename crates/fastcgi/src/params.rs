//! The params of a request: its CGI environment (RFC 3875 section 4.1) with what PHP expects beyond that.
//! Which script a path stands for is found in `script`, what becomes of header fields is in `fields`; records are made
//! in `record`.

mod fields;
mod script;
#[cfg(test)]
mod tests;

pub use script::{Choice, Mode, PathError, Script, Scripts, SettingsError};

use crate::pairs::{Pairs, PairsTooLarge};
use std::net::SocketAddr;

/// What is known of a request beside its header fields and its script.
#[derive(Debug, Clone, Copy)]
pub struct Params<'r> {
    /// As the client wrote it; methods are case sensitive.
    pub method: &'r [u8],
    /// The request target as the client sent it, in origin form, with its query.
    pub raw_target: &'r [u8],
    /// Without the question mark; empty when there is none.
    pub query: &'r [u8],
    /// The protocol's name and version, such as `HTTP/1.1`.
    pub protocol: &'r str,
    /// What the request was routed by. It is passed as `HTTP_HOST` in place of any Host field, so that proxy and
    /// application never disagree; when it is empty, a Host field is passed as any other.
    pub authority: &'r [u8],
    /// The host alone, an IPv6 address in brackets.
    pub server_name: &'r [u8],
    pub client: SocketAddr,
    /// This side of the client's connection.
    pub server: SocketAddr,
    pub is_https: bool,
    /// Length of the body, of which all has to follow. PHP-FPM waits for as much, runs the script with nothing when the
    /// connection is closed or the request is aborted before, and reads no body whose length it is not told: a body is
    /// best collected before its request is sent. `None` when there is none.
    pub content_length: Option<u64>,
    /// Who has logged in with a name and a password.
    pub user: Option<&'r str>,
    /// What this server calls itself.
    pub software: &'r str,
    /// Params of the configuration. Each is passed once and replaces what is made here under the same name.
    pub extra: &'r [(&'r [u8], &'r [u8])],
}

impl<'r> Params<'r> {
    /// Writes the environment into `pairs`, which is cleared before. The script comes from [`Scripts::find`]. `fields`
    /// are those of the request, without hop-by-hop ones, their values without control bytes. Refused when all of it is
    /// more than `pairs` may hold.
    pub fn write(
        &self,
        pairs: &mut Pairs,
        scripts: &Scripts,
        script: &Script,
        fields: impl IntoIterator<Item = (&'r [u8], &'r [u8])>,
    ) -> Result<(), PairsTooLarge> {
        pairs.clear();
        let mut writer = Writer { pairs, extra: self.extra };
        write_script(&mut writer, scripts, script)?;
        self.write_request(&mut writer)?;
        self.write_connection(&mut writer)?;
        fields::write(&mut writer, self.authority, fields)?;
        for (name, value) in self.extra {
            writer.pairs.push([*name], [*value])?;
        }
        Ok(())
    }

    fn write_request(&self, writer: &mut Writer<'_>) -> Result<(), PairsTooLarge> {
        writer.put(b"GATEWAY_INTERFACE", [&b"CGI/1.1"[..]])?;
        writer.put(b"SERVER_SOFTWARE", [self.software.as_bytes()])?;
        writer.put(b"SERVER_PROTOCOL", [self.protocol.as_bytes()])?;
        writer.put(b"REQUEST_METHOD", [self.method])?;
        writer.put(b"REQUEST_URI", [self.raw_target])?;
        writer.put(b"QUERY_STRING", [self.query])?;
        // PHP that was built with force-cgi-redirect runs nothing without it.
        writer.put(b"REDIRECT_STATUS", [&b"200"[..]])?;
        if let Some(content_length) = self.content_length {
            writer.put(b"CONTENT_LENGTH", [content_length.to_string().as_bytes()])?;
        }
        Ok(())
    }

    fn write_connection(&self, writer: &mut Writer<'_>) -> Result<(), PairsTooLarge> {
        writer.put(b"SERVER_NAME", [self.server_name])?;
        let ends = [(&b"REMOTE_ADDR"[..], &b"REMOTE_PORT"[..], self.client), (b"SERVER_ADDR", b"SERVER_PORT", self.server)];
        for (address, port, end) in ends {
            // IPv4 clients of an IPv6 socket are IPv4, as scripts that compare addresses expect.
            writer.put(address, [end.ip().to_canonical().to_string().as_bytes()])?;
            writer.put(port, [end.port().to_string().as_bytes()])?;
        }
        if let Some(user) = self.user {
            writer.put(b"AUTH_TYPE", [&b"Basic"[..]])?;
            writer.put(b"REMOTE_USER", [user.as_bytes()])?;
        }
        // Absent otherwise: PHP programs test whether it is set.
        if self.is_https {
            writer.put(b"HTTPS", [&b"on"[..]])?;
        }
        Ok(())
    }
}

fn write_script(writer: &mut Writer<'_>, scripts: &Scripts, script: &Script) -> Result<(), PairsTooLarge> {
    let (root, name, path_info) = (scripts.root(), script.name(), script.path_info());
    writer.put(b"SCRIPT_FILENAME", [root, name])?;
    writer.put(b"SCRIPT_NAME", [name])?;
    writer.put(b"DOCUMENT_ROOT", [if root.is_empty() { &b"/"[..] } else { root }])?;
    writer.put(b"DOCUMENT_URI", [name, path_info])?;
    if !path_info.is_empty() {
        writer.put(b"PATH_INFO", [path_info])?;
        writer.put(b"PATH_TRANSLATED", [root, path_info])?;
    }
    Ok(())
}

/// Puts pairs in, except those that the configuration has its own value for.
struct Writer<'w> {
    pairs: &'w mut Pairs,
    extra: &'w [(&'w [u8], &'w [u8])],
}

impl Writer<'_> {
    fn put<'p>(&mut self, name: &'p [u8], value: impl IntoIterator<Item = &'p [u8]>) -> Result<(), PairsTooLarge> {
        if self.extra.iter().any(|(extra, _)| *extra == name) {
            return Ok(());
        }
        self.pairs.push([name], value)
    }
}
