//! Charts as inline SVG: lines over an axis, and horizontal bars. Colours are classes of the page's style sheet, one for each peer.
//! A chart repeats what a table beside it says; it holds no figure of its own.

use crate::report::html::escape;
use crate::report::number;

#[derive(Debug, Clone)]
pub enum Chart {
    Lines(Lines),
    Bars(Bars),
}

#[derive(Debug, Clone)]
pub struct Lines {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

#[derive(Debug, Clone)]
pub struct Axis {
    pub label: String,
    pub scale: Scale,
}

#[derive(Debug, Clone)]
pub enum Scale {
    /// From zero.
    Linear,
    /// Values of zero and less are left out.
    Log,
    /// Values are indices of these labels.
    Steps(Vec<String>),
}

#[derive(Debug, Clone)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

#[derive(Debug, Clone)]
pub struct Bars {
    pub title: String,
    pub unit: String,
    pub bars: Vec<Bar>,
}

#[derive(Debug, Clone)]
pub struct Bar {
    pub name: String,
    /// Median, lowest and highest round.
    pub value: Option<(f64, f64, f64)>,
    /// Stands at the end of the bar, or in its place.
    pub text: String,
}

/// In the units of the drawing. Narrow, so that the words of a chart stay readable on a phone without scrolling; a wide screen shows them
/// a little larger, two charts beside each other.
const WIDTH: f64 = 440.0;
const BARS_WIDTH: f64 = 420.0;
const PLOT_HEIGHT: f64 = 210.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const LEGEND_ROW: f64 = 20.0;
const BAR_ROW: f64 = 26.0;
/// The average width of a character at the size of the labels, a little generously.
const CHARACTER: f64 = 7.4;

/// What distinguishes a participant besides its colour: dashes and the shape of its marks. The class names the colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    class: &'static str,
    dashes: &'static str,
    mark: Mark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Circle,
    Square,
    Diamond,
    Up,
    Down,
}

const PEERS: [(&str, Identity); 9] = [
    ("tidegate", Identity { class: "p-tidegate", dashes: "", mark: Mark::Circle }),
    ("haproxy", Identity { class: "p-haproxy", dashes: "", mark: Mark::Square }),
    ("envoy", Identity { class: "p-envoy", dashes: "7 3", mark: Mark::Diamond }),
    ("nginx", Identity { class: "p-nginx", dashes: "", mark: Mark::Up }),
    ("caddy", Identity { class: "p-caddy", dashes: "7 3", mark: Mark::Down }),
    ("traefik", Identity { class: "p-traefik", dashes: "2 3", mark: Mark::Square }),
    ("angie", Identity { class: "p-angie", dashes: "2 3", mark: Mark::Diamond }),
    ("relay", Identity { class: "p-relay", dashes: "1 4", mark: Mark::Up }),
    ("backend", Identity { class: "p-backend", dashes: "1 4", mark: Mark::Down }),
];

/// For variants and for whom nobody knew.
const OTHERS: [Identity; 4] = [
    Identity { class: "p-other-1", dashes: "7 3", mark: Mark::Diamond },
    Identity { class: "p-other-2", dashes: "2 3", mark: Mark::Square },
    Identity { class: "p-other-3", dashes: "7 3 2 3", mark: Mark::Down },
    Identity { class: "p-other-4", dashes: "1 4", mark: Mark::Circle },
];

/// In the order of the names, so that a chart never shows two of them alike before it runs out of others.
fn identities<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Identity> {
    let mut others = OTHERS.iter().cycle();
    let known = |name: &str| PEERS.iter().find(|(peer, _)| *peer == name).map(|(_, identity)| *identity);
    names.map(|name| known(name).unwrap_or_else(|| *others.next().expect("a cycle has no end"))).collect()
}

impl Chart {
    /// `number` makes its ids unique on the page.
    pub fn svg(&self, number: usize) -> String {
        match self {
            Chart::Lines(lines) => lines.svg(number),
            Chart::Bars(bars) => bars.svg(number),
        }
    }

    pub fn title(&self) -> &str {
        match self {
            Chart::Lines(lines) => &lines.title,
            Chart::Bars(bars) => &bars.title,
        }
    }
}

