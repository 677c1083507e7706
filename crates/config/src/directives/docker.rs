//! `docker { allow "*.example.com"; }`: whether containers say by their labels what they serve, and what they may have
//! of it. What labels mean is in `labels`; nothing is asked here.

use crate::diagnostics::{Diagnostic, shortened};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::{Read, read};
use crate::table::{Argument, Block, Kind, Place, Property, Repeat};
use crate::written_line::{Writer, name_of};
use std::path::PathBuf;
use tidegate_model::address::parse_host_pattern;
use tidegate_model::{ContainerSource, Containers, EntryPoint, HostPattern, LabelDialect};

const DIALECTS: &[&str] = &["tidegate", "traefik", "nginx-proxy"];

pub static DOCKER: Directive = Directive {
    name: "docker",
    places: &[Place::Top],
    properties: &[
        Property::once("socket", Kind::Path, "The engine's socket; Docker's or Podman's own when left out."),
        Property::once(
            "network",
            Kind::Text("the name of a network"),
            "The network whose addresses are used; one that can be reached when left out.",
        ),
        Property::many(
            "labels",
            Kind::Choice(DIALECTS),
            "Whose words are read, and may be given several times; `tidegate` when left out. `traefik` reads `traefik.*` as they are, `nginx-proxy` the variables `VIRTUAL_HOST` and kin.",
        ),
        Property::once(
            "swarm",
            Kind::Switch,
            "Whether services of a swarm are read as well, with the labels under `deploy`; `#false` when left out.",
        ),
        Property::once(
            "exposed-by-default",
            Kind::Switch,
            "Whether labels of Traefik are read of containers without `traefik.enable`, as there; with `#false` only those with `traefik.enable=true` are. `#true` when left out.",
        ),
    ],
    block: Block::Optional(Place::Docker),
    summary: "Containers of Docker or Podman that say by their labels what they serve.",
    details: "With `tidegate.site=shop.example.com` on a container that is all: its only exposed port is asked, and it is served as `site \"shop.example.com\" { proxy; }` would be. `tidegate.route=/api/*` takes a part of a host, `tidegate.port=8080` says which port, \
              `tidegate.scheme=https` speaks TLS with it, `tidegate.pool=web` joins containers of several services, `tidegate.weight` and `tidegate.zone` are those of a `server`. In `tidegate.config` stand lines of a `site`, or of its route, in which a bare `proxy` means this \
              container; without `tidegate.site` it has whole `site` blocks. With a name between, as in `tidegate.admin.site` and `tidegate.admin.port`, a container has several.\n\n\
              Containers of one service of compose are one pool. While none of them can be asked, requests wait for five seconds (`retry \"wait\"`) and then get 503, `containers_not_ready`; so does a container that is starting or unhealthy. \
              One that is told to stop gets no new requests and finishes those that it has.\n\n\
              Labels are written by whoever may start containers. So they have no `{env.X}`, `{file.X}`, `include`, nothing that names a path, a certificate, a server, a listener or another pool, \
              and no host that this file or another project has. Ports are 80, 443 and those that this file listens on. What a label may not say, or says wrongly, takes the whole of that container's site away and nothing else; \
              `tidegate status` and the log name container, label and column. [The page about Docker](docker.md) has the whole story.",
    default: "labels mean nothing",
    example: "docker {\n    allow \"*.example.com\"\n}",
    lower: Lower::Top(lower),
    meant: "for example `docker { allow \"*.example.com\"; }`",
    said_otherwise: &[
        (
            &["host", "endpoint", "path", "url"],
            "the socket of the engine is named by `socket=\"/var/run/docker.sock\"`, without a scheme",
        ),
        (&["exposedByDefault", "exposed_by_default"], "it is `exposed-by-default=#false`"),
        (&["defaultRule", "default-rule"], "a container without a rule is not served: its labels say one"),
    ],
    ..Directive::PLAIN
};

pub static DOCKER_ALLOW: Directive = Directive {
    name: "allow",
    places: &[Place::Docker],
    repeat: Repeat::Many,
    arguments: &[Argument::one_or_more(
        "hosts",
        Kind::Text("a host, as in `\"*.example.com\"`"),
        "Names; `*.example.com` is one label in front of a name, `**.example.com` any number of them.",
    )],
    summary: "Hosts that containers may have certificates of a public authority for.",
    details: "A label that asks for another one is refused. Names that the internal CA signs for, such as `shop.localhost`, and plain HTTP need no permission.",
    default: "none",
    example: "allow \"*.example.com\" \"shop.example.org\"",
    ..Directive::PLAIN
};

