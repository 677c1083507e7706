//! What `tidegate status` says of the objects of a cluster.

use tidegate_api::{ClusterWriting, KeptLastGood, KindSeen, KubernetesStatus, ObjectFinding};

/// How many objects are known, what is wrong with them, and what is served as it was.
pub fn kubernetes_rows(status: &KubernetesStatus) -> Vec<String> {
    let KubernetesStatus { is_served, kinds, findings, findings_total, kept, writing, snapshot } = status;
    let counted = |seen: &KindSeen| format!("{} {}", seen.objects, seen.kind);
    let counted: Vec<String> = kinds.iter().filter(|seen| seen.is_listed).map(counted).collect();
    let mut rows = Vec::new();
    if !is_served {
        let waits = kinds.iter().filter(|seen| !seen.is_listed).map(|seen| seen.kind.as_str()).collect::<Vec<_>>();
        rows.push(match &waits[..] {
            [] => "NOT SERVED so far: Secrets are awaited, or nothing of it runs".to_owned(),
            waits => format!("NOT SERVED so far: there is no list of {}", waits.join(", ")),
        });
    }
    rows.extend((!counted.is_empty()).then(|| counted.join(", ")));
    for KindSeen { kind, heard_seconds_ago, unreadable, fault, .. } in kinds {
        if let Some(fault) = fault {
            let since = heard_seconds_ago.map(|ago| format!(", heard of {ago} s ago")).unwrap_or_default();
            rows.push(format!("FAULT: {kind}{since}: the API server {fault}"));
        }
        if *unreadable > 0 {
            rows.push(format!("warning: {unreadable} of {kind} cannot be read; what they were stays"));
        }
    }
    rows.extend(writing.iter().map(written));
    rows.extend(snapshot.iter().map(|said| format!("last objects: {said}")));
    rows.extend(kept.iter().map(|KeptLastGood { name, why }| format!("KEPT AS IT WAS: {name}: {why}")));
    for ObjectFinding { object, field, code, message, is_error } in findings {
        let severity = if *is_error { "NOT SERVED" } else { "warning" };
        rows.push(format!("{severity}: {object}: {field}: {message} ({code})"));
    }
    let more = findings_total - findings.len();
    if more > 0 {
        rows.push(format!("and {more} more findings"));
    }
    rows
}

/// Who writes statuses and Events, and how that does.
fn written(writing: &ClusterWriting) -> String {
    let ClusterWriting { is_leader, holder, statuses_written, statuses_pending, events_written, fault } = writing;
    let who = match (is_leader, holder) {
        (true, _) => "this process writes statuses and Events".to_owned(),
        (false, Some(holder)) => format!("{holder} writes statuses and Events"),
        (false, None) => "nobody is known to write statuses and Events".to_owned(),
    };
    let fault = fault.as_ref().map(|fault| format!("; FAULT: the API server {fault}")).unwrap_or_default();
    format!("{who}; {statuses_written} statuses and {events_written} Events written, {statuses_pending} statuses pending{fault}")
}

#[cfg(test)]
mod tests {
    use super::kubernetes_rows;
    use tidegate_api::{KindSeen, KubernetesStatus, ObjectFinding};

    fn seen(kind: &str, is_listed: bool, fault: Option<&str>) -> KindSeen {
        KindSeen {
            kind: kind.into(),
            objects: 3,
            is_listed,
            heard_seconds_ago: Some(7),
            unreadable: 0,
            fault: fault.map(Into::into),
        }
    }

    fn nothing() -> KubernetesStatus {
        KubernetesStatus {
            is_served: true,
            kinds: Vec::new(),
            findings: Vec::new(),
            findings_total: 0,
            kept: Vec::new(),
            writing: None,
            snapshot: None,
        }
    }

    #[test]
    fn what_is_not_served_is_said_first() {
        let check = |is_served: bool, kinds: Vec<KindSeen>, expected: &[&str]| {
            assert_eq!(kubernetes_rows(&KubernetesStatus { is_served, kinds, ..nothing() }), expected);
        };
        check(true, vec![seen("Ingress", true, None)], &["3 Ingress"]);
        let of_two = vec![seen("Ingress", true, None), seen("Secret", false, Some("refuses it: no"))];
        let expected = [
            "NOT SERVED so far: there is no list of Secret",
            "3 Ingress",
            "FAULT: Secret, heard of 7 s ago: the API server refuses it: no",
        ];
        check(false, of_two, &expected);
    }

    #[test]
    fn findings_name_object_and_field() {
        let finding = ObjectFinding {
            object: "Ingress shop/web".into(),
            field: "spec.rules[0].host".into(),
            code: "HostInvalid".into(),
            message: "it is no name".into(),
            is_error: true,
        };
        let status = KubernetesStatus { findings: vec![finding], findings_total: 5, ..nothing() };
        let expected = ["NOT SERVED: Ingress shop/web: spec.rules[0].host: it is no name (HostInvalid)", "and 4 more findings"];
        assert_eq!(kubernetes_rows(&status), expected);
    }
}
