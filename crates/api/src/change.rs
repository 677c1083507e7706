//! Requests that change something, and what they answer.

use crate::Plan;
use crate::Setting;
use crate::schema::objects;

objects! {
    /// What holds, defaults included: names and values as a plan shows them.
    pub struct Effective {
        /// Of the process.
        pub settings: Vec<Setting>,
        pub pools: Vec<EffectiveWhole>,
        pub sites: Vec<EffectiveWhole>,
        /// Every address that is listened on, whether it is written or not.
        pub listeners: Vec<EffectivePart>,
        pub tcp: Vec<EffectivePart>,
        pub maps: Vec<EffectivePart>,
        pub admin: Vec<EffectivePart>,
        pub access_logs: Vec<EffectivePart>,
    }

    /// A pool with its servers, or a site with its routes.
    pub struct EffectiveWhole {
        pub name: String,
        pub settings: Vec<Setting>,
        /// Routes in the order in which they are tried, those within another before it; a route has all that its site
        /// says as well.
        pub parts: Vec<EffectivePart>,
    }

    pub struct EffectivePart {
        pub name: String,
        pub settings: Vec<Setting>,
    }

    /// A configuration: a file, a text, or without either what the process was started with, read again.
    #[serde(deny_unknown_fields)]
    pub struct PlanRequest {
        /// An absolute path on the machine of the process.
        pub file: Option<String>,
        pub text: Option<String>,
        /// What messages call the text; `<api>` when it is left out.
        pub name: Option<String>,
        /// Where relative paths in the text begin, an absolute path; `/` when it is left out.
        pub directory: Option<String>,
    }

    /// A configuration, as for a plan, and how it is to be taken on.
    #[serde(deny_unknown_fields)]
    pub struct ApplyRequest {
        /// An absolute path on the machine of the process.
        pub file: Option<String>,
        pub text: Option<String>,
        /// What messages call the text; `<api>` when it is left out.
        pub name: Option<String>,
        /// Where relative paths in the text begin, an absolute path; `/` when it is left out.
        pub directory: Option<String>,
        /// Taken back after so many seconds unless it is confirmed: 1 to 86400.
        pub confirm_within_seconds: Option<u64>,
        /// Taken back before that when the share of errors rises by more than this, as a fraction: 0 to 1. 0.05 when it
        /// is left out.
        pub max_error_rise: Option<f64>,
        /// Refused unless this generation runs; `If-Match` says the same.
        pub expected_generation: Option<u64>,
    }

    /// What a configuration would change.
    pub struct Planned {
        /// The generation that runs.
        pub generation: u64,
        pub plan: Plan,
        /// As text with its lines; empty when there are none.
        pub warnings: String,
        /// Open connections that would be drained, by listening address.
        pub connections_drained: Vec<DrainedConnections>,
    }

    /// Connections of a listener that a change would end, gently.
    pub struct DrainedConnections {
        /// `[::]:443`, or `unix:/run/tidegate.sock`.
        pub listener: String,
        pub connections: usize,
    }

    /// What became of a change.
    pub struct Applied {
        /// The generation that runs now.
        pub generation: u64,
        /// False when the configuration says what the running one says.
        pub changed: bool,
        pub plan: Plan,
        /// As text with its lines; empty when there are none.
        pub warnings: String,
        pub confirm_within_seconds: Option<u64>,
    }

    /// A part of the configuration that was changed, runs, and is in its file or not.
    pub struct Edited {
        pub applied: Applied,
        /// Files that have the change now.
        pub written: Vec<String>,
        /// Files that could not be written: a restart would lose the change.
        pub unwritten: Vec<UnwrittenFile>,
    }

    /// A file that lacks a change which runs.
    pub struct UnwrittenFile {
        pub name: String,
        pub reason: String,
    }

    /// A change that stays.
    pub struct Confirmed {
        pub generation: u64,
    }

    /// Nothing can be said beside the address.
    #[serde(deny_unknown_fields)]
    pub struct NoOptions {
    }

    /// Which program is to take over.
    #[serde(deny_unknown_fields)]
    pub struct UpgradeRequest {
        /// An absolute path; without it the file that this process was started from.
        pub binary: Option<String>,
    }

    /// Another process has taken over, and this one drains.
    pub struct Upgraded {
        pub process_id: u32,
        /// How what ran differed from the files that the new process has read; one sentence each.
        pub left_behind: Vec<String>,
    }
}