pub static ENTRY_POINT: Directive = Directive {
    name: "entry-point",
    places: &[Place::Docker],
    repeat: Repeat::Many,
    arguments: &[
        Argument::one("name", Kind::Text("a name, as in `\"websecure\"`"), "As labels of Traefik call it."),
        Argument::one("port", Kind::Integer { min: 1, max: 65_535 }, "The port that it listens on."),
    ],
    summary: "What labels of Traefik call a port.",
    details: "`web` and `http` are port 80, `websecure` and `https` are 443 unless a line says otherwise.",
    default: "`web` and `websecure`",
    example: "entry-point \"websecure\" 8443",
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    lowering.spans.docker = Some(line.location());
    let socket = line.text(lowering, "socket").map(|text| socket(lowering, &text));
    let network = line.text(lowering, "network").map(|text| text.value);
    let mut dialects: Vec<LabelDialect> = Vec::new();
    for entry in line.properties("labels") {
        let Some(name) = read(lowering, &entry.value, Kind::Choice(DIALECTS), "`labels=`").map(Read::choice) else { continue };
        let known = LabelDialect::NAMES.iter().find(|(known, _)| *known == name).map(|(_, dialect)| *dialect);
        match known {
            Some(dialect) if dialects.contains(&dialect) => {
                let message = format!("`{name}` is named twice");
                lowering.report(Diagnostic::error("duplicate-value", entry.value.location.clone(), message));
            }
            Some(dialect) => dialects.push(dialect),
            None => {}
        }
    }
    if dialects.is_empty() {
        dialects.push(LabelDialect::Tidegate);
    }
    let swarm = line.switch(lowering, "swarm").unwrap_or(false);
    let source = ContainerSource { socket, network, dialects, swarm };
    let exposed_by_default = line.switch(lowering, "exposed-by-default").unwrap_or(true);
    if let (false, Some(at)) = (source.dialects.contains(&LabelDialect::Traefik), line.property("exposed-by-default")) {
        let message = "`exposed-by-default` does nothing here: no labels of Traefik are read";
        let diagnostic = Diagnostic::warning("without-effect", at.location.clone(), message);
        lowering.report(diagnostic.help("write `labels=\"traefik\"` beside it, or remove it"));
    }
    let mut containers = Containers { source, allowed: Vec::new(), entry_points: Vec::new(), exposed_by_default };
    for child in line.lines(lowering) {
        if child.directive.name == DOCKER_ALLOW.name {
            let texts: Vec<Text> = child.read_arguments(lowering).into_iter().map(Read::text).collect();
            containers.allowed.extend(texts.iter().filter_map(|text| host(lowering, text)));
        } else if let (Some(name), Some(port)) =
            (child.read_argument(lowering, 0).map(Read::text), child.read_argument(lowering, 1).map(Read::number))
        {
            containers.entry_points.push(EntryPoint { name: name.value, port: port as u16 });
        }
    }
    lowering.configuration.containers = Some(containers);
}

/// As the variable `DOCKER_HOST` has it, or a bare path.
fn socket(lowering: &mut Lowering<'_>, text: &Text) -> PathBuf {
    let path = text.value.strip_prefix("unix://").unwrap_or(&text.value).to_owned();
    lowering.path(&path, &text.location)
}

fn host(lowering: &mut Lowering<'_>, text: &Text) -> Option<HostPattern> {
    const AS_IN: &str = "for example `allow \"*.example.com\"`";
    match parse_host_pattern(&text.value) {
        Ok(host @ (HostPattern::Exact(_) | HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_))) => Some(host),
        Ok(HostPattern::Any | HostPattern::Ip(_) | HostPattern::Socket(_)) => {
            let message = format!("`{}` is no name that containers can be given", shortened(text.shown()));
            lowering.refuse(text.error("bad-value", message).help(AS_IN))
        }
        Err(reason) => lowering.refuse(text.error("bad-value", reason).help(AS_IN)),
    }
}

pub fn write(line: &mut Writer, containers: &Containers) {
    let Containers { source, allowed, entry_points, exposed_by_default } = containers;
    let ContainerSource { socket, network, dialects, swarm } = source;
    line.name("docker").optional("socket", socket.as_ref().map(|path| path.display())).optional("network", network.as_ref());
    let word = |dialect: &LabelDialect| name_of(LabelDialect::NAMES, dialect);
    match dialects.as_slice() {
        [only] => {
            line.unless(&LabelDialect::Tidegate, "labels", only, word);
        }
        several => several.iter().for_each(|dialect| {
            line.property("labels", word(dialect));
        }),
    }
    line.switch_unless(false, "swarm", *swarm).switch_unless(true, "exposed-by-default", *exposed_by_default);
    if allowed.is_empty() && entry_points.is_empty() {
        return;
    }
    line.lines(|lines| {
        if !allowed.is_empty() {
            lines.line().repeated("allow").arguments(allowed);
        }
        lines.extend(entry_points, |line, EntryPoint { name, port }| {
            line.repeated("entry-point").argument(name).name(port);
        });
    });
}
