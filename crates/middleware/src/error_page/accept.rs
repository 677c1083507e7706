//! Which form of an error a client likes best, by its `Accept` (RFC 9110 section 12.5.1).

use tidegate_wire::preferences::{Quality, preferences};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liked {
    Html,
    Json,
    Text,
}

/// What is looked at of a list; a longer one is nobody's taste.
const RANGES_MAX: usize = 50;

/// How a form stands: its weight in thousandths, how precisely it was named, and how early.
type Rank = (Quality, u8, std::cmp::Reverse<usize>);

/// Plain text where the client says nothing, or likes several just as much.
pub fn liked<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Liked {
    let mut best: [Option<Rank>; 3] = [None; 3];
    let forms = [Liked::Text, Liked::Json, Liked::Html];
    for (position, (name, weight)) in lines.flat_map(preferences).enumerate().take(RANGES_MAX) {
        let name = name.to_ascii_lowercase();
        for (form, best) in forms.iter().zip(&mut best) {
            let Some(precision) = precision(*form, &name) else { continue };
            let rank = (weight, precision, std::cmp::Reverse(position));
            // The most precise range that fits a form speaks for it.
            if best.is_none_or(|known| (known.1, known.2) < (rank.1, rank.2)) {
                *best = Some(rank);
            }
        }
    }
    let mut chosen: (Liked, Option<Rank>) = (Liked::Text, best[0].filter(|rank| rank.0 > 0));
    for (form, rank) in forms.into_iter().zip(best).skip(1) {
        let rank = rank.filter(|rank| rank.0 > 0);
        // Who names nothing but all types gets the plain text that everybody gets.
        if rank > chosen.1 && rank.is_some_and(|rank| rank.1 > 0 || chosen.1.is_none()) {
            chosen = (form, rank);
        }
    }
    chosen.0
}

/// 2 for the type itself, 1 for its family, 0 for all types.
fn precision(form: Liked, range: &[u8]) -> Option<u8> {
    let (own, family): (&[&[u8]], &[u8]) = match form {
        Liked::Html => (&[b"text/html", b"application/xhtml+xml"], b"text/*"),
        Liked::Json => (&[b"application/problem+json", b"application/json"], b"application/*"),
        Liked::Text => (&[b"text/plain"], b"text/*"),
    };
    if own.contains(&range) {
        Some(2)
    } else if range == family {
        Some(1)
    } else {
        (range == b"*/*").then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Liked, liked};

    #[test]
    fn clients_get_the_form_that_they_like() {
        let check = |accept: &[&str], expected: Liked| {
            assert_eq!(liked(accept.iter().map(|line| line.as_bytes())), expected, "{accept:?}");
        };
        check(&[], Liked::Text);
        check(&["*/*"], Liked::Text);
        check(&[""], Liked::Text);
        // Browsers.
        check(&["text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"], Liked::Html);
        check(&["image/avif,image/webp,*/*;q=0.8"], Liked::Text);
        // Clients of APIs.
        check(&["application/json, text/plain, */*"], Liked::Json);
        check(&["application/problem+json"], Liked::Json);
        check(&["application/*"], Liked::Json);
        check(&["text/plain, application/json"], Liked::Text);
        check(&["text/*"], Liked::Text);
        check(&["application/json;q=0.5, text/html;q=0.4"], Liked::Json);
        check(&["application/json;q=0.4", "text/html; q=0.5"], Liked::Html);
        check(&["text/html;q=0, */*"], Liked::Text);
        check(&["text/plain;q=0, text/html"], Liked::Html);
        check(&["application/json;q=x, text/html;q=0.1"], Liked::Html);
        check(&["image/png"], Liked::Text);
    }
}
