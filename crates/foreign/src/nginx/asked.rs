//! What has to hold for a block of `if`, as conditions of a route.

use tidegate_kdl::quoted;

/// What has to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskedVariable {
    /// Expressions of the path.
    pub paths: Vec<String>,
    pub conditions: Vec<String>,
    /// Alternatives, one of which has to hold beside the conditions.
    pub alternatives: Vec<String>,
    /// What groups of an expression that is no path's are called here.
    pub captures: Vec<(String, String)>,
}

impl AskedVariable {
    pub fn of(condition: impl Into<String>) -> AskedVariable {
        AskedVariable { conditions: vec![condition.into()], ..AskedVariable::default() }
    }

    /// What holds where this does not, as long as it is one condition.
    pub fn negated(&self) -> Option<AskedVariable> {
        match (self.paths.as_slice(), self.conditions.as_slice(), self.alternatives.as_slice()) {
            ([path], [], []) => Some(AskedVariable::of(format!("not path={}", quoted(&format!("~{path}"))))),
            ([], [one], []) => Some(AskedVariable::of(turned(one))),
            ([], [], several) => {
                Some(AskedVariable { conditions: several.iter().map(|one| turned(one)).collect(), ..AskedVariable::default() })
            }
            _ => None,
        }
    }

    /// As one line of conditions.
    pub fn line(&self) -> Option<String> {
        let paths = self.paths.iter().map(|path| format!("path={}", quoted(&format!("~{path}"))));
        let all: Vec<String> = paths.chain(self.conditions.iter().cloned()).collect();
        (self.alternatives.is_empty() && !all.is_empty()).then(|| all.join(" "))
    }
}

/// The condition the other way round.
pub fn turned(condition: &str) -> String {
    condition.strip_prefix("not ").map_or_else(|| format!("not {condition}"), str::to_owned)
}
