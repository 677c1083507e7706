//! The figures that are kept in the tree, and what is thought of a new one. Text in, text out; nothing is measured
//! here. Each figure stands with the reason for its last change, so that the file's history is the history of what a
//! request costs.

use std::fmt;

/// More than this, in percent of the kept figure, is a change. Measured again on a busy machine, figures differ by up
/// to 0.6 %, and those of `http1-plain-100k`, where a request may take one read more or less, by up to 0.8 %.
const TOLERANCE_PERCENT: u64 = 2;
const MEASURED_WITH: &str = "measured with: ";
const HEAD: &str = "\
# Instructions that a worker executes for one request, by callgrind. `cargo xtask instructions` compares and says how to accept others.
# Each line: the scenario, its instructions, and why they last changed by more than two percent.
";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    /// Tools with which the figures can be compared.
    pub measured_with: String,
    pub lines: Vec<Figure>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    pub scenario: String,
    pub instructions: u64,
    pub reason: String,
}

impl Figures {
    pub fn parse(text: &str) -> Result<Figures, String> {
        let mut measured_with = None;
        let mut lines: Vec<Figure> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(tools) = line.strip_prefix(MEASURED_WITH) {
                measured_with = Some(tools.to_owned());
                continue;
            }
            let figure = Figure::parse(line).ok_or(format!("`{line}` is not a scenario, a number and a reason"))?;
            if lines.iter().any(|earlier| earlier.scenario == figure.scenario) {
                return Err(format!("`{}` is there twice", figure.scenario));
            }
            lines.push(figure);
        }
        let measured_with = measured_with.ok_or(format!("there is no line `{MEASURED_WITH}…`"))?;
        Ok(Figures { measured_with, lines })
    }

    pub fn render(&self) -> String {
        let mut text = format!("{HEAD}{MEASURED_WITH}{}\n\n", self.measured_with);
        for Figure { scenario, instructions, reason } in &self.lines {
            text.push_str(&format!("{scenario:<18} {instructions:>8}  {reason}\n"));
        }
        text
    }

    /// The figures to keep from now on. Those that fit stay as they are: otherwise many small changes would add up
    /// unseen.
    pub fn accept(&self, measured: &[(&str, u64)], reason: &str) -> Figures {
        let line = |&(scenario, instructions): &(&str, u64)| match self.of(scenario) {
            Some(kept) if !Judgement::of(self, scenario, instructions).verdict.is_off() => kept.clone(),
            Some(_) | None => Figure { scenario: scenario.into(), instructions, reason: reason.into() },
        };
        Figures { measured_with: self.measured_with.clone(), lines: measured.iter().map(line).collect() }
    }

    fn of(&self, scenario: &str) -> Option<&Figure> {
        self.lines.iter().find(|line| line.scenario == scenario)
    }
}

impl Figure {
    fn parse(line: &str) -> Option<Figure> {
        let (scenario, rest) = line.split_once(' ')?;
        let (instructions, reason) = rest.trim_start().split_once(' ')?;
        let instructions = instructions.parse().ok().filter(|instructions| *instructions > 0)?;
        let reason = reason.trim();
        (!reason.is_empty()).then(|| Figure { scenario: scenario.into(), instructions, reason: reason.into() })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Fits,
    Above,
    Below,
    /// Measured, but no figure is kept.
    Unknown,
    /// Kept, but no longer measured.
    Gone,
}

impl Verdict {
    /// Whether measuring again could change the verdict.
    pub fn is_off(self) -> bool {
        match self {
            Verdict::Above | Verdict::Below => true,
            Verdict::Fits | Verdict::Unknown | Verdict::Gone => false,
        }
    }
}

/// A scenario with both figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub scenario: String,
    pub kept: Option<u64>,
    pub measured: Option<u64>,
    pub verdict: Verdict,
}

impl Judgement {
    pub fn of(figures: &Figures, scenario: &str, measured: u64) -> Judgement {
        let kept = figures.of(scenario).map(|figure| figure.instructions);
        let verdict = match kept {
            None => Verdict::Unknown,
            Some(kept) if measured * 100 > kept * (100 + TOLERANCE_PERCENT) => Verdict::Above,
            Some(kept) if measured * 100 < kept * (100 - TOLERANCE_PERCENT) => Verdict::Below,
            Some(_) => Verdict::Fits,
        };
        Judgement { scenario: scenario.into(), kept, measured: Some(measured), verdict }
    }
}

