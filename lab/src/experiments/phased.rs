//! A generator that is told its phases while it runs, so that what happens meanwhile can be counted by itself.
//! Who leads it through which phases is for the experiments.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use crate::load::LoadReport;
use crate::net::Error;
use crate::stage::read_report;

pub struct PhasedLoad {
    child: Child,
    /// Closed to end the load.
    phases: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl PhasedLoad {
    /// Returns when all connections stand and the load runs; nothing is counted before the first phase.
    pub fn start(mut command: Command) -> Result<PhasedLoad, Error> {
        let mut child = command.arg("--phases").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (phases, output) = child.stdin.take().zip(child.stdout.take()).expect("piped");
        let mut output = BufReader::new(output);
        let mut ready = String::new();
        output.read_line(&mut ready)?;
        if ready.trim() != "ready" {
            read_report(child.wait_with_output()?)?;
            return Err("the generator did not begin".into());
        }
        Ok(PhasedLoad { child, phases, output })
    }

    /// Ends the phase before.
    pub fn begin(&mut self, name: &str) -> Result<(), Error> {
        writeln!(self.phases, "{name}").map_err(|error| format!("the generator has ended: {error}").into())
    }

    pub fn finish(mut self) -> Result<LoadReport, Error> {
        drop(self.phases);
        let mut text = Vec::new();
        self.output.read_to_end(&mut text)?;
        let output = self.child.wait_with_output()?;
        read_report(Output { stdout: text, ..output })
    }
}
