//! Charts: lines over an axis, and horizontal bars. Where everything stands is computed here; `page/charts.html` draws
//! it as inline SVG. Colours are classes of the page's style sheet, one for each peer. A chart repeats what a table
//! beside it says; it holds no figure of its own.

use crate::report::number;
use serde::{Serialize, Serializer};

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

/// In the units of the drawing. Narrow, so that the words of a chart stay readable on a phone without scrolling; a wide
/// screen shows them a little larger, two charts beside each other.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Identity {
    class: &'static str,
    dashes: &'static str,
    mark: Mark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mark {
    Circle,
    Square,
    Diamond,
    Up,
    Down,
}

const PEERS: [(&str, Identity); 11] = [
    ("tidegate", Identity { class: "p-tidegate", dashes: "none", mark: Mark::Circle }),
    ("tidegate io-uring", Identity { class: "p-tidegate", dashes: "7 3", mark: Mark::Circle }),
    ("haproxy", Identity { class: "p-haproxy", dashes: "none", mark: Mark::Square }),
    ("envoy", Identity { class: "p-envoy", dashes: "7 3", mark: Mark::Diamond }),
    ("nginx", Identity { class: "p-nginx", dashes: "none", mark: Mark::Up }),
    ("caddy", Identity { class: "p-caddy", dashes: "7 3", mark: Mark::Down }),
    ("traefik", Identity { class: "p-traefik", dashes: "2 3", mark: Mark::Square }),
    ("angie", Identity { class: "p-angie", dashes: "2 3", mark: Mark::Diamond }),
    ("relay", Identity { class: "p-relay", dashes: "1 4", mark: Mark::Up }),
    ("relay io-uring", Identity { class: "p-relay", dashes: "2 3", mark: Mark::Up }),
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

/// What the template is given of a chart.
#[derive(Serialize)]
struct Drawing<'a> {
    kind: &'static str,
    title: &'a str,
    description: String,
    width: u32,
    height: u32,
    plot: Option<Plot<'a>>,
    /// Nothing where no line has a point.
    series: Vec<DrawnSeries>,
    bars: Vec<DrawnBar<'a>>,
}

#[derive(Serialize)]
struct Plot<'a> {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x_label: &'a str,
    x_ticks: Vec<Tick>,
    y_label: &'a str,
    y_ticks: Vec<Tick>,
}

#[derive(Serialize)]
struct Tick {
    at: f64,
    label: String,
}

#[derive(Serialize)]
struct DrawnSeries {
    #[serde(flatten)]
    identity: Identity,
    name: String,
    places: Vec<(f64, f64)>,
    /// Where its name begins under the plot.
    legend: (f64, f64),
}

#[derive(Serialize)]
struct DrawnBar<'a> {
    #[serde(flatten)]
    identity: Identity,
    name: &'a str,
    text: &'a str,
    left: f64,
    top: f64,
    middle: f64,
    height: f64,
    /// `None` where there is no value.
    width: Option<f64>,
    /// Lowest and highest round, where they are apart.
    whisker: Option<(f64, f64)>,
    end: f64,
}

impl Serialize for Chart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let drawing = match self {
            Chart::Lines(lines) => lines.drawing(),
            Chart::Bars(bars) => bars.drawing(),
        };
        drawing.serialize(serializer)
    }
}

impl Lines {
    fn drawing(&self) -> Drawing<'_> {
        let shown: Vec<Series> = self.series.iter().map(|series| self.drawable(series)).collect();
        let names: Vec<_> = shown.iter().map(|series| series.name.as_str()).collect();
        let identities = identities(names.iter().copied());
        let bottom = TOP + PLOT_HEIGHT;
        let (legend, height) = legend(&names, bottom + 48.0);
        let points = || shown.iter().flat_map(|series| &series.points);
        let x = Span::of(&self.x.scale, points().map(|point| point.0), (LEFT + 8.0, WIDTH - RIGHT - 8.0));
        let y = Span::of(&self.y.scale, points().map(|point| point.1), (bottom, TOP));
        let drawn = |((series, identity), legend): ((&Series, Identity), (f64, f64))| DrawnSeries {
            identity,
            name: series.name.clone(),
            places: series.points.iter().map(|point| (x.place(point.0), y.place(point.1))).collect(),
            legend,
        };
        let is_empty = points().next().is_none();
        let series = if is_empty { Vec::new() } else { shown.iter().zip(identities).zip(legend).map(drawn).collect() };
        Drawing {
            kind: "lines",
            title: &self.title,
            description: format!(
                "{} over {}, a line each for {}. The values are in the tables of this section.",
                self.y.label,
                self.x.label,
                names.join(", ")
            ),
            width: WIDTH as u32,
            height: height.round() as u32,
            plot: Some(Plot {
                left: LEFT,
                right: WIDTH - RIGHT,
                top: TOP,
                bottom,
                x_label: &self.x.label,
                x_ticks: x.ticks(),
                y_label: &self.y.label,
                y_ticks: y.ticks(),
            }),
            series,
            bars: Vec::new(),
        }
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
}

