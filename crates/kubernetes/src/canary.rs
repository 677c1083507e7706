//! Which requests an Ingress wants to have of those that another one takes.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canary {
    /// A header whose value decides, before anything else does.
    pub header: Option<CanaryHeader>,
    /// A cookie that says `always` or `never`.
    pub cookie: Option<String>,
    /// Of the others, so many of `total`.
    pub weight: u32,
    /// At least one.
    pub total: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanaryHeader {
    /// In lower case.
    pub name: String,
    pub value: CanaryValue,
}

/// What the header says of requests that the canary has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CanaryValue {
    /// `always`, and of those that it has not `never`.
    Words,
    Exactly(String),
    /// Known to compile.
    Expression(String),
}
