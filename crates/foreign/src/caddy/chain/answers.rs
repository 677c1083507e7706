//! Handlers of Caddy that answer, as the routes and lines that do so: files of a folder without what is hidden in it,
//! scripts with the files beside them, and conditions that there is such a file.

use super::super::serving::{self, FileServer, HiddenNames, ScriptServer, ServedFolder};
use super::{
    Act, ChainAnswer, ChainOp, ChainStep, Compiler, Flow, OF_CONDITION, Rest, Standing, Surroundings, When, place_of, simplified,
};
use crate::accounts::Origin;
use crate::matching::{Asked, AskedLiteral, Matching, PathPattern};
use crate::outline::OutlinedAnswer;
use std::collections::BTreeSet;

/// What answers, with its own steps; `None` where it is passed on.
struct AnswerTold {
    steps: Vec<String>,
    answer: OutlinedAnswer,
    is_passed_on: bool,
}

impl Compiler {
    /// Whether it answers all.
    pub(super) fn answer(
        &mut self,
        answer: &ChainAnswer,
        op: &ChainOp,
        rest: Rest<'_>,
        around: &Surroundings,
        (when, standing): (Option<&Matching>, &mut Standing<'_>),
    ) -> bool {
        let mut origin = op.origin.clone();
        let told = match answer {
            ChainAnswer::Ready(steps, answer) => AnswerTold { steps: steps.clone(), answer: answer.clone(), is_passed_on: false },
            ChainAnswer::Files(files) => {
                let told = self.files(files, around, (when, standing), &mut origin);
                let Some(answer) = told else {
                    standing.step(String::new(), origin);
                    return false;
                };
                AnswerTold { steps: Vec::new(), answer, is_passed_on: files.is_passed_on }
            }
            ChainAnswer::Scripts(scripts) => {
                let answer = self.scripts(scripts, rest, around, (when, standing), &mut origin);
                AnswerTold { steps: Vec::new(), answer, is_passed_on: false }
            }
        };
        let AnswerTold { steps, answer, is_passed_on } = told;
        let steps = steps.into_iter().map(|line| ChainStep { line, origin: Origin::default(), is_guard: false }).collect();
        match when {
            Some(when) => {
                standing.route(when.clone(), steps, answer, origin);
                false
            }
            None if is_passed_on => {
                standing.route(Matching::always(), steps, answer, origin);
                false
            }
            None => {
                standing.end(steps, answer, origin);
                true
            }
        }
    }

    /// Files that are served. `None` where the folder is not known, and others are asked behind them.
    fn files(
        &mut self,
        files: &FileServer,
        around: &Surroundings,
        asked: (Option<&Matching>, &mut Standing<'_>),
        origin: &mut Origin,
    ) -> Option<OutlinedAnswer> {
        match folder(files.root.as_ref(), around, origin) {
            Ok(root) => {
                let tries = tries(around, origin);
                self.hide(&files.hides, files, (&root, tries), around, asked, &Matching::always(), origin);
                Some(files.line(&root, tries))
            }
            Err(why) => {
                self.leave_out(&files.places, why, origin);
                (!files.is_passed_on).then(|| OutlinedAnswer::status(404))
            }
        }
    }

    fn scripts(
        &mut self,
        scripts: &ScriptServer,
        rest: Rest<'_>,
        around: &Surroundings,
        asked: (Option<&Matching>, &mut Standing<'_>),
        origin: &mut Origin,
    ) -> OutlinedAnswer {
        let root = match folder(scripts.root.as_ref(), around, origin) {
            Ok(root) => root,
            Err(why) => {
                self.leave_out(&scripts.places, why, origin);
                return OutlinedAnswer::status(404);
            }
        };
        let tries = tries(around, origin);
        let beside = files_behind(rest)
            .filter(|(_, files)| files.root.as_ref().is_none_or(|own| *own == ServedFolder::Known(root.clone())));
        if let Some((op, files)) = beside {
            self.take_in(op, files, origin);
            let no_script = Matching {
                clauses: vec![vec![AskedLiteral {
                    asked: Asked::Paths(vec![PathPattern::of(format!("~{}", scripts.scripts()))]),
                    is_negated: true,
                }]],
            };
            self.hide(&files.hides, files, (&root, None), around, asked, &no_script, origin);
        }
        scripts.line(&root, tries, beside.is_some())
    }

    /// Says of files that stand behind something that they are served by its line.
    fn take_in(&mut self, op: &ChainOp, files: &FileServer, origin: &mut Origin) {
        self.asked.extend(place_of(op));
        origin.within.extend(&op.origin.within);
        for at in op.origin.carried.iter().filter(|at| !files.places.contains(*at) || **at == files.at) {
            origin.carry(*at);
        }
        for (at, how) in op.origin.differs.iter().filter(|(at, _)| **at == files.at) {
            origin.differ(*at, how.clone());
        }
        for at in files.places.iter().filter(|at| **at != files.at) {
            self.reasons.insert(*at, serving::BESIDE_SCRIPTS.to_owned());
        }
    }

    /// Takes back what is said of these, with the reason.
    fn leave_out(&mut self, places: &BTreeSet<usize>, why: &str, origin: &mut Origin) {
        origin.lose(places);
        self.lost.extend(places);
        for at in places {
            self.reasons.insert(*at, why.to_owned());
        }
    }

    /// Routes in front of files for what is not served of them. Where there is a name that none of them can have, it
    /// is not carried, so that what it stands in is shut.
    #[allow(clippy::too_many_arguments, reason = "where, of what, and under which conditions")]
    fn hide(
        &mut self,
        hides: &[HiddenNames],
        files: &FileServer,
        (root, tries): (&str, Option<&[String]>),
        around: &Surroundings,
        (when, standing): (Option<&Matching>, &mut Standing<'_>),
        also: &Matching,
        origin: &mut Origin,
    ) {
        for hide in hides {
            let all = files.hidden_paths(hide, root, tries);
            let told = all.map(|all| {
                if all.is_empty() {
                    return Some(None);
                }
                let paths = all.iter().map(|regex| PathPattern::of(format!("~{regex}"))).collect();
                let seen = around.view.seen(&Matching::of(Asked::Paths(paths)))?;
                let also = around.view.seen(also)?;
                seen.and(&also)?.and(when.unwrap_or(&Matching::always())).map(Some)
            });
            match told.flatten() {
                None => {
                    origin.lose(&std::iter::once(hide.at).collect());
                    origin.within.insert(hide.at);
                    self.reasons.insert(hide.at, serving::HIDDEN.to_owned());
                }
                Some(None) => {}
                Some(Some(matching)) => {
                    if files.is_listing() {
                        origin.differ(hide.at, serving::LISTED);
                    }
                    standing.route(matching, Vec::new(), OutlinedAnswer::status(404), Origin::default());
                }
            }
        }
    }

    /// A condition that there is such a file, or none.
    pub(super) fn of_files(
        &mut self,
        op: &ChainOp,
        also: &Matching,
        is_negated: bool,
        rest: Rest<'_>,
        around: &mut Surroundings,
        standing: &mut Standing<'_>,
    ) -> Flow {
        let mut origin = op.origin.clone();
        let when = around.view.seen(also).and_then(|also| simplified(&around.taken, also));
        let root = folder(None, around, &mut origin);
        let (Some(when), Ok(root)) = (when, root) else {
            self.unknown(op, OF_CONDITION, standing);
            return Flow::On;
        };
        let own = if is_negated { None } else { served_by(&op.act) };
        let is_answer = matches!(op.act, Act::Answer(_) | Act::Within(_));
        let behind = files_behind(rest).filter(|_| is_negated && is_answer);
        let Some(files) = own.or(behind.map(|(_, files)| files)) else {
            self.unknown(op, OF_CONDITION, standing);
            return Flow::On;
        };
        if files.root.as_ref().is_some_and(|own| *own != ServedFolder::Known(root.clone())) {
            self.unknown(op, OF_CONDITION, standing);
            return Flow::On;
        }
        let mut steps = Vec::new();
        if let (Act::Within(inner), true) = (&op.act, own.is_some()) {
            for inner in inner {
                origin.add(&inner.origin);
                if let Act::Change(line) | Act::Step(line) = &inner.act {
                    steps.push(ChainStep { line: line.clone(), origin: Origin::default(), is_guard: false });
                }
            }
        }
        if let Some((op, files)) = behind {
            self.take_in(op, files, &mut origin);
        }
        self.hide(&files.hides, files, (&root, None), around, (Some(&when), standing), &Matching::always(), &mut origin);
        let tried = OutlinedAnswer::Files { root, strip: None, fallback: None, is_listing: false, is_tried: true };
        // A folder is no file there, and its index none that was asked for.
        let of_folders = Asked::Paths(vec![PathPattern::of("~/$")]);
        let no_folder = Matching { clauses: vec![vec![AskedLiteral { asked: of_folders, is_negated: true }]] };
        let Some(of_names) = when.and(&no_folder) else {
            self.unknown(op, OF_CONDITION, standing);
            return Flow::On;
        };
        standing.route(of_names, steps, tried, origin);
        if own.is_some() {
            return Flow::On;
        }
        let op = ChainOp { when: When::If(when), ..op.clone() };
        self.one(&op, rest, around, standing)
    }
}

/// The folder of files: their own, or that of what is around them. `Err` says why it is not known.
fn folder(own: Option<&ServedFolder>, around: &Surroundings, origin: &mut Origin) -> Result<String, &'static str> {
    let found = match (own, &around.root) {
        (Some(own), _) => own,
        (None, Some((root, of_root))) => {
            origin.add(of_root);
            root
        }
        (None, None) => return Err(serving::NO_FOLDER),
    };
    match found {
        ServedFolder::Known(root) => Ok(root.clone()),
        ServedFolder::Unknown(why) => Err(why),
    }
}

fn tries<'a>(around: &'a Surroundings, origin: &mut Origin) -> Option<&'a [String]> {
    let (tries, of_tries) = around.tries.as_ref()?;
    origin.add(of_tries);
    Some(tries)
}

/// Files that it serves without a change of the path.
fn served_by(act: &Act) -> Option<&FileServer> {
    match act {
        Act::Answer(ChainAnswer::Files(files)) => Some(files),
        Act::Within(inner) => {
            let is_told = |op: &ChainOp| {
                let is_always = matches!(&op.when, When::If(when) if when.is_always());
                let is_plain =
                    matches!(op.act, Act::Step(_) | Act::Change(_) | Act::Nothing | Act::Answer(ChainAnswer::Files(_)));
                is_always && is_plain
            };
            let files = inner.iter().find_map(|op| match &op.act {
                Act::Answer(ChainAnswer::Files(files)) => Some(files),
                Act::Step(_)
                | Act::Change(_)
                | Act::Path(_)
                | Act::Root(_)
                | Act::Tries(_)
                | Act::Nothing
                | Act::Unsaid
                | Act::Answer(_)
                | Act::Within(_) => None,
            });
            files.filter(|_| inner.iter().all(is_told))
        }
        Act::Step(_)
        | Act::Change(_)
        | Act::Path(_)
        | Act::Root(_)
        | Act::Tries(_)
        | Act::Nothing
        | Act::Unsaid
        | Act::Answer(_) => None,
    }
}

/// Files that answer what scripts leave, which is said by the same line then.
fn files_behind(rest: Rest<'_>) -> Option<(&ChainOp, &FileServer)> {
    let mut frame = Some(rest);
    while let Some(rest) = frame {
        for op in rest.ops {
            let is_all = matches!(&op.when, When::If(when) if when.is_always());
            if let (true, Act::Answer(ChainAnswer::Files(files))) = (is_all, &op.act) {
                return Some((op, files));
            }
        }
        frame = rest.next.copied();
    }
    None
}