fn open(number: usize, (kind, width, height): (&str, f64, f64), title: &str, description: &str) -> String {
    format!(
        "<svg class=\"{kind}\" viewBox=\"0 0 {width} {height:.0}\" role=\"img\" aria-labelledby=\"chart-{number}-title chart-{number}-text\">\n\
         <title id=\"chart-{number}-title\">{}</title>\n<desc id=\"chart-{number}-text\">{}</desc>\n",
        escape(title),
        escape(description)
    )
}

impl Lines {
    fn svg(&self, number: usize) -> String {
        let shown: Vec<Series> = self.series.iter().map(|series| self.drawable(series)).collect();
        let names: Vec<_> = shown.iter().map(|series| series.name.as_str()).collect();
        let identities = identities(names.iter().copied());
        let legend = Legend::of(&names);
        let bottom = TOP + PLOT_HEIGHT;
        let height = bottom + 48.0 + legend.height();
        let description = format!(
            "{} over {}, a line each for {}. The values are in the tables of this section.",
            self.y.label,
            self.x.label,
            names.join(", ")
        );
        let mut svg = open(number, ("lines", WIDTH, height), &self.title, &description);
        let points = || shown.iter().flat_map(|series| &series.points);
        if points().next().is_none() {
            svg +=
                &format!("<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">no figures</text>\n</svg>\n", WIDTH / 2.0, height / 2.0);
            return svg;
        }
        let x = Span::of(&self.x.scale, points().map(|point| point.0), (LEFT + 8.0, WIDTH - RIGHT - 8.0));
        let y = Span::of(&self.y.scale, points().map(|point| point.1), (bottom, TOP));
        svg += &self.frame(&x, &y, bottom);
        // Who stands first is drawn last, on top of the others.
        for (series, identity) in shown.iter().zip(&identities).rev() {
            svg += &draw(series, *identity, &x, &y);
        }
        svg += &legend.svg(&names, &identities, bottom + 48.0);
        svg + "</svg>\n"
    }

    /// Without what the scales cannot show: no coordinate of a path is ever not a number.
    fn drawable(&self, series: &Series) -> Series {
        let fits = |scale: &Scale, value: f64| match scale {
            Scale::Linear => value.is_finite() && value >= 0.0,
            Scale::Log => value.is_finite() && value > 0.0,
            Scale::Steps(labels) => value >= 0.0 && value < labels.len() as f64,
        };
        let points = series.points.iter().copied().filter(|(x, y)| fits(&self.x.scale, *x) && fits(&self.y.scale, *y));
        Series { name: series.name.clone(), points: points.collect() }
    }

    fn frame(&self, x: &Span, y: &Span, bottom: f64) -> String {
        let mut svg = String::new();
        for (value, label) in y.ticks() {
            let at = y.place(value);
            let end = WIDTH - RIGHT;
            svg += &format!("<path class=\"grid\" d=\"M{LEFT:.1} {at:.1}H{end:.1}\"/>");
            svg += &format!("<text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n", LEFT - 7.0, at + 4.0, escape(&label));
        }
        for (value, label) in x.ticks() {
            let at = x.place(value);
            svg += &format!("<path class=\"grid\" d=\"M{at:.1} {TOP:.1}V{:.1}\"/>", bottom + 4.0);
            svg += &format!("<text class=\"tick mid\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>\n", bottom + 18.0, escape(&label));
        }
        svg += &format!(
            "<text class=\"label mid\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            bottom + 36.0,
            escape(&self.x.label)
        );
        let middle = f64::midpoint(TOP, bottom);
        svg + &format!(
            "<text class=\"label mid\" x=\"13\" y=\"{middle:.1}\" transform=\"rotate(-90 13 {middle:.1})\">{}</text>\n",
            escape(&self.y.label)
        )
    }
}

fn draw(series: &Series, identity: Identity, x: &Span, y: &Span) -> String {
    let places: Vec<(f64, f64)> = series.points.iter().map(|point| (x.place(point.0), y.place(point.1))).collect();
    let path: Vec<String> =
        places.iter().enumerate().map(|(index, (x, y))| format!("{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' })).collect();
    let mut svg = format!("<g class=\"series {}\">", identity.class);
    if places.len() > 1 {
        svg += &format!("<path class=\"line\" stroke-dasharray=\"{}\" d=\"{}\"/>", dashes(identity), path.concat());
    }
    for (x, y) in places {
        svg += &identity.mark.svg(x, y);
    }
    svg + "</g>\n"
}

fn dashes(identity: Identity) -> &'static str {
    if identity.dashes.is_empty() { "none" } else { identity.dashes }
}

impl Mark {
    fn svg(self, x: f64, y: f64) -> String {
        match self {
            Mark::Circle => format!("<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\"/>"),
            Mark::Square => format!("<path class=\"mark\" d=\"M{:.1} {:.1}h6.4v6.4h-6.4z\"/>", x - 3.2, y - 3.2),
            Mark::Diamond => format!("<path class=\"mark\" d=\"M{x:.1} {:.1}l4.4 4.4l-4.4 4.4l-4.4 -4.4z\"/>", y - 4.4),
            Mark::Up => format!("<path class=\"mark\" d=\"M{x:.1} {:.1}l4.4 7.6h-8.8z\"/>", y - 4.6),
            Mark::Down => format!("<path class=\"mark\" d=\"M{x:.1} {:.1}l4.4 -7.6h-8.8z\"/>", y + 4.6),
        }
    }
}

/// Names under the plot, in as many rows as they take.
struct Legend {
    /// Left edge and row of each name.
    places: Vec<(f64, usize)>,
}

impl Legend {
    fn of(names: &[&str]) -> Legend {
        let (mut x, mut row) = (LEFT - 30.0, 0);
        let mut places = Vec::new();
        for name in names {
            let width = 34.0 + name.chars().count() as f64 * CHARACTER + 10.0;
            if x + width > WIDTH && !places.is_empty() {
                (x, row) = (LEFT - 30.0, row + 1);
            }
            places.push((x, row));
            x += width;
        }
        Legend { places }
    }

    fn height(&self) -> f64 {
        self.places.last().map_or(0.0, |(_, row)| (row + 1) as f64 * LEGEND_ROW + 4.0)
    }

    fn svg(&self, names: &[&str], identities: &[Identity], top: f64) -> String {
        let mut svg = String::new();
        for ((name, identity), (x, row)) in names.iter().zip(identities).zip(&self.places) {
            let y = top + *row as f64 * LEGEND_ROW + 8.0;
            svg += &format!("<g class=\"series {}\">", identity.class);
            svg += &format!("<path class=\"line\" stroke-dasharray=\"{}\" d=\"M{x:.1} {y:.1}h26\"/>", dashes(*identity));
            svg += &identity.mark.svg(x + 13.0, y);
            svg += &format!("</g><text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n", x + 32.0, y + 4.5, escape(name));
        }
        svg
    }
}

impl Bars {
    fn svg(&self, number: usize) -> String {
        let height = self.bars.len().max(1) as f64 * BAR_ROW + 6.0;
        let values: Vec<_> = self.bars.iter().map(|bar| format!("{} {}", bar.name, bar.text)).collect();
        let description = format!("Bars of {}: {}.", self.unit, values.join(", "));
        let mut svg = open(number, ("bars", BARS_WIDTH, height), &self.title, &description);
        let longest = |of: fn(&Bar) -> &str| self.bars.iter().map(|bar| of(bar).chars().count()).max().unwrap_or(0) as f64;
        // A very long name would leave no room for the bars.
        let left = (longest(|bar| &bar.name) * CHARACTER + 14.0).clamp(60.0, 170.0);
        let right = BARS_WIDTH - (longest(|bar| &bar.text) * CHARACTER + 18.0).clamp(60.0, 120.0);
        let ends = self.bars.iter().filter_map(|bar| bar.value).map(|(_, _, high)| high).filter(|high| high.is_finite());
        let span = Span::of(&Scale::Linear, ends, (left, right));
        let identities = identities(self.bars.iter().map(|bar| bar.name.as_str()));
        for (index, (bar, identity)) in self.bars.iter().zip(identities).enumerate() {
            svg += &bar.svg(identity, left, index as f64 * BAR_ROW + 4.0, &span);
        }
        if self.bars.is_empty() {
            svg += "<text class=\"label\" x=\"10\" y=\"20\">no figures</text>\n";
        }
        svg + "</svg>\n"
    }
}

impl Bar {
    fn svg(&self, identity: Identity, left: f64, top: f64, span: &Span) -> String {
        let middle = top + BAR_ROW / 2.0 - 2.0;
        let mut svg = format!("<g class=\"series {}\">", identity.class);
        svg +=
            &format!("<text class=\"name end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>", left - 8.0, middle + 4.5, escape(&self.name));
        let mut end = left;
        let value = self
            .value
            .filter(|(median, low, high)| [median, low, high].into_iter().all(|value| value.is_finite() && *value >= 0.0));
        if let Some((median, low, high)) = value {
            let (low, high) = (span.place(low), span.place(high));
            let width = (span.place(median) - left).max(1.0);
            svg += &format!(
                "<rect class=\"bar\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                BAR_ROW - 8.0
            );
            if high - low > 1.5 {
                let (above, below) = (middle - 4.0, middle + 4.0);
                svg += &format!(
                    "<path class=\"whisker\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {above:.1}V{below:.1}M{high:.1} {above:.1}V{below:.1}\"/>"
                );
            }
            end = high.max(left + width);
        }
        let class = if value.is_some() { "value" } else { "value none" };
        svg += &format!("<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>", end + 7.0, middle + 4.5, escape(&self.text));
        svg + "</g>\n"
    }
}

/// Values laid along a stretch of the drawing.
#[derive(Debug)]
struct Span {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Span {
    /// `values` are finite, and above zero for a logarithmic scale.
    fn of(scale: &Scale, values: impl Iterator<Item = f64> + Clone, (from, to): (f64, f64)) -> Span {
        let max = values.clone().fold(f64::NEG_INFINITY, f64::max);
        let min = values.fold(f64::INFINITY, f64::min);
        let (low, high) = match scale {
            Scale::Linear if max > 0.0 && max.is_finite() => (0.0, max),
            Scale::Linear => (0.0, 1.0),
            Scale::Log if min > 0.0 && max.is_finite() => round_outwards(min, max),
            Scale::Log => (1.0, 10.0),
            Scale::Steps(labels) => (0.0, (labels.len().max(2) - 1) as f64),
        };
        Span { scale: scale.clone(), low, high, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear | Scale::Steps(_) => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let values: Vec<f64> = match &self.scale {
            Scale::Linear => {
                let step = nice_step(self.high / 5.0);
                (0..=10).map(|index| f64::from(index) * step).take_while(|value| *value <= self.high * 1.0001).collect()
            }
            Scale::Log => log_ticks(self.low, self.high),
            Scale::Steps(labels) => {
                return labels.iter().enumerate().map(|(index, label)| (index as f64, label.clone())).collect();
            }
        };
        values.into_iter().map(|value| (value, number::tick(value))).collect()
    }
}

/// The smallest of 1, 2, 5, 10, 20, … that is not below.
fn nice_step(at_least: f64) -> f64 {
    let decade = 10f64.powf(at_least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * decade >= at_least * 0.9999).unwrap_or(10.0);
    factor * decade
}

/// To 1, 2 or 5 times a power of ten on either side, and never to a single point.
fn round_outwards(min: f64, max: f64) -> (f64, f64) {
    let high = nice_step(max);
    let decade = 10f64.powf(min.log10().floor());
    let factor = [5.0, 2.0].into_iter().find(|factor| factor * decade <= min * 1.0001).unwrap_or(1.0);
    let low = factor * decade;
    if high > low { (low, high) } else { (low / 2.0, high * 2.0) }
}

/// More than this many labels would touch.
const LOG_TICKS_MAX: usize = 9;

fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    let within = |factors: &[f64]| -> Vec<f64> {
        let all = (first..=last).flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        all.filter(|value| *value >= low * 0.9999 && *value <= high * 1.0001).collect()
    };
    let fine = within(&[1.0, 2.0, 5.0]);
    if fine.len() <= LOG_TICKS_MAX { fine } else { within(&[1.0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(scale: Scale, points: &[(f64, f64)]) -> String {
        let axis = |scale| Axis { label: "axis".into(), scale };
        let series = vec![Series { name: "tidegate".into(), points: points.to_vec() }];
        Chart::Lines(Lines { title: "t".into(), x: axis(Scale::Linear), y: axis(scale), series }).svg(1)
    }

    #[test]
    fn axes_have_round_ticks() {
        let ticks = |scale: Scale, values: &[f64]| {
            let span = Span::of(&scale, values.iter().copied(), (0.0, 100.0));
            span.ticks().into_iter().map(|(_, label)| label).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ticks(Scale::Linear, &[3.0, 47.0]), "0 10 20 30 40");
        assert_eq!(ticks(Scale::Linear, &[0.0]), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(ticks(Scale::Log, &[130.0, 900.0]), "100 200 500 1k");
        assert_eq!(ticks(Scale::Log, &[1.0, 1_000_000.0]), "1 10 100 1k 10k 100k 1M");
        assert_eq!(ticks(Scale::Log, &[300.0]), "200 500");
        assert_eq!(ticks(Scale::Log, &[200.0]), "100 200");
        assert_eq!(ticks(Scale::Steps(vec!["p50".into(), "p99".into()]), &[0.0]), "p50 p99");
    }

    #[test]
    fn values_are_placed_along_the_scale() {
        let place = |scale: Scale, values: &[f64], value| Span::of(&scale, values.iter().copied(), (0.0, 100.0)).place(value);
        assert!((place(Scale::Linear, &[10.0], 5.0) - 50.0).abs() < 1e-9);
        assert!((place(Scale::Log, &[1.0, 100.0], 10.0) - 50.0).abs() < 1e-9);
        // A single value lies between the ticks around it, 5 and 10.
        assert!((place(Scale::Log, &[7.0], 7.0) - 48.5).abs() < 0.1);
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        for (scale, points) in [
            (Scale::Linear, &[][..]),
            (Scale::Linear, &[(f64::NAN, 1.0), (1.0, f64::INFINITY)]),
            (Scale::Log, &[(1.0, 0.0), (1.0, -2.0)]),
        ] {
            let svg = lines(scale, points);
            assert!(svg.contains("no figures") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        let mixed = lines(Scale::Log, &[(1.0, 10.0), (2.0, f64::NAN), (3.0, 0.0), (4.0, 20.0)]);
        assert_eq!(mixed.matches("<circle").count(), 3, "two points and one in the legend: {mixed}");
        assert!(!mixed.contains("NaN") && !mixed.contains("inf"), "{mixed}");
    }

    #[test]
    fn a_single_point_has_a_mark_and_no_line() {
        for scale in [Scale::Linear, Scale::Log] {
            let svg = lines(scale, &[(1000.0, 42.0)]);
            assert_eq!((svg.matches("<circle").count(), svg.matches("class=\"line\"").count()), (2, 1), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn bars_show_what_is_missing_and_the_spread() {
        let bar = |name: &str, value, text: &str| Bar { name: name.into(), value, text: text.into() };
        let bars = vec![
            bar("tidegate", Some((10.0, 8.0, 12.0)), "10.0"),
            bar("a<b", None, "failed"),
            bar("nginx", Some((f64::NAN, 1.0, 1.0)), "–"),
        ];
        let svg = Chart::Bars(Bars { title: "t".into(), unit: "µs".into(), bars }).svg(3);
        assert_eq!((svg.matches("<rect").count(), svg.matches("whisker").count()), (1, 1), "{svg}");
        assert!(svg.contains("a&lt;b") && svg.contains(">failed<") && !svg.contains("NaN"), "{svg}");
        let empty = Chart::Bars(Bars { title: "t".into(), unit: "µs".into(), bars: Vec::new() }).svg(4);
        assert!(empty.contains("no figures") && !empty.contains("NaN"), "{empty}");
    }

    #[test]
    fn nobody_looks_like_another() {
        let all = identities(
            ["tidegate", "nginx", "nginx keepalive-4", "nginx multi-accept", "nginx aes-128-first", "relay"].into_iter(),
        );
        for (index, identity) in all.iter().enumerate() {
            assert!(!all[..index].iter().any(|other| other.class == identity.class), "{identity:?}");
        }
    }
}
