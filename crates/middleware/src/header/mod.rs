//! `request-header`, `response-header` and `header`: sets, adds, defaults and removes fields of a head, in the order
//! written. Values come out of `template` without control bytes; names are checked here, once, when the step is
//! compiled.

mod conditions;

use self::conditions::CompiledConditions;
use crate::compile_error::CompileError;
use crate::context::{Context, Scratch, View};
use crate::template::{CompiledTemplate, Target};
use tidegate_model::{HeaderChange, HeaderOperation, HeaderStep, PathPolicy};
use tidegate_wire::authority::parse_authority;
use tidegate_wire::head::{Fields, HeaderId, RequestHead, ResponseHead};

#[cfg(test)]
mod tests;

/// A step would set a `Host` that is none, of a text that the client chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostMadeWrong;

#[derive(Debug)]
pub struct CompiledHeaderChanges {
    changes: Box<[CompiledChange]>,
    /// `None`: always.
    when: Option<Box<CompiledConditions>>,
}

#[derive(Debug)]
struct CompiledChange {
    operation: HeaderOperation,
    name: Box<[u8]>,
    value: CompiledTemplate,
    /// The field says how long an answer may be kept, or by what it is known again: of an error of the proxy's own it
    /// would be untrue, unless the line names the status.
    is_of_freshness: bool,
}

impl CompiledHeaderChanges {
    /// Changes of a request's fields. `Host` can be set, which changes what the upstream sees and not what `{host}`
    /// says.
    pub fn for_request(step: &HeaderStep, policy: PathPolicy) -> Result<CompiledHeaderChanges, CompileError> {
        for change in step.changes.iter().filter(|change| change.name.eq_ignore_ascii_case("host")) {
            match change.operation {
                HeaderOperation::Add | HeaderOperation::Remove => return Err(CompileError::HostMustStay),
                HeaderOperation::Set | HeaderOperation::Default => {}
            }
            if let Some(literal) = change.value.as_literal()
                && !is_host(literal.trim_ascii().as_bytes())
            {
                return Err(CompileError::NotAHost(literal.to_owned()));
            }
        }
        CompiledHeaderChanges::for_response(step, policy)
    }

    /// Changes of a response's fields.
    pub fn for_response(step: &HeaderStep, policy: PathPolicy) -> Result<CompiledHeaderChanges, CompileError> {
        let changes = step.changes.iter().map(CompiledChange::new).collect::<Result<_, _>>()?;
        Ok(CompiledHeaderChanges { changes, when: CompiledConditions::new(&step.when, policy)? })
    }

    /// On an error the steps end: what was changed before it is for nobody.
    pub fn apply_to_request(
        &self,
        request: &mut RequestHead,
        context: &Context<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), HostMadeWrong> {
        if self.when.as_ref().is_some_and(|when| !when.hold(request, context, None)) {
            return Ok(());
        }
        for change in &self.changes {
            if matches!(change.operation, HeaderOperation::Set | HeaderOperation::Remove) {
                // What a client may not say in one spelling it may not say in another.
                request.fields.remove_look_alikes(&change.name);
            }
            if let Some(literal) = change.value.as_literal() {
                change.apply(&mut request.fields, literal);
                continue;
            }
            scratch.rendered.clear();
            change.value.render(View { context, request, response: None }, &mut scratch.rendered);
            let value = scratch.rendered.trim_ascii();
            // A Host that is no authority would be read differently by each server behind us. The client's own in its
            // place would reach the server that a step was to keep it from: the text that it sent chose that.
            if change.name.eq_ignore_ascii_case(b"host") && change.has_effect_on(&request.fields) && !is_host(value) {
                return Err(HostMadeWrong);
            }
            change.apply_made(&mut request.fields, value);
        }
        Ok(())
    }

