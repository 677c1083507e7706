//! `send-file`: the file that an application has named is sent in place of its answer. Which one it means is decided in
//! `middleware::send_file`, what of it the client gets in the crate `files`.

use crate::answering::answer_refusal;
use crate::coded::choose_coding;
use crate::failure::Failure;
use crate::files::{SendFolder, refuse_file, send_opened, with_ask};
use crate::surroundings::Surroundings;
use tidegate_exchange::Exchange;
use tidegate_files::{Answer, Ask, Headers, Method as FileMethod, Refused};
use tidegate_middleware::Refusal;
use tidegate_middleware::errors::begin_answer;
use tidegate_middleware::send_file::{NamedFile, leave_body_out};
use tidegate_telemetry::EventGate;
use tidegate_transport::{Sock, rt};
use tidegate_wire::head::{Fields, Method};

/// Files outside of every folder that applications have named, which a process logs per second.
static OUTSIDE: EventGate = EventGate::new(5);

/// Sends the file that the upstream's answer, which is the response's head so far, has named.
pub(crate) async fn send_named<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    folders: &[SendFolder],
    named: &NamedFile,
) -> Result<(), Failure> {
    let media_type = leave_body_out(&mut exchange.response.fields);
    let kept = std::mem::take(&mut exchange.response.fields);
    match find_named(exchange, folders, named, media_type.as_ref()) {
        Some(Answer::File(file)) => {
            begin(exchange, file.status, &file.headers, &kept);
            send_opened(exchange, around, file).await
        }
        Some(Answer::NotModified { headers }) => {
            begin(exchange, 304, &headers, &kept);
            around.run_response_steps(exchange);
            choose_coding(exchange, around, None);
            around.send_whole(exchange, b"").await
        }
        Some(Answer::Refused(refused)) => refuse_file(exchange, around, refused).await,
        // What is named is a file and no folder.
        Some(Answer::Page(_) | Answer::Folder(_) | Answer::Redirect { .. }) => {
            refuse_file(exchange, around, Refused::NotFound).await
        }
        None => {
            if let Some(suppressed) = OUTSIDE.allow(rt::now()) {
                let path = named.said().escape_ascii().to_string();
                tracing::warn!(path, suppressed, "an application has named a file that is in no folder of `send-file`");
            }
            answer_refusal(exchange, around, Refusal::SendFileOutside).await
        }
    }
}

/// `None`: no folder has the path.
fn find_named<S: Sock>(
    exchange: &Exchange<'_, S>,
    folders: &[SendFolder],
    named: &NamedFile,
    media_type: Option<&String>,
) -> Option<Answer> {
    let mut missing = None;
    for path in named.paths() {
        let found = folders.iter().find_map(|folder| Some((folder, folder.below(named, &path)?)));
        let Some((folder, below)) = found else { continue };
        let send = |ask: &Ask<'_>| folder.send(below, media_type.cloned(), ask, exchange.record.started);
        let answer = match exchange.head.method {
            Method::Get | Method::Head => with_ask(exchange, below, send),
            // Ranges and conditions are the application's business there: it has done what was asked.
            _ => send(&Ask::new(FileMethod::Get, below)),
        };
        match answer {
            Answer::Refused(Refused::NotFound) => missing = Some(answer),
            Answer::Refused(Refused::BadPath) => {}
            answer => return Some(answer),
        }
    }
    missing
}

/// Fields of the file, and behind them those that stay of the application's answer.
fn begin<S: Sock>(exchange: &mut Exchange<'_, S>, status: u16, headers: &Headers, kept: &Fields) {
    begin_answer(status, &mut exchange.response);
    for (name, value) in headers {
        if kept.all_named(name.as_bytes()).next().is_none() {
            exchange.response.fields.push(name.as_bytes(), value.as_bytes());
        }
    }
    for (name, value) in kept.iter() {
        exchange.response.fields.push(name, value);
    }
    exchange.record.status = status;
}
