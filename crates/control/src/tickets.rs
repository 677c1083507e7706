//! Keys of session tickets as the configuration wants them: own ones that rotate, files that hosts share and that are
//! read again when they change, or a storage, which `shared_tickets` asks. What a key is, and what it does, is in
//! `certs::tickets`.

use crate::fault::StartFault;
use crate::material::Material;
use tidegate_certs::{CertError, FileKeys, TicketSource, TlsProcessState};
use tidegate_model::{Configuration, TicketKeySource};

/// What a configuration wants, with its files read; those of the one before where they are the same files.
pub(crate) fn gather_ticket_keys(configuration: &Configuration, before: Option<&Material>) -> Result<TicketSource, StartFault> {
    if let Some(before) = before.filter(|before| before.configuration.ticket_keys == configuration.ticket_keys) {
        return Ok(before.ticket_keys.clone());
    }
    match &configuration.ticket_keys {
        TicketKeySource::Own => Ok(TicketSource::Own),
        TicketKeySource::Shared => Ok(TicketSource::Shared),
        TicketKeySource::Files(files) => {
            FileKeys::load(files).map(TicketSource::Files).map_err(|errors| StartFault::TicketKeys { errors })
        }
    }
}

/// From here on tickets are made as `material` says.
pub(crate) fn follow_ticket_keys(tls: &TlsProcessState, material: &Material) {
    if let Err(error) = tls.tickets.follow(&material.ticket_keys) {
        tracing::error!(error = error.message(), "session tickets are made with the keys before");
    }
}

/// Reads files of ticket keys again, and lets keys of our own rotate. Gives what cannot be used: the keys before stay
/// then.
pub(crate) fn renew_ticket_keys(tls: &TlsProcessState, running: &mut Material) -> Vec<CertError> {
    match &running.configuration.ticket_keys {
        TicketKeySource::Own | TicketKeySource::Shared => {
            tls.tickets.rotate_if_due();
            Vec::new()
        }
        TicketKeySource::Files(files) => match FileKeys::load(files) {
            Ok(keys) => {
                running.ticket_keys = TicketSource::Files(keys);
                follow_ticket_keys(tls, running);
                Vec::new()
            }
            Err(errors) => errors,
        },
    }
}
