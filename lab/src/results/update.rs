//! A report that keeps what an earlier run on the same machine has measured, so that one experiment can be run again
//! without all others. Pure.

use crate::results::Report;

impl Report {
    /// Takes the experiments of `earlier`. Where a peer has another version since, a warning says so. Fails if it was
    /// another machine.
    pub fn take_over(&mut self, earlier: Report) -> Result<(), String> {
        if (&earlier.machine.cpu, earlier.machine.cores) != (&self.machine.cpu, self.machine.cores) {
            return Err(format!("measured on another machine ({}); write to another folder", earlier.machine.cpu));
        }
        for mut record in earlier.experiments {
            if record.began.is_empty() {
                record.began.clone_from(&earlier.began);
                record.command.clone_from(&earlier.command);
            }
            for peer in &self.peers {
                if let Some(version) = record.versions.get(&peer.name).filter(|version| **version != peer.version) {
                    self.warnings.push(format!("{} was measured with {} {version}.", record.name, peer.name));
                }
            }
            self.experiments.push(record);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::report::fixture;

    #[test]
    fn earlier_experiments_are_kept_with_their_time_and_their_versions() {
        let mut earlier = fixture::small();
        earlier.experiments[0].versions = [("nginx".to_owned(), "nginx/1.20.0".to_owned())].into();
        let mut report = fixture::report();
        report.experiments.clear();
        report.warnings.clear();
        report.take_over(earlier.clone()).unwrap();
        assert_eq!(report.experiments.len(), 1);
        assert_eq!(report.experiments[0].began, earlier.began);
        assert_eq!(report.warnings, ["handshake was measured with nginx nginx/1.20.0."]);
        earlier.machine.cores += 1;
        assert!(report.take_over(earlier).unwrap_err().contains("another machine"));
    }
}
