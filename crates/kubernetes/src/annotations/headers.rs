//! Fields that answers have besides those of servers, by a ConfigMap.

use super::Annotations;
use crate::manner::Manner;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    // ingress-nginx denies what it cannot read of these, and so what is not to be had shuts.
    if let Ok(map) = annotations.config_map("custom-headers") {
        manner.custom_headers = map;
    }
}
