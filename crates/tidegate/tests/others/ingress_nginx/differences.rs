//! Which differences are explained, each by what the documentation says; and which are faults.

use super::answers::Answer;
use super::objects::Host;
use super::questions::Question;

pub enum Difference {
    None,
    Explained(&'static str),
    Fault(String),
}

pub fn difference(host: &Host, question: &Question, nginx: &Answer, ours: &Answer) -> Difference {
    let _ = (host, question);
    if nginx == ours {
        return Difference::None;
    }
    let shown = |answer: &Answer| match &answer.upstream {
        Some(upstream) => format!("to {}", upstream.name),
        None => answer.status.to_string(),
    };
    let kind = match (&nginx.upstream, &ours.upstream) {
        (None, Some(_)) => "OPEN",
        (Some(_), None) => "shut",
        (None, None) if nginx.status == ours.status => "location",
        (None, None) => "status",
        (Some(a), Some(b)) if a.name != b.name => "OTHER SERVER",
        (Some(a), Some(b)) if a.target != b.target => "other path",
        (Some(_), Some(_)) => "other fields",
    };
    Difference::Fault(format!("{kind}: {} → {}", shown(nginx), shown(ours)))
}
