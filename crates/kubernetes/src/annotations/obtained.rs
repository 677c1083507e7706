//! An annotation of our own: certificates that no Secret has are obtained from a CA.

use super::{Annotations, shortened};
use crate::finding::{Finding, FindingCode, Severity};
use crate::manner::Manner;
use tidegate_cluster::Ingress;

/// By its whole name.
pub const OBTAINED: &str = "tidegate.dev/acme";

pub(super) fn read(annotations: &mut Annotations<'_>, ingress: &Ingress, manner: &mut Manner) {
    let Some(value) = ingress.annotations.get(OBTAINED) else { return };
    match value.trim() {
        "true" => manner.is_obtained = Some(true),
        "false" => manner.is_obtained = Some(false),
        other => {
            let message = format!("`{}` is left out: it is `true` or `false`", shortened(other));
            let (field, code) = (format!("metadata.annotations[{OBTAINED}]"), FindingCode::AnnotationInvalid);
            annotations.findings.push(Finding { field, code, severity: Severity::Warning, message });
        }
    }
}
