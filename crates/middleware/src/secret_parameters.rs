//! Parameters of the query that no log shows, whatever becomes of their request: keys and tokens, and what browsers
//! bring from a provider. How one is taken out of a query is in `api_key`.

use tidegate_model::{ApiKeyPlace, Step, TokenPlace};

/// What a provider has a browser bring (RFC 9700 section 4.2.4), where it is not known for whom that is.
pub const BROUGHT_FROM_PROVIDERS: [&[u8]; 2] = [b"code", b"state"];

/// By which keys and tokens come to any of the steps, each once and in order.
pub fn secret_parameters<'s>(steps: impl Iterator<Item = &'s Step>) -> Box<[Box<[u8]>]> {
    let mut names: Vec<Box<[u8]>> = Vec::new();
    let mut add = |name: &str| names.push(name.as_bytes().into());
    for step in steps.flat_map(Step::parts) {
        if let Step::ApiKey(Some(auth)) = step {
            auth.places.iter().filter_map(ApiKeyPlace::parameter).for_each(&mut add);
        } else if let Step::Jwt(Some(jwt)) = step {
            jwt.places.iter().filter_map(TokenPlace::parameter).for_each(&mut add);
        }
    }
    names.sort_unstable();
    names.dedup();
    names.into()
}
