//! What callgrind leaves behind with `--separate-threads=yes`: one text for each thread, with the sum of its
//! instructions in the head. Only the worker's sum is wanted; the thread that starts the program and supervises it
//! works by the clock, not by the request.

/// The worker executes at least so many times the instructions of the next busy thread. Otherwise it could not be told
/// from it.
const CLEARLY_MORE: u64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thread {
    number: u64,
    instructions: u64,
}

/// The instructions of the one worker: the busiest thread but the first, which has read the configuration.
pub fn worker_instructions<'a>(texts: impl Iterator<Item = &'a str>) -> Result<u64, String> {
    let threads: Vec<Thread> = texts.map(parse).collect::<Result<_, _>>()?;
    let mut others: Vec<u64> = threads.iter().filter(|thread| thread.number != 1).map(|thread| thread.instructions).collect();
    others.sort_unstable_by(|left, right| right.cmp(left));
    match others[..] {
        [] => Err("callgrind saw no thread but the first".into()),
        [worker, next, ..] if worker / CLEARLY_MORE < next => {
            Err(format!("two threads are busy ({worker} and {next} instructions); which is the worker?"))
        }
        [worker, ..] => Ok(worker),
    }
}

fn parse(text: &str) -> Result<Thread, String> {
    // Costs follow after the head, thousands of lines without such words.
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or(format!("callgrind wrote no `{name}`"))?;
        line.trim().parse().map_err(|_| format!("callgrind wrote `{name}{line}`, which is not one number"))
    };
    Ok(Thread { number: field("thread:")?, instructions: field("summary:")? })
}

#[cfg(test)]
mod tests {
    use super::worker_instructions;

    fn text(thread: u64, instructions: u64) -> String {
        format!(
            "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 7\ncmd:  tidegate run\npart: 1\nthread: {thread}\n\n\
             positions: line\nevents: Ir\nsummary: {instructions}\n\n\nob=(1) tidegate\nfl=(1) ???\nfn=(1) main\n0 5\ntotals: {instructions}\n"
        )
    }

    #[test]
    fn the_worker_is_the_busiest_thread_but_the_first() {
        let check = |threads: &[(u64, u64)], expected: Result<u64, &str>| {
            let texts: Vec<String> = threads.iter().map(|(thread, instructions)| text(*thread, *instructions)).collect();
            match (worker_instructions(texts.iter().map(String::as_str)), expected) {
                (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
                (found, expected) => assert_eq!(found.as_ref().ok(), expected.as_ref().ok(), "for {threads:?}"),
            }
        };
        check(&[(1, 428_235_007), (2, 14_245), (10, 23_636_623), (11, 61_347)], Ok(23_636_623));
        check(&[(1, 428_235_007), (2, 14_245)], Ok(14_245));
        check(&[(1, 428_235_007)], Err("no thread but the first"));
        check(&[(1, 5), (2, 1_000), (3, 101)], Err("which is the worker?"));
        check(&[], Err("no thread but the first"));
    }

    #[test]
    fn what_callgrind_did_not_write_is_not_zero() {
        let check = |text: &str, part: &str| {
            let message = worker_instructions([text].into_iter()).unwrap_err();
            assert!(message.contains(part), "{message}");
        };
        check("", "no `thread:`");
        check("thread: 2\n", "no `summary:`");
        check("thread: 2\nsummary: \n", "not one number");
        check("thread: 2\nsummary: 12 34\n", "not one number");
    }
}
