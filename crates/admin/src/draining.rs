//! Metrics of processes that drain behind this one, after an upgrade: each serves its own on a socket of the state
//! folder, since the endpoint is this process's by then. Here they are asked and put together, told apart by a label.

use crate::ask::ask;
use crate::metrics::page;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_control::{ControlHandle, DRAINING_PREFIX, DRAINING_SUFFIX};
use tidegate_outbound::{HEAD_BYTES_MAX, ask as ask_peer};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Processes that are asked; each upgrade within one drain time leaves one more.
const PROCESSES_MAX: usize = 16;
/// A process of this machine answers at once or not at all.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
const METRICS_BYTES_MAX: usize = 64 << 20;

/// Nothing at all where no process drains.
pub async fn metrics(State(handle): State<ControlHandle>, fields: HeaderMap) -> Result<Response, Problem> {
    let folder = ask(&handle, |control| control.state_dir().to_owned()).await?;
    let mut of_processes = Vec::new();
    for (process, socket) in sockets_in(&folder) {
        // One that has ended meanwhile, or was killed and left its socket.
        if let Some(text) = fetch(&socket).await {
            of_processes.push((process, text));
        }
    }
    Ok(page(merged(&of_processes), &fields))
}

/// Process ids and their sockets.
fn sockets_in(folder: &Path) -> Vec<(u32, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let process_of = |name: &str| name.strip_prefix(DRAINING_PREFIX)?.strip_suffix(DRAINING_SUFFIX)?.parse().ok();
    let sockets = entries.filter_map(|entry| Some((process_of(entry.file_name().to_str()?)?, entry.path())));
    let mut sockets: Vec<(u32, PathBuf)> = sockets.filter(|(process, _)| *process != std::process::id()).collect();
    sockets.sort_unstable();
    sockets.truncate(PROCESSES_MAX);
    sockets
}

async fn fetch(socket: &Path) -> Option<String> {
    let request = hyper::Request::builder().uri("/metrics").header(hyper::header::HOST, "localhost");
    let request = request.body(bytes::Bytes::new()).ok()?;
    let asking = async {
        let stream = UnixStream::connect(socket).await.ok()?;
        let answer = ask_peer(stream, request, HEAD_BYTES_MAX).await.ok()?;
        let is_success = answer.head.status.is_success();
        let body = answer.whole(METRICS_BYTES_MAX).await.ok()?;
        is_success.then(|| String::from_utf8_lossy(&body).into_owned())
    };
    timeout(ANSWER_LIMIT, asking).await.ok().flatten()
}

/// What is said of one metric, and its series of all processes: a format that wants them together.
#[derive(Default)]
struct Family {
    about: String,
    series: String,
}

fn merged(of_processes: &[(u32, String)]) -> String {
    let mut families: BTreeMap<&str, Family> = BTreeMap::new();
    for (process, text) in of_processes {
        let mut current = "";
        let mut is_first = false;
        for line in text.lines() {
            if let Some(about) = line.strip_prefix("# ") {
                let name = about.split(' ').nth(1).unwrap_or_default();
                if name != current {
                    current = name;
                    is_first = !families.contains_key(name);
                }
                let family = families.entry(current).or_default();
                if is_first {
                    let _ = writeln!(family.about, "{line}");
                }
            } else if !line.is_empty() {
                let family = families.entry(current).or_default();
                let _ = writeln!(family.series, "{}", labelled(line, *process));
            }
        }
    }
    families.values().map(|family| format!("{}{}", family.about, family.series)).collect()
}

/// A sample with one more label.
fn labelled(sample: &str, process: u32) -> String {
    let name_bytes = sample.find(['{', ' ']).unwrap_or(sample.len());
    let (name, rest) = sample.split_at(name_bytes);
    match rest.strip_prefix('{') {
        Some(labels) => format!("{name}{{process=\"{process}\",{labels}"),
        None => format!("{name}{{process=\"{process}\"}}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{merged, sockets_in};

    #[test]
    fn metrics_of_several_processes_are_one_page() {
        let one = "# HELP a One.\n# TYPE a counter\na{x=\"1\"} 2\n# HELP b Two.\n# TYPE b gauge\nb 3\n";
        let other =
            "# HELP a One.\n# TYPE a counter\na{x=\"1\"} 4\n# HELP c Three.\n# TYPE c histogram\nc_bucket{le=\"1\"} 5\nc_sum 6\n";
        let expected = "\
# HELP a One.
# TYPE a counter
a{process=\"7\",x=\"1\"} 2
a{process=\"8\",x=\"1\"} 4
# HELP b Two.
# TYPE b gauge
b{process=\"7\"} 3
# HELP c Three.
# TYPE c histogram
c_bucket{process=\"8\",le=\"1\"} 5
c_sum{process=\"8\"} 6
";
        assert_eq!(merged(&[(7, one.to_owned()), (8, other.to_owned())]), expected);
        assert_eq!(merged(&[]), "");
    }

    #[test]
    fn sockets_of_others_are_found_by_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["draining-12.sock", "draining-3.sock", "draining-x.sock", "admin.sock", "draining-4"] {
            std::fs::write(folder.path().join(name), "").expect("written");
        }
        std::fs::write(folder.path().join(format!("draining-{}.sock", std::process::id())), "").expect("written");
        let seen: Vec<u32> = sockets_in(folder.path()).into_iter().map(|(process, _)| process).collect();
        assert_eq!(seen, [3, 12]);
        assert!(sockets_in(&folder.path().join("none")).is_empty());
    }
}
