//! The screen: what `model` says, in lines. Made for 80 columns and 24 lines, and for more; with fewer, what is at the
//! end is cut.

use super::model::{ListenerRow, Rates, ServerRow, SiteRow, Sort, View};
use crate::commands::status::state;
use crate::commands::table::cut;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use tidegate_api::ServerState;

/// Listeners that are shown; the others are counted.
const LISTENERS_SHOWN: usize = 6;
/// Columns behind the name of a listener, and of a server.
const LISTENER_COLUMNS: usize = 44;
const SERVER_COLUMNS: usize = 42;
const SITE_COLUMNS: usize = 51;
/// Sites that are shown, as long as servers have as much room.
const SITES_SHOWN: usize = 10;

pub struct Screen {
    /// `None` before the first look.
    pub view: Option<View>,
    pub note: Option<String>,
    pub sort: Sort,
    /// Of the servers: those before it are scrolled away.
    pub first_row: usize,
    pub is_paused: bool,
}

pub fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(1), Constraint::Length(1)]).areas(frame.area());
    let width = usize::from(frame.area().width);
    if let Some(view) = &screen.view {
        let lines = lines(view, screen, width, usize::from(top.height));
        frame.render_widget(Paragraph::new(lines), top);
    }
    if let Some(note) = &screen.note {
        frame.render_widget(Paragraph::new(cut(note, width)).style(bold().fg(Color::Red)), middle);
    }
    let paused = if screen.is_paused { "PAUSED  " } else { "" };
    let keys = format!("{paused}q ends  p pauses  s sorts (by {})  ↑↓ scroll", screen.sort.as_str());
    frame.render_widget(Paragraph::new(cut(&keys, width)).style(Style::new().add_modifier(Modifier::DIM)), bottom);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn lines(view: &View, screen: &Screen, width: usize, height: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(cut(&view.process, width), bold()), Line::raw(cut(&view.configuration, width))];
    for warning in &view.warnings {
        lines.push(Line::styled(cut(warning, width), Style::new().fg(Color::Yellow)));
    }
    lines.push(Line::styled(cut(&rates(view.rates), width), bold()));
    lines.push(Line::raw(cut(&latency_and_memory(view), width)));
    lines.push(Line::raw(""));
    let heading = row("LISTENER", width, LISTENER_COLUMNS, &listener_cells(["SCHEME", "SHAKE", "HTTP/1", "HTTP/2", "TUNNEL"]));
    lines.push(Line::styled(heading, bold()));
    for listener in view.listeners.iter().take(LISTENERS_SHOWN) {
        lines.push(Line::raw(listener_line(listener, width)));
    }
    if let Some(more @ 1..) = view.listeners.len().checked_sub(LISTENERS_SHOWN) {
        lines.push(Line::raw(format!("and {more} more")));
    }
    push_sites(&mut lines, view, width, height);
    lines.push(Line::raw(""));
    let heading = server_cells(["STATE", "FLIGHT", "OPEN", "REQ/S", "FAIL/S"]);
    lines.push(Line::styled(row("POOL/SERVER", width, SERVER_COLUMNS, &heading), bold()));
    let room = height.saturating_sub(lines.len());
    for server in view.servers.iter().skip(screen.first_row).take(room) {
        lines.push(server_line(server, width));
    }
    lines
}

/// Half of what is left of the screen at most: the servers are beneath.
fn push_sites(lines: &mut Vec<Line<'static>>, view: &View, width: usize, height: usize) {
    let room = (height.saturating_sub(lines.len()) / 2).saturating_sub(2).min(SITES_SHOWN);
    if view.sites.is_empty() || room == 0 {
        return;
    }
    lines.push(Line::raw(""));
    let heading = site_cells(["REQ/S", "3XX/S", "4XX/S", "5XX/S", "P50", "P99"].map(str::to_owned));
    lines.push(Line::styled(row("SITE", width, SITE_COLUMNS, &heading), bold()));
    for site in view.sites.iter().take(room) {
        let [_, _, redirects, refused, failed] = site.classes.map(rate);
        let cells = site_cells([rate(site.requests()), redirects, refused, failed, time(site.median), time(site.p99)]);
        let style = if site.classes[4] > 0.0 { Style::new().fg(Color::Yellow) } else { Style::new() };
        lines.push(Line::styled(row(&site.name, width, SITE_COLUMNS, &cells), style));
    }
}