/// Where each name begins under the plot, in as many rows as they take, and where the last row ends.
fn legend(names: &[&str], top: f64) -> (Vec<(f64, f64)>, f64) {
    let (mut x, mut y) = (LEFT - 30.0, top + 8.0);
    let mut places = Vec::new();
    for name in names {
        let width = 34.0 + name.chars().count() as f64 * CHARACTER + 10.0;
        if x + width > WIDTH && !places.is_empty() {
            (x, y) = (LEFT - 30.0, y + LEGEND_ROW);
        }
        places.push((x, y));
        x += width;
    }
    let end = if names.is_empty() { top } else { y + LEGEND_ROW - 4.0 };
    (places, end)
}

impl Bars {
    fn drawing(&self) -> Drawing<'_> {
        let values: Vec<_> = self.bars.iter().map(|bar| format!("{} {}", bar.name, bar.text)).collect();
        let longest = |of: fn(&Bar) -> &str| self.bars.iter().map(|bar| of(bar).chars().count()).max().unwrap_or(0) as f64;
        // A very long name would leave no room for the bars.
        let left = (longest(|bar| &bar.name) * CHARACTER + 14.0).clamp(60.0, 170.0);
        let right = BARS_WIDTH - (longest(|bar| &bar.text) * CHARACTER + 18.0).clamp(60.0, 120.0);
        let ends = self.bars.iter().filter_map(|bar| bar.value).map(|(_, _, high)| high).filter(|high| high.is_finite());
        let span = Span::of(&Scale::Linear, ends, (left, right));
        let identities = identities(self.bars.iter().map(|bar| bar.name.as_str()));
        let tops = (0..).map(|index| f64::from(index) * BAR_ROW + 4.0);
        let bars = self.bars.iter().zip(identities).zip(tops).map(|((bar, identity), top)| bar.drawn(identity, top, &span));
        Drawing {
            kind: "bars",
            title: &self.title,
            description: format!("Bars of {}: {}.", self.unit, values.join(", ")),
            width: BARS_WIDTH as u32,
            height: (self.bars.len().max(1) as f64 * BAR_ROW + 6.0).round() as u32,
            plot: None,
            series: Vec::new(),
            bars: bars.collect(),
        }
    }
}

impl Bar {
    fn drawn(&self, identity: Identity, top: f64, span: &Span) -> DrawnBar<'_> {
        let left = span.from;
        let is_drawable = |(median, low, high): &(f64, f64, f64)| {
            [median, low, high].into_iter().all(|value| value.is_finite() && *value >= 0.0)
        };
        let places = self.value.filter(is_drawable).map(|(median, low, high)| {
            let (low, high) = (span.place(low), span.place(high));
            ((span.place(median) - left).max(1.0), low, high)
        });
        DrawnBar {
            identity,
            name: &self.name,
            text: &self.text,
            left,
            top,
            middle: top + BAR_ROW / 2.0 - 2.0,
            height: BAR_ROW - 8.0,
            width: places.map(|(width, _, _)| width),
            whisker: places.filter(|(_, low, high)| high - low > 1.5).map(|(_, low, high)| (low, high)),
            end: places.map_or(left, |(width, _, high)| high.max(left + width)),
        }
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

    fn ticks(&self) -> Vec<Tick> {
        let values: Vec<f64> = match &self.scale {
            Scale::Linear => {
                let step = nice_step(self.high / 5.0);
                (0..=10).map(|index| f64::from(index) * step).take_while(|value| *value <= self.high * 1.0001).collect()
            }
            Scale::Log => log_ticks(self.low, self.high),
            Scale::Steps(labels) => {
                let labels = labels.iter().enumerate();
                return labels.map(|(index, label)| Tick { at: self.place(index as f64), label: label.clone() }).collect();
            }
        };
        values.into_iter().map(|value| Tick { at: self.place(value), label: number::tick(value) }).collect()
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

    fn svg(chart: Chart) -> String {
        let source = "{% from 'charts.html' import drawing %}{{ drawing(chart, 1) }}";
        let environment = crate::report::page::environment();
        environment.render_named_str("test.html", source, minijinja::context! { chart }).unwrap()
    }

    fn lines(scale: Scale, points: &[(f64, f64)]) -> String {
        let axis = |scale| Axis { label: "axis".into(), scale };
        let series = vec![Series { name: "tidegate".into(), points: points.to_vec() }];
        svg(Chart::Lines(Lines { title: "t".into(), x: axis(Scale::Linear), y: axis(scale), series }))
    }

    #[test]
    fn axes_have_round_ticks() {
        let ticks = |scale: Scale, values: &[f64]| {
            let span = Span::of(&scale, values.iter().copied(), (0.0, 100.0));
            span.ticks().into_iter().map(|tick| tick.label).collect::<Vec<_>>().join(" ")
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
        let svg_of_bars = |bars| svg(Chart::Bars(Bars { title: "t".into(), unit: "µs".into(), bars }));
        let svg = svg_of_bars(bars);
        assert_eq!((svg.matches("<rect").count(), svg.matches("whisker").count()), (1, 1), "{svg}");
        assert!(svg.contains("a&lt;b") && svg.contains(">failed<") && !svg.contains("NaN"), "{svg}");
        let empty = svg_of_bars(Vec::new());
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
