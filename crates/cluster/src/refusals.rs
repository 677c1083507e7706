//! When it is believed that something may not be seen. An API server that starts says so of rights that we have, until
//! it has read them: of one kind for longer than of another.

use crate::fault::Fault;

/// How often in a row the server has to say it: four to eight seconds.
const BELIEVED: u32 = 5;
/// As often after it has shown something else, so that it has read rights of ours: a second or two.
const BELIEVED_AFTER_OTHERS: u32 = 2;

/// How often in a row the server has said that something may not be seen, or is not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refusals {
    in_a_row: u32,
    /// Refusals that came after it had shown something else.
    after_others: u32,
}

impl Refusals {
    /// The server has answered so. Any other fault says nothing of rights.
    pub fn note(&mut self, fault: &Fault, has_shown_others: bool) {
        let is_refusal = matches!(fault, Fault::Missing { .. } | Fault::Forbidden { .. });
        *self = if is_refusal {
            let after_others = self.after_others.saturating_add(u32::from(has_shown_others));
            Refusals { in_a_row: self.in_a_row.saturating_add(1), after_others }
        } else {
            Refusals::default()
        };
    }

    pub fn are_any(self) -> bool {
        self.in_a_row > 0
    }

    /// Whether nobody waits any longer.
    pub fn are_believed(self) -> bool {
        self.in_a_row >= BELIEVED || self.after_others >= BELIEVED_AFTER_OTHERS
    }
}

#[cfg(test)]
mod tests {
    use super::Refusals;
    use crate::fault::Fault;

    #[test]
    fn a_server_that_starts_is_not_believed_at_once() {
        let forbidden = || Fault::Forbidden { message: "no".to_owned() };
        let check = |faults: &[(Fault, bool)], expected: bool| {
            let mut refusals = Refusals::default();
            for (fault, has_shown_others) in faults {
                refusals.note(fault, *has_shown_others);
            }
            assert_eq!(refusals.are_believed(), expected, "{faults:?}");
        };
        let before = |number: usize| vec![(forbidden(), false); number];
        let after = |number: usize| vec![(forbidden(), true); number];
        check(&before(4), false);
        check(&before(5), true);
        // What it said before it had read any rights counts as before.
        check(&[before(3), after(1)].concat(), false);
        check(&[before(3), after(2)].concat(), true);
        check(&after(2), true);
        let busy = vec![(Fault::Busy { message: "later".to_owned(), retry_after: None }, true)];
        check(&[after(1), busy, after(1)].concat(), false);
    }
}
