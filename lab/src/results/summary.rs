//! Medians and spreads over the rounds of a figure. Pure.

use serde::{Deserialize, Serialize};

/// A figure over several rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Summary {
    /// `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() {
            0 => return None,
            count if count % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Summary { median, min: values[0], max: values[values.len() - 1] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        let check = |values: &[f64], expected: Option<(f64, f64, f64)>| {
            let expected = expected.map(|(median, min, max)| Summary { median, min, max });
            assert_eq!(Summary::of(values.iter().copied()), expected, "{values:?}");
        };
        check(&[], None);
        check(&[3.0], Some((3.0, 3.0, 3.0)));
        check(&[9.0, 1.0, 2.0], Some((2.0, 1.0, 9.0)));
        check(&[4.0, 1.0, 2.0, 9.0], Some((3.0, 1.0, 9.0)));
    }
}
