//! Parameters of the query that no log shows, whatever becomes of their request: keys and tokens, and what browsers
//! bring from a provider. How one is taken out of a query is in `api_key`.

use tidegate_model::Step;

/// What a provider has a browser bring (RFC 9700 section 4.2.4), where it is not known for whom that is.
pub const BROUGHT_FROM_PROVIDERS: [&[u8]; 2] = [b"code", b"state"];

/// By which keys and tokens come to any of the steps, each once and in order.
pub fn secret_parameters<'s>(steps: impl Iterator<Item = &'s Step>) -> Box<[Box<[u8]>]> {
    let names = steps.flat_map(|step| step.facts().credential_parameters);
    let mut names: Vec<Box<[u8]>> = names.map(|name| name.as_bytes().into()).collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}
