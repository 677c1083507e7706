//! `fastcgi`: answers are made by scripts, which a pool of FastCGI servers such as PHP-FPM runs. Which script a path
//! names, and what it is told, is decided in the crate `fastcgi`.

use crate::placeholder::Template;
use crate::pool::PoolName;
use crate::resilience::RouteRetry;
use std::path::PathBuf;

/// One `fastcgi` step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastCgi {
    /// The pool that runs them; its protocol is FastCGI.
    pub pool: PoolName,
    pub retry: RouteRetry,
    /// The folder of the scripts as the servers see it; absolute.
    pub root: PathBuf,
    /// The script that a path with a slash at its end means: one name.
    pub index: String,
    /// A path below the root with a slash in front: the script for paths that name none.
    pub fallback: Option<String>,
    /// What names of scripts end in; what follows in a path is PATH_INFO.
    pub split: String,
    /// Params beside the usual ones, or in their place. Names are unique.
    pub env: Vec<(String, Template)>,
    /// Whether files below the root that are no scripts are answers, as with `files`.
    pub serves_files: bool,
}

impl FastCgi {
    /// With everything that may be left out as it is then.
    pub fn new(pool: PoolName, root: impl Into<PathBuf>) -> FastCgi {
        FastCgi {
            pool,
            retry: RouteRetry::OfPool,
            root: root.into(),
            index: "index.php".to_owned(),
            fallback: None,
            split: ".php".to_owned(),
            env: Vec::new(),
            serves_files: false,
        }
    }
}
