//! Lists of preferences with weights (RFC 9110 section 12.4.2), as in `Accept` and `Accept-Encoding`. What the names
//! mean, and what is made of a list, is up to those who have something to choose from.

/// A weight in thousandths.
pub type Quality = u16;

pub const QUALITY_MAX: Quality = 1000;

/// The elements of a list and their weights. Those whose weight is malformed are left out; other parameters are not
/// looked at.
pub fn preferences(list: &[u8]) -> impl Iterator<Item = (&[u8], Quality)> {
    list.split(|byte| *byte == b',').filter_map(|element| {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let weight = parts.find_map(|part| match part {
            [b'q' | b'Q', b'=', value @ ..] => Some(value),
            _ => None,
        });
        Some((name, weight.map_or(Some(QUALITY_MAX), quality)?))
    })
}

/// `0`, `1`, and up to three digits behind a dot.
fn quality(value: &[u8]) -> Option<Quality> {
    let (whole, fraction) = match value {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let mut thousandths = u16::from(whole - b'0');
    for place in 0..3 {
        let digit = fraction.get(place).copied().unwrap_or(b'0');
        thousandths = thousandths * 10 + digit.is_ascii_digit().then(|| u16::from(digit - b'0'))?;
    }
    (thousandths <= QUALITY_MAX).then_some(thousandths)
}

#[cfg(test)]
mod tests {
    use super::preferences;

    #[test]
    fn names_come_with_their_weights() {
        let check = |list: &str, expected: &[(&str, u16)]| {
            let found: Vec<_> = preferences(list.as_bytes()).collect();
            let expected: Vec<_> = expected.iter().map(|(name, quality)| (name.as_bytes(), *quality)).collect();
            assert_eq!(found, expected, "{list}");
        };
        check("", &[]);
        check(" , ,", &[]);
        check("gzip", &[("gzip", 1000)]);
        check("gzip, br;q=0.5 ,*;q=0", &[("gzip", 1000), ("br", 500), ("*", 0)]);
        check("a ; Q=0.001;x=1,b;q=1.000,c;q=0.,d;q=1.", &[("a", 1), ("b", 1000), ("c", 0), ("d", 1000)]);
        check("text/html;level=1;q=0.25", &[("text/html", 250)]);
        check("a;q=1.001,b;q=2,c;q=,d;q=0.1234,e;q=-1,f;q=.5,g;q=0.x,h;q=1,i;q=x", &[("h", 1000)]);
        check(";q=1", &[]);
    }

    #[test]
    fn no_list_panics_and_no_weight_is_above_one() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|list: &Vec<u8>| {
            assert!(preferences(list).all(|(name, quality)| quality <= 1000 && !name.is_empty()));
        });
    }
}
