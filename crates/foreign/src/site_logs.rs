//! Logs that a file says for each of its sites, where all of them are what there is without a word.

use super::outline::Service;

/// The line of what there is without a word.
pub const STDOUT: &str = "access-log \"stdout\"";

/// Takes logs away that all sites have without a word.
pub fn settle(services: &mut [Service]) {
    let is_default = |service: &Service| match service {
        Service::Site(site) => site.logs.iter().all(|log| log.line == STDOUT),
        Service::Tcp(_) => true,
    };
    if !services.iter().all(is_default) {
        return;
    }
    for service in services {
        let Service::Site(site) = service else { continue };
        for log in std::mem::take(&mut site.logs) {
            site.origin.add(&log.origin);
        }
    }
}
