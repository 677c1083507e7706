//! One thing after the other, by several threads: for configurations with thousands of sites and certificates, where
//! reading them is what a start consists of. Not for requests: threads are started for each call, and end with it. Used
//! by `config`, `certs` and `control`.

/// Below this a thread costs more than it saves.
const ITEMS_OF_A_THREAD_MIN: usize = 64;

/// What `each` gives for every item, in their order. A panic goes on in the caller.
pub fn in_parallel<'i, T: Sync, R: Send>(items: &'i [T], each: impl Fn(&'i T) -> R + Sync) -> Vec<R> {
    let threads_max = items.len() / ITEMS_OF_A_THREAD_MIN;
    // The system is asked last: it reads files of cgroups each time, a fifth of the time of 50,000 sites with one
    // certificate each.
    let threads = if threads_max <= 1 { 1 } else { std::thread::available_parallelism().map_or(1, usize::from).min(threads_max) };
    if threads <= 1 {
        return items.iter().map(each).collect();
    }
    let each = &each;
    std::thread::scope(|scope| {
        let parts = items.chunks(items.len().div_ceil(threads));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || part.iter().map(each).collect::<Vec<R>>())).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<R>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().flat_map(join).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::in_parallel;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, 63, 64, 129, 1000] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(in_parallel(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
