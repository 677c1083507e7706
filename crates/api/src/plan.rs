//! What a change does, as data and as text. Parts that do not apply to a kind of change are empty.

use crate::schema::Word;
use crate::schema::{objects, words};

objects! {
    /// What a change does to what runs.
    pub struct Plan {
        pub empty: bool,
        /// One line.
        pub summary: String,
        /// A line for each difference, with `+`, `-` and `~`.
        pub text: String,
        /// Of the process.
        pub settings: Vec<SettingChange>,
        pub listeners: Vec<ListenerChange>,
        pub sites: Vec<SiteChange>,
        pub pools: Vec<PoolChange>,
    }

    /// A setting with another value; a secret has `(changed)` for both.
    pub struct SettingChange {
        pub name: String,
        pub before: String,
        pub after: String,
        pub effect: Effect,
    }

    pub struct ListenerChange {
        /// `[::]:443`, or `unix:/run/tidegate.sock`.
        pub address: String,
        pub scheme: Word,
        /// Nobody wrote it: it redirects to HTTPS.
        pub implied: bool,
        pub change: ChangeKind,
        pub effect: Effect,
        pub settings: Vec<SettingChange>,
    }

    pub struct SiteChange {
        /// The site's first address.
        pub site: String,
        pub change: ChangeKind,
        pub effect: Effect,
        pub addresses_added: Vec<String>,
        pub addresses_removed: Vec<String>,
        pub settings: Vec<SettingChange>,
        pub steps: Vec<LineChange>,
        pub routes: Vec<RouteChange>,
    }

    pub struct RouteChange {
        /// The route's place in the site, from 1.
        pub rank: usize,
        pub title: String,
        pub change: ChangeKind,
        pub moved_from: Option<usize>,
        pub lines: Vec<LineChange>,
    }

    pub struct LineChange {
        pub change: LineKind,
        pub text: String,
    }

    pub struct PoolChange {
        pub pool: String,
        pub change: ChangeKind,
        pub effect: Effect,
        pub settings: Vec<SettingChange>,
        pub servers: Vec<ServerChange>,
    }

    pub struct ServerChange {
        pub server: String,
        pub change: ChangeKind,
        pub effect: Effect,
        pub settings: Vec<SettingChange>,
    }
}

words! {
    pub enum ChangeKind {
        Added = "added",
        Removed = "removed",
        Changed = "changed",
    }
}

words! {
    /// What an item does to open connections.
    pub enum Effect {
        Untouched = "untouched",
        ClientConnectionsDrained = "client-connections-drained",
        ServerConnectionsClose = "server-connections-close",
        WorkersLeave = "workers-leave",
    }
}

words! {
    pub enum LineKind {
        Added = "added",
        Removed = "removed",
        /// The line reads the same, because what is different is a secret.
        Hidden = "hidden",
    }
}