    pub fn apply_to_response(
        &self,
        response: &mut ResponseHead,
        request: &RequestHead,
        context: &Context<'_>,
        scratch: &mut Scratch,
        is_own_error: bool,
    ) {
        if self.when.as_ref().is_some_and(|when| !when.hold(request, context, Some(response))) {
            return;
        }
        let leaves_freshness = is_own_error && !self.when.as_ref().is_some_and(|when| when.names_statuses());
        for change in &self.changes {
            if leaves_freshness && change.is_of_freshness {
                continue;
            }
            if let Some(literal) = change.value.as_literal() {
                change.apply(&mut response.fields, literal);
                continue;
            }
            scratch.rendered.clear();
            change.value.render(View { context, request, response: Some(response) }, &mut scratch.rendered);
            change.apply_made(&mut response.fields, scratch.rendered.trim_ascii());
        }
    }
}

impl CompiledChange {
    fn new(change: &HeaderChange) -> Result<CompiledChange, CompileError> {
        let name = change.name.as_bytes();
        if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)) {
            return Err(CompileError::HeaderName(change.name.clone()));
        }
        if is_reserved(name) {
            return Err(CompileError::ReservedHeader(change.name.clone()));
        }
        let value = CompiledTemplate::new(&change.value, Target::HeaderValue);
        let adds = match change.operation {
            HeaderOperation::Set | HeaderOperation::Add | HeaderOperation::Default => true,
            HeaderOperation::Remove => false,
        };
        Ok(CompiledChange {
            operation: change.operation,
            name: name.into(),
            value,
            is_of_freshness: adds && FRESHNESS.iter().any(|field| name.eq_ignore_ascii_case(field)),
        })
    }

    /// Whether the value goes anywhere.
    fn has_effect_on(&self, fields: &Fields) -> bool {
        match self.operation {
            HeaderOperation::Set | HeaderOperation::Add => true,
            HeaderOperation::Default => fields.all_named(&self.name).next().is_none(),
            HeaderOperation::Remove => false,
        }
    }

    /// A value that was made of placeholders. Where it comes to nothing there is no field, and none that was there
    /// stays in the place of the one that was to be set.
    fn apply_made(&self, fields: &mut Fields, value: &[u8]) {
        if !value.is_empty() {
            self.apply(fields, value);
        } else if self.operation == HeaderOperation::Set {
            fields.remove(&self.name);
        }
    }

    /// `value` has no control bytes, and, as RFC 9113 section 8.2.1 asks, no white space around it.
    fn apply(&self, fields: &mut Fields, value: &[u8]) {
        let value = value.trim_ascii();
        match self.operation {
            HeaderOperation::Set => fields.set(&self.name, value),
            HeaderOperation::Add => fields.push(&self.name, value),
            HeaderOperation::Default => {
                if fields.all_named(&self.name).next().is_none() {
                    fields.push(&self.name, value);
                }
            }
            HeaderOperation::Remove => {
                fields.remove(&self.name);
            }
        }
    }
}

/// What caches go by (RFC 9111, RFC 9213, and words of large ones), and by what an answer is known again.
const FRESHNESS: &[&[u8]] = &[
    b"cache-control",
    b"expires",
    b"pragma",
    b"age",
    b"etag",
    b"last-modified",
    b"cdn-cache-control",
    b"cloudflare-cdn-cache-control",
    b"netlify-cdn-cache-control",
    b"vercel-cdn-cache-control",
    b"surrogate-control",
    b"edge-control",
    b"x-accel-expires",
];

/// Fields that say where the message ends or what this connection does next. A step that changed them could make two
/// servers disagree about where a message ends (request smuggling).
fn is_reserved(name: &[u8]) -> bool {
    matches!(
        HeaderId::of(name),
        HeaderId::Connection
            | HeaderId::ContentLength
            | HeaderId::TransferEncoding
            | HeaderId::KeepAlive
            | HeaderId::ProxyConnection
            | HeaderId::Te
            | HeaderId::Trailer
            | HeaderId::Upgrade
            | HeaderId::Http2Settings
    )
}

/// By the rules for a client's own.
fn is_host(value: &[u8]) -> bool {
    parse_authority(value).is_ok()
}
