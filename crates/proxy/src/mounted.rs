//! Applications beneath a prefix: the path by which their root is asked for, and the redirect to it. What
//! `strip-prefix` and `add-prefix` make of a path is decided in `middleware::mount`.

use crate::failure::Failure;
use crate::surroundings::Surroundings;
use tidegate_exchange::{Exchange, Pooled};
use tidegate_middleware::errors::begin_answer;
use tidegate_middleware::{CompiledStep, Mount};
use tidegate_transport::Sock;
use tidegate_wire::head::Method;

/// What the steps of the route have mounted where the request asks.
pub(crate) fn mount_of<S: Sock>(exchange: &Exchange<'_, S>, steps: &[CompiledStep]) -> Mount {
    Mount::of(steps, exchange.record.matched_path.of(&exchange.head.fields.bytes))
}

/// Whether a prefix was asked for that is the root of what is mounted, and without the slash by which links in its page
/// lead into it.
pub(crate) fn lacks_slash<S: Sock>(exchange: &Exchange<'_, S>, steps: &[CompiledStep]) -> bool {
    let asked = exchange.record.matched_path.of(&exchange.head.fields.bytes);
    exchange.head.path().ends_with(b"/")
        && !asked.ends_with(b"/")
        && mount_of(exchange, steps).is_root_without_slash(exchange.head.path())
}

/// To the path that was asked for with a slash at its end, by a reference that names no host, whatever the path: what
/// clients see in front of it is theirs to keep. Other methods than GET and HEAD come again as they are.
pub(crate) async fn redirect_to_folder<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
) -> Result<(), Failure> {
    let bytes = &exchange.head.fields.bytes;
    let mut location: Pooled<Vec<u8>> = Pooled::take();
    location.extend_from_slice(b"./");
    location.extend_from_slice(exchange.record.path.of(bytes).rsplit(|byte| *byte == b'/').next().unwrap_or_default());
    location.push(b'/');
    if let Some(query) = exchange.record.query {
        location.push(b'?');
        location.extend_from_slice(query.of(bytes));
    }
    let status = if matches!(exchange.head.method, Method::Get | Method::Head) { 301 } else { 308 };
    begin_answer(status, &mut exchange.response);
    exchange.response.fields.push(b"location", &location);
    exchange.record.status = status;
    around.run_response_steps(exchange);
    around.send_whole(exchange, b"").await
}
