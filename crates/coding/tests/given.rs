//! Encoders take no more memory than the process has for them. A test of its own, since what is given is the process's.

use tidegate_coding::{ENCODERS_BYTES_MAX, Encoder, give_encoders};
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
    give_encoders(None);
    assert_eq!(at_work(), of_all);
}
