//! The picture of the project's README, made of one report: the first main case of each subject as bars, in an SVG
//! that stands alone and fits light and dark pages. It repeats what the table beside it says, and the same report
//! always gives the same text. The charts of a report's page are in `chart`.

use crate::report::standing::{Standing, is_ours, standings};
use crate::results::Report;
use crate::results::figure::Better;
use std::fmt::Write;

/// One panel for each of these, where it was measured.
const SUBJECTS: [&str; 4] = ["e2", "handshake", "http2", "memory"];

const WIDTH: usize = 860;
const PANEL_WIDTH: usize = 420;
const TITLE_HEIGHT: usize = 30;
const ROW_HEIGHT: usize = 22;
const BAR_HEIGHT: usize = 14;
/// Where bars begin, and how long the longest is; behind it stands the figure.
const NAMES_WIDTH: usize = 84;
const BAR_MAX: usize = 260;
const GAP: usize = 14;

const STYLE: &str = "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif;fill:#1b1f24}\
.t{font-weight:600}.o{fill:#d04a00}.r{fill:#9aa3af}.g{fill:#fff}\
@media(prefers-color-scheme:dark){text{fill:#e6e8eb}.o{fill:#ff8438}.r{fill:#6b7280}.g{fill:#14171c}}";

pub fn picture(report: &Report) -> String {
    let all = standings(report);
    let panels: Vec<&Standing> = SUBJECTS
        .iter()
        .filter_map(|subject| all.iter().find(|standing| standing.experiment == *subject && is_shown(standing)))
        .collect();
    let height_of = |standing: &Standing| TITLE_HEIGHT + bars(standing).count() * ROW_HEIGHT + GAP;
    let rows: Vec<&[&Standing]> = panels.chunks(2).collect();
    let heights: Vec<usize> = rows.iter().map(|row| row.iter().map(|panel| height_of(panel)).max().unwrap_or(0)).collect();
    let height: usize = heights.iter().sum::<usize>() + GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>Reverse proxies side by side, less is better</title>\n<style>{STYLE}</style>\n<rect class=\"g\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    let mut top = GAP;
    for (row, height) in rows.iter().zip(&heights) {
        for (column, standing) in row.iter().enumerate() {
            panel(&mut svg, standing, GAP + column * PANEL_WIDTH, top);
        }
        top += height;
    }
    svg + "</svg>\n"
}

/// A main case in which less is better, that Tidegate and at least two others were measured in.
fn is_shown(standing: &Standing) -> bool {
    let rivals = bars(standing).filter(|(name, _, _)| !is_ours(name)).count();
    standing.main && standing.better == Better::Lower && rivals >= 2 && bars(standing).any(|(name, _, _)| is_ours(name))
}

/// Name, median and text of those that were measured.
fn bars(standing: &Standing) -> impl Iterator<Item = (&str, f64, &str)> {
    let measured = standing.contenders.iter().filter(|contender| contender.competes || is_ours(&contender.name));
    measured.filter_map(|contender| {
        let sample = contender.sample.as_ref()?;
        Some((contender.name.as_str(), sample.summary.median, contender.text.as_str()))
    })
}

fn panel(svg: &mut String, standing: &Standing, left: usize, top: usize) {
    let title = format!("{} {}: {}", standing.experiment, standing.label, standing.unit);
    let _ = writeln!(svg, "<text class=\"t\" x=\"{left}\" y=\"{}\">{}</text>", top + 14, escaped(&title));
    let longest = bars(standing).map(|(_, value, _)| value).fold(0.0, f64::max);
    for (index, (name, value, text)) in bars(standing).enumerate() {
        let y = top + TITLE_HEIGHT + index * ROW_HEIGHT;
        let width = if longest > 0.0 { (value / longest * BAR_MAX as f64).round().max(1.0) } else { 1.0 };
        let class = if is_ours(name) { "o" } else { "r" };
        let (baseline, bar_left) = (y + 11, left + NAMES_WIDTH);
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{baseline}\">{}</text>", escaped(name));
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{bar_left}\" y=\"{y}\" width=\"{width}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/>\
             <text x=\"{}\" y=\"{baseline}\">{}</text>",
            bar_left as f64 + width + 6.0,
            escaped(text)
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::picture;
    use crate::report::fixture;

    #[test]
    fn a_report_has_one_picture_with_a_bar_for_each_that_was_measured() {
        let svg = picture(&fixture::report());
        assert_eq!(svg, picture(&fixture::report()));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(svg.contains("class=\"o\"") && svg.contains("class=\"r\""), "{svg}");
        assert_eq!(
            svg.matches("<rect class=\"o\"").count(),
            svg.matches("class=\"t\"").count(),
            "one bar of ours in each panel: {svg}"
        );
    }
}