fn site_cells([requests, redirects, refused, failed, median, p99]: [String; 6]) -> String {
    format!(" {requests:>7} {redirects:>7} {refused:>7} {failed:>7} {median:>8} {p99:>9}")
}

/// `memory 43 MiB  p50 10 ms  p99 100 ms  2xx/s 90.0  3xx/s 0.0  4xx/s 1.0  5xx/s 0.0`
fn latency_and_memory(view: &View) -> String {
    let memory = view.resident_bytes.map(|bytes| format!("memory {} MiB", bytes >> 20));
    let of_sites = view.whole.as_ref().map(|SiteRow { classes, median, p99, .. }| {
        let [_, good, redirects, refused, failed] = classes.map(rate);
        let (median, p99) = (time(*median), time(*p99));
        format!("p50 {median}  p99 {p99}  2xx/s {good}  3xx/s {redirects}  4xx/s {refused}  5xx/s {failed}")
    });
    memory.into_iter().chain(of_sites).collect::<Vec<_>>().join("  ")
}

/// The upper end of a bucket.
fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds.is_infinite() => "long".to_owned(),
        Some(seconds) if seconds < 1.0 => format!("{} ms", (seconds * 100_000.0).round() / 100.0),
        Some(seconds) => format!("{seconds} s"),
    }
}

fn rates(rates: Option<Rates>) -> String {
    let Some(Rates { requests, errors, handshakes, handshake_failures }) = rates else {
        return "rates come with the next look".to_owned();
    };
    let [requests, errors, handshakes, failures] = [requests, errors, handshakes, handshake_failures].map(rate);
    format!("requests/s {requests}   errors/s {errors}   handshakes/s {handshakes}   failed/s {failures}")
}

fn rate(rate: f64) -> String {
    if rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

fn listener_cells([scheme, handshake, http1, http2, tunnel]: [&str; 5]) -> String {
    format!(" {scheme:>7} {handshake:>8} {http1:>8} {http2:>8} {tunnel:>8}")
}

fn listener_line(listener: &ListenerRow, width: usize) -> String {
    let [handshake, http1, http2, tunnel] = listener.connections.map(|count| count.to_string());
    let scheme = if listener.is_draining { "ends" } else { listener.scheme.as_str() };
    row(&listener.address, width, LISTENER_COLUMNS, &listener_cells([scheme, &handshake, &http1, &http2, &tunnel]))
}

fn server_cells([state, in_flight, open, requests, errors]: [&str; 5]) -> String {
    format!(" {state:>9} {in_flight:>7} {open:>7} {requests:>7} {errors:>7}")
}

fn server_line(server: &ServerRow, width: usize) -> Line<'static> {
    let shown = |known: Option<f64>| known.map_or_else(|| "-".to_owned(), rate);
    let (in_flight, open) = (server.in_flight.to_string(), server.connections.to_string());
    let (requests, errors) = (shown(server.requests), shown(server.failures));
    let cells = server_cells([state(server.state), &in_flight, &open, &requests, &errors]);
    let style = match server.state {
        ServerState::Serving => Style::new(),
        ServerState::Unknown | ServerState::Starting | ServerState::Draining | ServerState::Leaving => {
            Style::new().fg(Color::Yellow)
        }
        ServerState::Down | ServerState::Ejected | ServerState::Resting => Style::new().fg(Color::Red),
    };
    Line::styled(row(&server.name, width, SERVER_COLUMNS, &cells), style)
}

/// The name has what the columns behind it leave.
fn row(name: &str, width: usize, columns: usize, cells: &str) -> String {
    let room = width.saturating_sub(columns).max(1);
    format!("{:room$}{cells}", cut(name, room))
}

