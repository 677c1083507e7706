//! Publishes a TXT value among those of a name, and takes only that value away again. Which provider does it is in
//! `provider/`, one file each; this finds out where the record belongs: an alias at the name leads elsewhere, and that
//! is where a CA looks.

use crate::fault::{DnsFault, DnsProblem, LookupFault};
use crate::lookup::Lookup;
use crate::name::Domain;
use crate::provider::Provider;
use tidegate_model::AcmeDns;
use tidegate_outbound::{HttpsClient, Trust};

/// Of published records. They live for a minute, and the shortest that all providers take is a minute.
pub const TTL_SECS: u32 = 60;
/// The digest of RFC 8555 section 8.4 has 43; other methods have whole sentences, and a string of a TXT record has room
/// for 255.
const VALUE_CHARACTERS_MAX: usize = 255;

/// Of one provider. It keeps no state about what is published.
pub struct Publisher {
    provider: Provider,
    kind: &'static str,
    lookup: Lookup,
}

/// A value that is published. It may be made from what was written down, to take away what a process before this one
/// left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The name of the record: what was asked for, or what its alias leads to.
    pub name: String,
    pub value: String,
}

impl Publisher {
    /// `lookup` asks the resolver of the same setting.
    pub fn new(dns: &AcmeDns, lookup: Lookup) -> Result<Publisher, DnsFault> {
        let kind = dns.provider.kind();
        let client = HttpsClient::new(Trust::System).map_err(|fault| DnsProblem::Unreachable(fault).at(kind, ""))?;
        let provider = Provider::new(&dns.provider, client, lookup.clone()).map_err(|problem| problem.at(kind, ""))?;
        Ok(Publisher { provider, kind, lookup })
    }

    /// Adds the value beside those that the name has. One that is there already is no fault. It is not visible
    /// everywhere when this returns; see [`await_published`](crate::await_published).
    pub async fn publish(&self, name: &str, value: &str) -> Result<Published, DnsFault> {
        let domain = self.checked(name, value)?;
        // Where the aliases cannot be looked up, the name itself is the best guess, and waiting for the record says
        // what is wrong.
        let place = match self.lookup.behind_aliases(domain.as_str()).await {
            Ok(place) => Domain::parse(&place).unwrap_or(domain),
            Err(fault @ LookupFault::Aliases { .. }) => return Err(DnsProblem::Lookup(fault).at(self.kind, name)),
            Err(fault) => {
                tracing::warn!(name = %domain, %fault, "whether the name is an alias is not known; the record is published at the name itself");
                domain
            }
        };
        self.provider.present(&place, value).await.map_err(|problem| problem.at(self.kind, place.as_str()))?;
        Ok(Published { name: place.to_string(), value: value.to_owned() })
    }

    /// Takes away that value and no other. One that is gone already is no fault.
    pub async fn withdraw(&self, published: &Published) -> Result<(), DnsFault> {
        let domain = self.checked(&published.name, &published.value)?;
        self.provider.cleanup(&domain, &published.value).await.map_err(|problem| problem.at(self.kind, domain.as_str()))
    }

    fn checked(&self, name: &str, value: &str) -> Result<Domain, DnsFault> {
        let domain = Domain::parse(name).map_err(|fault| DnsProblem::Lookup(fault).at(self.kind, name))?;
        // Values go into JSON, XML, quoted strings and the arguments of programs.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/=+,; ".contains(&byte);
        if value.is_empty() || value.len() > VALUE_CHARACTERS_MAX || !value.bytes().all(is_plain) {
            let problem =
                "the value cannot be published: it is empty, too long, or has characters that no challenge has".to_owned();
            return Err(DnsProblem::Unintelligible { problem }.at(self.kind, name));
        }
        Ok(domain)
    }
}
