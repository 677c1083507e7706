//! Questions to the control thread, bounded: a process that drains answers none any more, and the client is told so at
//! once.

use crate::problem::Problem;
use crate::problem::draining;
use std::time::Duration;
use tidegate_control::{Control, ControlHandle};
use tidegate_telemetry::ReadinessState;
use tokio::time::timeout;

/// How often somebody who waits looks whether the process drains meanwhile.
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Looks until a question is given up: a minute, for a change of ten thousand sites with their certificates.
const LOOKS_MAX: usize = 600;

pub async fn ask<T: Send + 'static>(
    handle: &ControlHandle,
    question: impl FnOnce(&mut Control) -> T + Send + 'static,
) -> Result<T, Problem> {
    if is_draining(handle) {
        return Err(draining());
    }
    let mut asking = Box::pin(handle.ask(question));
    for _ in 0..LOOKS_MAX {
        match timeout(LOOK_PERIOD, &mut asking).await {
            Ok(answer) => return answer.map_err(|_| draining()),
            Err(_) if is_draining(handle) => return Err(draining()),
            Err(_) => {}
        }
    }
    Err(Problem::new(500, "busy", "The process does not answer", "the control thread is busy and has not answered in time"))
}

fn is_draining(handle: &ControlHandle) -> bool {
    match handle.readiness.state() {
        ReadinessState::Draining => true,
        ReadinessState::Starting | ReadinessState::Ready => false,
    }
}
