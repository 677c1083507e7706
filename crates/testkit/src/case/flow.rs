//! What steps of all sections have in common, whoever runs them: their outcome, time and order.

use super::script::{Flow, Step};
use super::world::World;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

/// Line and reason of a failure.
pub type Outcome = Result<(), (usize, String)>;

/// Time and order. A `repeat` is given back to the section, which knows how to run its commands.
pub async fn execute_flow<'a>(world: &World, flow: &'a Flow) -> Result<Option<(u32, &'a [Step])>, String> {
    match flow {
        Flow::Pause(time) => sleep(*time).await,
        Flow::Mark(name) => {
            world.mark(name);
            // Who waits for it goes first, so that an upstream is what it is from now on before the next request comes.
            yield_now().await;
        }
        Flow::Await(name) => {
            let waiting = timeout(world.wait, world.wait_for_mark(name)).await;
            waiting.map_err(|_| format!("nobody marked `{name}` within {:?}", world.wait))?;
        }
        Flow::Repeat(times, steps) => return Ok(Some((*times, steps))),
    }
    Ok(None)
}
