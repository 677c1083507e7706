//! gRPC, by Google's library for Python on both sides: calls of all four kinds, failures, deadlines, long messages.

use super::Application;
use crate::cache::Cache;
use crate::example::Configuration;
use crate::stage::{Stage, did, free_port};
use std::process::Command;

pub const GRPC: Application = Application {
    name: "grpc",
    title: "gRPC 1.85, Python",
    story: "calls of all four kinds, trailers, failures, a deadline, 20 MiB, health",
    configuration: Configuration::File(include_str!("../../configurations/grpc.kdl")),
    program: None,
    install,
    act,
};

const SERVER: &str = include_str!("../../programs/grpc/server.py");
const CLIENT: &str = include_str!("../../programs/grpc/client.py");

fn install(cache: &Cache) -> Result<(), String> {
    cache.pip("grpc", &["grpcio==1.85.1", "grpcio-health-checking==1.85.1"])
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let python = stage.cache.of("grpc").join("venv/bin/python");
    let (server, client) = (stage.write("server.py", SERVER)?, stage.write("client.py", CLIENT)?);
    let (port, goal) = (free_port()?, format!("localhost:{}", free_port()?));
    let _server = stage.start_at("grpc", port, Command::new(&python).arg(server).arg(port.to_string()))?;
    let origin = format!("https://{goal}");
    let front = stage.front(&[("https://localhost:8443", &origin), ("127.0.0.1:50051", &format!("127.0.0.1:{port}"))])?;
    let said = stage.run(Command::new(&python).arg(client).arg(&goal).arg(front.root_certificate()))?;
    said.lines().for_each(did);
    front.check(|_| false)
}
