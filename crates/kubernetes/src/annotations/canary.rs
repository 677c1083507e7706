//! Which requests of another Ingress this one is to have.

use super::{Annotations, is_token};
use crate::canary::{Canary, CanaryHeader, CanaryValue};
use crate::manner::Manner;
use tidegate_model::{SplitArm, expression};

const NAME_BYTES_MAX: usize = 128;
const VALUE_BYTES_MAX: usize = 1000;
/// Parts in the whole.
const TOTAL: u32 = 100;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    manner.keeps_share = match annotations.text("affinity-canary-behavior") {
        None | Some("sticky") => true,
        Some("legacy") => false,
        Some(_) => {
            annotations.leave_out("affinity-canary-behavior", "it is `sticky` or `legacy`");
            true
        }
    };
    if annotations.switch("canary") != Some(true) {
        return;
    }
    let total = number(annotations, "canary-weight-total", 1).unwrap_or(TOTAL);
    let weight = number(annotations, "canary-weight", 0).unwrap_or(0).min(total);
    let header = header(annotations);
    manner.canary = Some(Canary { header, cookie: name(annotations, "canary-by-cookie").map(str::to_owned), weight, total });
}

fn header(annotations: &mut Annotations<'_>) -> Option<CanaryHeader> {
    const VALUE: &str = "canary-by-header-value";
    const PATTERN: &str = "canary-by-header-pattern";
    let name = name(annotations, "canary-by-header")?.to_ascii_lowercase();
    let value = match (annotations.text(VALUE), annotations.text(PATTERN)) {
        (None, None) => CanaryValue::Words,
        (Some(value), _) if value.len() <= VALUE_BYTES_MAX && !value.chars().any(char::is_control) => {
            CanaryValue::Exactly(value.to_owned())
        }
        (None, Some(pattern)) if pattern.len() <= VALUE_BYTES_MAX && expression(pattern).build().is_ok() => {
            CanaryValue::Expression(pattern.to_owned())
        }
        // Without the header, so that nobody comes there whom nobody has meant.
        (Some(_), _) => {
            annotations.leave_out(VALUE, &format!("it is a text of at most {VALUE_BYTES_MAX} bytes; the header decides nothing"));
            return None;
        }
        (None, Some(_)) => {
            annotations.leave_out(
                PATTERN,
                "it is no expression that can be had: look-around and back-references are not; the header decides nothing",
            );
            return None;
        }
    };
    Some(CanaryHeader { name, value })
}

/// Of a header or a cookie.
fn name<'i>(annotations: &mut Annotations<'i>, name: &str) -> Option<&'i str> {
    let written = annotations.text(name)?;
    if is_token(written) && written.len() <= NAME_BYTES_MAX {
        return Some(written);
    }
    annotations.leave_out(name, &format!("it is a name of letters, digits, `-` and `_`, at most {NAME_BYTES_MAX}"));
    None
}

fn number(annotations: &mut Annotations<'_>, name: &str, least: u32) -> Option<u32> {
    let most = SplitArm::WEIGHT_MAX;
    let number = annotations.text(name)?.parse().ok().filter(|number| (least..=most).contains(number));
    if number.is_none() {
        annotations.leave_out(name, &format!("it is a number of {least} to {most}"));
    }
    number
}
