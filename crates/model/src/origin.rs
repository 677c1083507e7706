//! Where a site, a route or a pool comes from when nobody wrote it into the file by hand: an object of a cluster, a
//! service of containers, a template. It changes nothing about what is served, and is shown wherever that is named.

use std::fmt;

/// `Ingress shop/web 2`
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// What kind of thing it is, as in `Ingress` or `container`.
    pub kind: String,
    /// Empty where there is none.
    pub namespace: String,
    pub name: String,
    /// Which part of it.
    pub rule: Option<String>,
}

impl Origin {
    /// Of each of its parts. Names of objects in a cluster have at most as many.
    pub const PART_BYTES_MAX: usize = 253;

    /// `shop/web`
    pub fn object(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }

    /// The origin of what containers of a group serve: `PROJECT/SERVICE`, or a name alone.
    pub fn of_containers(group: &str) -> Origin {
        let (namespace, name) = group.split_once('/').unwrap_or(("", group));
        Origin { kind: "container".to_owned(), namespace: namespace.to_owned(), name: name.to_owned(), rule: None }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.object())?;
        match &self.rule {
            Some(rule) => write!(f, " {rule}"),
            None => Ok(()),
        }
    }
}