#[cfg(test)]
mod tests {
    use super::{Screen, draw};
    use crate::commands::status::tests::{pools, status};
    use crate::commands::top::figures::{Figures, SiteFigures};
    use crate::commands::top::model::{Sample, Sort, view};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(first_row: usize, note: Option<&str>) -> Screen {
        let site =
            |count: u64| SiteFigures { classes: [0, count, 0, 0, 0], buckets: vec![(0.005, count), (f64::INFINITY, count)] };
        let figures =
            |count: u64| Figures { sites: [("https://a.test".to_owned(), site(count))].into(), resident_bytes: Some(43 << 20) };
        let before = Sample { seconds: 1.0, status: status(), pools: pools(), figures: figures(10) };
        let mut now = Sample { figures: figures(1260), ..before.clone() };
        now.seconds = 2.0;
        now.status.traffic.requests += 1250;
        now.status.traffic.handshakes += 3;
        for server in &mut now.pools.pools[0].servers {
            server.requests += 1200;
            server.failures += 2;
        }
        let view = view(Some(&before), &now, Sort::InFlight);
        Screen { view: Some(view), note: note.map(str::to_owned), sort: Sort::InFlight, first_row, is_paused: first_row > 0 }
    }

    fn drawn(screen: &Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, screen)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |row: u16| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
        (0..height).map(|row| line(row).trim_end().to_owned()).collect()
    }

    #[test]
    fn the_screen_of_a_terminal_of_80_columns_and_24_lines() {
        let lines = drawn(&screen(0, None), 80, 24);
        let expected = [
            "tidegate 0.1.0, process 4711, ready",
            "generation 5, by apply /etc/tidegate/tidegate.kdl",
            "requests/s 1250   errors/s 0.0   handshakes/s 3.0   failed/s 0.0",
            "memory 43 MiB  p50 5 ms  p99 5 ms  2xx/s 1250  3xx/s 0.0  4xx/s 0.0  5xx/s 0.0",
            "",
            "LISTENER                              SCHEME    SHAKE   HTTP/1   HTTP/2   TUNNEL",
            "0.0.0.0:443                            https        1       20      300        4",
            "",
            "SITE                            REQ/S   3XX/S   4XX/S   5XX/S      P50       P99",
            "https://a.test                   1250     0.0     0.0     0.0     5 ms      5 ms",
            "",
            "POOL/SERVER                                STATE  FLIGHT    OPEN   REQ/S  FAIL/S",
            "app/10.0.0.1:80                          serving       7       8    1200     2.0",
            "app/10.0.0.2:80                         DRAINING       2       3    1200     2.0",
            "app/10.0.0.3:80                             DOWN       0       1    1200     2.0",
        ];
        assert_eq!(lines[..expected.len()], expected, "{lines:#?}");
        assert_eq!(lines[23], "q ends  p pauses  s sorts (by requests in flight)  ↑↓ scroll");
    }

    #[test]
    fn scrolled_paused_and_without_its_process() {
        let lines = drawn(&screen(2, Some("no process answers at 127.0.0.1:9180; trying again")), 80, 24);
        assert_eq!(lines[12], "app/10.0.0.3:80                             DOWN       0       1    1200     2.0");
        assert_eq!(lines[13], "");
        assert_eq!(lines[22], "no process answers at 127.0.0.1:9180; trying again");
        assert!(lines[23].starts_with("PAUSED"), "{}", lines[23]);
    }

    #[test]
    fn every_size_is_drawn() {
        for (width, height) in [(200, 60), (80, 24), (40, 10), (10, 3), (1, 1)] {
            let lines = drawn(&screen(0, Some("a note")), width, height);
            assert_eq!(lines.len(), usize::from(height));
        }
        let empty = Screen { view: None, note: None, sort: Sort::Name, first_row: 0, is_paused: false };
        assert!(drawn(&empty, 80, 24)[0].is_empty());
    }
}
