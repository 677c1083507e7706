//! Conditions on the query as it was sent, which no condition of ours has by itself: each is a map with one row, which
//! is named when all of a file is known.

use super::conditions::{Condition, Test};
use crate::accounts::Origin;
use crate::outline::{Outline, OutlinedAnswer, OutlinedRoute, OutlinedSetting, Service};
use tidegate_kdl::quoted;

/// Stands around an expression until its map has a name; no file has it.
const MARK: char = '\u{1}';

/// Whether the query fits; one that is not there is empty.
pub fn asked(expression: &str) -> Condition {
    Condition::Test(Test::Written(format!("{MARK}{}{MARK}", expression.replace(MARK, ""))))
}

/// Gives the maps their names, and writes them.
pub fn settle(outline: &mut Outline) {
    let mut names = QueryMaps::default();
    for service in outline.services.iter_mut().chain(&mut outline.refusing) {
        let Service::Site(site) = service else { continue };
        names.name_all(&mut site.steps);
        for route in &mut site.routes {
            names.name_in_route(route);
        }
        if let Some(answer) = &mut site.answer {
            names.name_in_answer(answer);
        }
    }
    outline.settings.extend(names.expressions.iter().enumerate().map(|(index, text)| OutlinedSetting {
        line: format!("map {} key=\"{{query}}\" {{ row {} \"1\"; }}", quoted(&name(index)), quoted(&format!("~{text}"))),
        origin: Origin::default(),
    }));
}

#[derive(Default)]
struct QueryMaps {
    expressions: Vec<String>,
}

fn name(index: usize) -> String {
    format!("query-{}", index + 1)
}

impl QueryMaps {
    fn name_in_route(&mut self, route: &mut OutlinedRoute) {
        for lines in [&mut route.conditions, &mut route.alternatives, &mut route.steps] {
            self.name_all(lines);
        }
        self.name_in_answer(&mut route.answer);
    }

    fn name_in_answer(&mut self, answer: &mut OutlinedAnswer) {
        let OutlinedAnswer::Within { routes, steps, otherwise } = answer else { return };
        self.name_all(steps);
        for route in routes {
            self.name_in_route(route);
        }
        if let Some(answer) = otherwise {
            self.name_in_answer(answer);
        }
    }

    fn name_all(&mut self, lines: &mut [String]) {
        for line in lines.iter_mut().filter(|line| line.contains(MARK)) {
            let parts: Vec<&str> = line.split(MARK).collect();
            let named = parts.iter().enumerate().map(|(index, part)| {
                if index % 2 == 0 { (*part).to_owned() } else { format!("map={}", quoted(&self.name_of(part))) }
            });
            *line = named.collect();
        }
    }

    fn name_of(&mut self, expression: &str) -> String {
        let known = self.expressions.iter().position(|known| known == expression);
        name(known.unwrap_or_else(|| {
            self.expressions.push(expression.to_owned());
            self.expressions.len() - 1
        }))
    }
}
