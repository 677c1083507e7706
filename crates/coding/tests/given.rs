//! Encoders take no more memory than the process has for them. A test of its own, since what is given is the process's.

use tidegate_coding::{ENCODERS_BYTES_MAX, Encoder, Operation, give_back_kept, give_back_unused, give_encoders};
use tidegate_model::Coding;

#[test]
fn encoders_take_what_they_are_given() {
    let at_work = || (0..1000).map_while(|_| Encoder::new(Coding::Gzip, 6, None)).collect::<Vec<_>>().len();
    let of_all = at_work();
    give_encoders(Some(ENCODERS_BYTES_MAX as u64 / 8));
    let of_a_part = at_work();
    assert!(of_a_part > 0 && of_all < 1000 && (7..=9).contains(&(of_all / of_a_part)), "{of_all}, {of_a_part}");
    give_encoders(Some(0));
    assert_eq!(at_work(), 0, "answers go out as they are");
    // What is given is for all threads together.
    give_encoders(Some(ENCODERS_BYTES_MAX as u64 / 8));
    let held: Vec<Encoder> = (0..1000).map_while(|_| Encoder::new(Coding::Gzip, 6, None)).collect();
    assert_eq!(std::thread::spawn(move || Encoder::new(Coding::Gzip, 6, None).is_some()).join().ok(), Some(false));
    drop(held);
    what_is_kept_counts();
    give_encoders(None);
    assert_eq!(at_work(), of_all);
}

/// Memory that one thread keeps for its next encoders is missing to those of others, until it is given back.
fn what_is_kept_counts() {
    let of_another_thread = || {
        let at_work = || (0..1000).map_while(|_| Encoder::new(Coding::Gzip, 6, None)).collect::<Vec<_>>().len();
        std::thread::spawn(at_work).join().expect("no panic")
    };
    give_back_kept();
    let of_all = of_another_thread();
    let body = vec![7; 100_000];
    for coding in [Coding::Brotli, Coding::Zstd, Coding::Gzip] {
        let mut encoder = Encoder::new(coding, 4, Some(body.len() as u64)).expect("there is memory");
        let (mut output, mut rest) = (vec![0; 1 << 16], &body[..]);
        loop {
            let step = encoder.step(rest, &mut output, Operation::Finish).expect("it encodes");
            rest = &rest[step.consumed..];
            if step.is_done {
                break;
            }
        }
        drop(encoder);
        let beside_kept = of_another_thread();
        assert!(beside_kept < of_all, "{coding:?}: {beside_kept} of {of_all}, and nothing is kept");
        // No more than half is kept, and it is not looked for by the thread that has it.
        assert!(beside_kept >= of_all / 2, "{coding:?}: {beside_kept} of {of_all}");
        give_back_unused();
        assert_eq!(of_another_thread(), beside_kept, "{coding:?}: an encoder had begun");
        give_back_unused();
        assert_eq!(of_another_thread(), of_all, "{coding:?}: it was given back");
    }
}
