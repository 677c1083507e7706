//! Networks as they are written: an address and the length of its prefix, or one address.

use ipnet::IpNet;
use std::net::IpAddr;

/// `10.0.0.0/8`, or a single address.
pub fn parse_network(text: &str) -> Result<IpNet, String> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(ip));
    }
    let network: IpNet = text.parse().map_err(|_| format!("`{text}` is not a network, as `10.0.0.0/8` and `192.0.2.7` are"))?;
    if network.addr() != network.network() {
        return Err(format!(
            "`{text}` names an address inside a network: did you mean `{}` or `{}`?",
            network.trunc(),
            network.addr()
        ));
    }
    Ok(network)
}

#[cfg(test)]
mod tests {
    use super::parse_network;

    #[test]
    fn networks() {
        let check = |text: &str, expected: &str| {
            let seen = parse_network(text).map_or_else(|message| message, |network| network.to_string());
            assert_eq!(seen, expected, "for {text}");
        };
        check("10.0.0.0/8", "10.0.0.0/8");
        check("192.0.2.7", "192.0.2.7/32");
        check("2001:db8::/32", "2001:db8::/32");
        check("10.0.0.1/8", "`10.0.0.1/8` names an address inside a network: did you mean `10.0.0.0/8` or `10.0.0.1`?");
        check("10.0.0.0/33", "`10.0.0.0/33` is not a network, as `10.0.0.0/8` and `192.0.2.7` are");
    }
}
