//! `body-limit`: how much request body a route takes. A count only; reading the body and answering 413 is `proxy`'s.

/// Of one route. Several `body-limit` steps: the last one written counts, so that a route may allow more than its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimit {
    pub bytes_max: u64,
}

/// The body is longer than the limit: answer 413 and close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

impl BodyLimit {
    /// Refuses a body by its declared length, before any of it is read. Without a length, or within it, the body is
    /// counted.
    pub fn check_declared(self, content_length: Option<u64>) -> Result<BodyAllowance, TooLarge> {
        match content_length {
            Some(length) if length > self.bytes_max => Err(TooLarge),
            _ => Ok(BodyAllowance { bytes_left: self.bytes_max }),
        }
    }
}

/// What is left of a limit while a body comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyAllowance {
    bytes_left: u64,
}

impl BodyAllowance {
    /// Counts bytes of the body, framing not included. After an error the body must not be read on.
    pub fn take(&mut self, bytes: u64) -> Result<(), TooLarge> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(TooLarge)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{BodyLimit, TooLarge};

    /// `declared`, then the chunks that come; the expectation is how many of them are taken, or `None` when refused at
    /// once.
    fn check(bytes_max: u64, declared: Option<u64>, chunks: &[u64], expected: Option<usize>) {
        let taken = BodyLimit { bytes_max }.check_declared(declared).map(|mut allowance| {
            let refused = chunks.iter().position(|chunk| allowance.take(*chunk) == Err(TooLarge));
            refused.unwrap_or(chunks.len())
        });
        assert_eq!(taken.ok(), expected, "{declared:?} {chunks:?} of {bytes_max}");
    }

    #[test]
    fn a_body_may_be_as_long_as_the_limit_and_no_longer() {
        check(10, Some(10), &[10], Some(1));
        check(10, Some(11), &[], None);
        check(10, Some(u64::MAX), &[], None);
        check(10, None, &[4, 6], Some(2));
        check(10, None, &[4, 6, 0], Some(3));
        check(10, None, &[4, 6, 1], Some(2));
        check(10, None, &[u64::MAX], Some(0));
        check(0, Some(0), &[], Some(0));
        check(0, None, &[1], Some(0));
        check(u64::MAX, None, &[u64::MAX, 1], Some(1));
    }
}