/// Everything measured, in its order, and then what is kept without being measured.
pub fn judge(figures: &Figures, measured: &[(&str, u64)]) -> Vec<Judgement> {
    let gone = figures.lines.iter().filter(|line| measured.iter().all(|(scenario, _)| *scenario != line.scenario));
    let gone = gone.map(|line| Judgement {
        scenario: line.scenario.clone(),
        kept: Some(line.instructions),
        measured: None,
        verdict: Verdict::Gone,
    });
    measured.iter().map(|(scenario, instructions)| Judgement::of(figures, scenario, *instructions)).chain(gone).collect()
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = |figure: Option<u64>| figure.map_or("-".to_owned(), |figure| figure.to_string());
        write!(f, "{:<18} kept {:>8}, now {:>8}", self.scenario, figure(self.kept), figure(self.measured))?;
        if let (Some(kept), Some(measured)) = (self.kept, self.measured) {
            write!(f, " ({:+.2} %)", (measured as f64 / kept as f64 - 1.0) * 100.0)?;
        }
        f.write_str(match self.verdict {
            Verdict::Fits => "",
            Verdict::Above => ": more than is allowed",
            Verdict::Below => ": fewer, the kept figure is stale",
            Verdict::Unknown => ": no figure is kept",
            Verdict::Gone => ": is no longer measured",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, Judgement, Verdict, judge};

    const KEPT: &str = "# a comment\nmeasured with: rustc 1, valgrind 2\n\nsmall 1000 First figures.\nlarge   500000  Once more, for a reason.\n";

    #[test]
    fn figures_are_read_and_written() {
        let kept = Figures::parse(KEPT).unwrap();
        assert_eq!(kept.measured_with, "rustc 1, valgrind 2");
        assert_eq!((kept.lines[1].instructions, kept.lines[1].reason.as_str()), (500_000, "Once more, for a reason."));
        assert_eq!(Figures::parse(&kept.render()).unwrap(), kept);
        assert!(kept.render().contains("\nsmall                  1000  First figures.\n"), "{}", kept.render());
        for text in [
            "",
            "small 1000 x",
            "measured with: y\nsmall 1000\n",
            "measured with: y\nsmall 0 x\n",
            "measured with: y\nsmall x y\n",
        ] {
            assert!(Figures::parse(text).is_err(), "{text}");
        }
        assert!(Figures::parse("measured with: y\nsmall 1 a\nsmall 2 b\n").unwrap_err().contains("twice"));
    }

    #[test]
    fn two_percent_is_the_limit_in_both_directions() {
        let kept = Figures::parse(KEPT).unwrap();
        let check = |scenario: &str, measured: u64, expected: Verdict, said: &str| {
            let judgement = Judgement::of(&kept, scenario, measured);
            assert_eq!(judgement.verdict, expected, "{judgement}");
            assert!(judgement.to_string().ends_with(said), "{judgement}");
        };
        check("small", 1000, Verdict::Fits, "kept     1000, now     1000 (+0.00 %)");
        check("small", 1020, Verdict::Fits, "(+2.00 %)");
        check("small", 1021, Verdict::Above, "kept     1000, now     1021 (+2.10 %): more than is allowed");
        check("small", 980, Verdict::Fits, "(-2.00 %)");
        check("small", 979, Verdict::Below, "(-2.10 %): fewer, the kept figure is stale");
        check("other", 5, Verdict::Unknown, "kept        -, now        5: no figure is kept");
    }

    #[test]
    fn a_scenario_that_is_missing_on_one_side_is_told() {
        let kept = Figures::parse(KEPT).unwrap();
        let verdicts = |measured: &[(&str, u64)]| -> Vec<(String, Verdict)> {
            judge(&kept, measured).into_iter().map(|judgement| (judgement.scenario, judgement.verdict)).collect()
        };
        assert_eq!(
            verdicts(&[("small", 1), ("new", 1)]),
            [("small".to_owned(), Verdict::Below), ("new".to_owned(), Verdict::Unknown), ("large".to_owned(), Verdict::Gone)]
        );
        assert_eq!(
            verdicts(&[("large", 500_000), ("small", 1_001)]),
            [("large".to_owned(), Verdict::Fits), ("small".to_owned(), Verdict::Fits)]
        );
    }

    #[test]
    fn accepting_changes_only_what_does_not_fit() {
        let kept = Figures::parse(KEPT).unwrap();
        let accepted = kept.accept(&[("small", 1019), ("large", 400_000), ("new", 7)], "Half the copies.");
        let lines: Vec<_> =
            accepted.lines.iter().map(|line| (line.scenario.as_str(), line.instructions, line.reason.as_str())).collect();
        assert_eq!(
            lines,
            [("small", 1000, "First figures."), ("large", 400_000, "Half the copies."), ("new", 7, "Half the copies.")]
        );
        assert_eq!(kept.accept(&[], "Nothing is measured.").lines, []);
    }
}
