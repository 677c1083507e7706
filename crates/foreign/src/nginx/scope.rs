//! The blocks that a place of a file stands in, and what holds there: what a block says takes the place of what those
//! around it say, as nginx has it.

use crate::braces::{Statement, named};

/// Blocks, the innermost first.
#[derive(Debug, Clone)]
pub struct Levels<'s> {
    blocks: Vec<&'s [Statement]>,
    /// How many of the innermost are those of an `if`, which have the answer of the block around them.
    conditional: usize,
}

impl<'s> Levels<'s> {
    pub fn of(blocks: Vec<&'s [Statement]>) -> Levels<'s> {
        Levels { blocks, conditional: 0 }
    }

    /// With the block of an `if` as the innermost.
    pub fn within_condition(&self, block: &'s [Statement]) -> Levels<'s> {
        let mut blocks = vec![block];
        blocks.extend(&self.blocks);
        Levels { blocks, conditional: self.conditional + 1 }
    }

    /// The blocks that are asked for what answers.
    pub fn answering(&self) -> impl Iterator<Item = &'s Statement> + '_ {
        self.blocks.iter().take(self.conditional + 1).flat_map(|block| block.iter())
    }

    pub fn inner(&self) -> &'s [Statement] {
        self.blocks.first().copied().unwrap_or_default()
    }

    pub fn all(&self) -> &[&'s [Statement]] {
        &self.blocks
    }

    /// The statements of these names in the innermost block that has any.
    pub fn nearest(&self, names: &[&str]) -> Vec<&'s Statement> {
        nearest(&self.blocks, names)
    }

    /// The first statement of that name in the innermost block that has one.
    pub fn one(&self, name: &str) -> Option<&'s Statement> {
        self.nearest(&[name]).first().copied()
    }

    /// What stands behind that name, in the innermost block that has it.
    pub fn value(&self, name: &str) -> Option<&'s str> {
        self.one(name).map(Statement::argument).filter(|value| !value.is_empty())
    }

    /// Whether it is `on` there.
    pub fn is_on(&self, name: &str) -> bool {
        self.value(name) == Some("on")
    }
}

/// The statements of these names in the innermost block that has any.
pub fn nearest<'s>(levels: &[&'s [Statement]], names: &[&str]) -> Vec<&'s Statement> {
    let of = |level: &&'s [Statement]| -> Vec<&'s Statement> {
        level.iter().filter(|statement| names.contains(&statement.name())).collect()
    };
    levels.iter().map(of).find(|found| !found.is_empty()).unwrap_or_default()
}

/// What `set` makes of variables in these blocks, the outermost first, without those that an `if` beside them may set
/// to something else.
pub fn values_set<'s>(levels: &Levels<'s>) -> Vec<(&'s str, &'s str, usize)> {
    let mut found: Vec<(&str, &str, usize)> = Vec::new();
    for level in levels.blocks.iter().rev() {
        for statement in *level {
            match (statement.name(), statement.arguments()) {
                ("set", [variable, value]) => {
                    found.push((variable.trim_start_matches('$'), value.as_str(), statement.start()));
                }
                ("if", _) if !levels.blocks.iter().any(|block| std::ptr::eq(*block, statement.inside())) => {
                    for set in named(statement.inside(), "set") {
                        let variable = set.argument().trim_start_matches('$');
                        found.retain(|(known, ..)| *known != variable);
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// A time of nginx as one of ours: `30`, `30s`, `1m30s`, `1d`, `100ms`.
pub fn time(text: &str) -> Option<String> {
    let seconds = milliseconds(text)?;
    Some(match seconds {
        ms if ms % 1_000 != 0 => format!("{ms}ms"),
        ms if ms >= 3_600_000 && ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        ms if ms >= 60_000 && ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        ms => format!("{}s", ms / 1_000),
    })
}

pub fn milliseconds(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut rest = text;
    if text.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let units = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let factor = match &rest[..units] {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            "M" => 2_592_000_000,
            "y" => 31_536_000_000,
            _ => return None,
        };
        rest = &rest[units..];
        total = total.checked_add(number.checked_mul(factor)?)?;
    }
    Some(total)
}

/// A size of nginx as one of ours: `8k`, `10m`, `1g`, `512`.
pub fn size(text: &str) -> Option<String> {
    let (number, unit) = size_parts(text)?;
    Some(format!("{number}{unit}"))
}

fn size_parts(text: &str) -> Option<(u64, &'static str)> {
    let text = text.to_ascii_lowercase();
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], "KiB"),
        b'm' => (&text[..text.len() - 1], "MiB"),
        b'g' => (&text[..text.len() - 1], "GiB"),
        _ => (text.as_str(), "B"),
    };
    Some((digits.parse().ok()?, unit))
}

pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = size_parts(text)?;
    let factor = match unit {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => 1,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::{bytes, size, time};

    #[test]
    fn times_and_sizes_are_said_in_our_units() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(time(text).as_deref(), expected, "for {text}");
        check("30", Some("30s"));
        check("1m30s", Some("90s"));
        check("1d", Some("24h"));
        check("250ms", Some("250ms"));
        check("60", Some("1m"));
        check("soon", None);
        check("", None);
        assert_eq!(size("8k").as_deref(), Some("8KiB"));
        assert_eq!(size("10M").as_deref(), Some("10MiB"));
        assert_eq!(size("512").as_deref(), Some("512B"));
        assert_eq!(size("many"), None);
        assert_eq!(bytes("2g"), Some(2 << 30));
    }
}
