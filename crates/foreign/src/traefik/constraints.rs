//! Which containers a provider of Traefik looks at: ``Label(`env`, `prod`) && !LabelRegex(`tier`, `^db`)``.

use super::middlewares::VARIABLE;
use super::rules::text;
use crate::condition_reader::{ConditionReader, ConditionTerms};
use crate::matching::Matching;
use tidegate_model::expression;

const DEPTH_MAX: usize = 24;

/// Whether it holds for these labels; `None` where it is none that is read.
pub fn hold(constraints: &str, labels: &[(String, String)]) -> Option<bool> {
    if constraints.contains(VARIABLE) {
        return None;
    }
    let matching = ConditionReader::read(constraints.trim_matches(['"', '\'']), DEPTH_MAX, &LabelTerms { labels })?;
    Some(matching.is_always())
}

struct LabelTerms<'l> {
    labels: &'l [(String, String)],
}

impl ConditionTerms for LabelTerms<'_> {
    fn term(&self, reader: &mut ConditionReader<'_>) -> Option<Matching> {
        let end = reader.rest.find('(')?;
        let (name, rest) = reader.rest.split_at(end);
        reader.rest = &rest[1..];
        let key = text(reader)?;
        if !reader.takes(",") {
            return None;
        }
        let value = text(reader)?;
        if !reader.takes(")") {
            return None;
        }
        let said = self.labels.iter().find(|(own, _)| *own == key).map(|(_, value)| value.as_str());
        let holds = match name.trim() {
            "Label" => said == Some(value.as_str()),
            "LabelRegex" => {
                let regex = expression(&value).build().ok()?;
                said.is_some_and(|said| regex.is_match(said.as_bytes()))
            }
            _ => return None,
        };
        Some(if holds { Matching::always() } else { Matching::never() })
    }
}

#[cfg(test)]
mod tests {
    use super::hold;

    #[test]
    fn constraints_are_asked_of_labels() {
        let labels = [("env".to_owned(), "prod".to_owned()), ("tier".to_owned(), "db1".to_owned())];
        let check = |text: &str, expected: Option<bool>| assert_eq!(hold(text, &labels), expected, "{text}");
        check("Label(`env`,`prod`)", Some(true));
        check("Label(`env`, `test`)", Some(false));
        check("Label(`env`,`prod`) && !LabelRegex(`tier`,`^db`)", Some(false));
        check("Label(`none`,`x`) || (LabelRegex(`tier`, `^db`) && Label(`env`,`prod`))", Some(true));
        check("!Label(`none`,`x`)", Some(true));
        check("Tag(`a`)", None);
        check("Label(`env`,`prod`) &&", None);
    }
}
