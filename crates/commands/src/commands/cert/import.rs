//! `tidegate cert import`: the store of another program is read, and what is worth it is written into ours. Reading and
//! choosing is the crate `cert-import`; here are where stores usually lie, the writing, and the report.

use super::kept::{self, Place, ReadFault};
use super::notes::Notes;
use crate::cli::cert::{From, Import};
use crate::commands::{FAILED, fail, plural};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tidegate_acme::{Subject, stored};
use tidegate_cert_import::{
    AccountKey, Choice, Files, ImportedAccount, ImportedCertificate, ImportedStore, Origin, Program, read, recognise, select,
};
use tidegate_storage::{Lock, Store};
use zeroize::Zeroizing;

/// What became of one name or account.
enum Fate {
    Taken,
    /// The certificate is there already, or something better; which.
    Kept(String),
    Not(String),
}

/// One line of the report for each, and how often which.
#[derive(Default)]
struct Report {
    taken: usize,
    kept: usize,
    not: usize,
}

pub fn run(wanted: &Import) -> ExitCode {
    let (program, path) = match locate(wanted) {
        Ok(located) => located,
        Err(why) => return fail(&why),
    };
    let files = match Files::read(program, &path) {
        Ok(files) => files,
        Err(why) => return fail(&why),
    };
    let found = read(program, &files, wanted.directory.as_deref());
    // Before a storage is made for nothing.
    if found.certificates.is_empty() && found.accounts.is_empty() && found.skipped.is_empty() {
        return fail(&format!("{} has nothing of {program}\n  help: {}", path.display(), what_it_has(program)));
    }
    let place = match Place::of(&wanted.kept) {
        Ok(place) => place,
        Err(why) => return fail(&why),
    };
    let outcome = kept::runtime().and_then(|runtime| runtime.block_on(import(wanted, &place, (program, &path), &found)));
    // Whatever was written before something went wrong has to be readable as well.
    let given = place.give_to_owner();
    match outcome.and_then(|report| given.map(|()| report)) {
        Ok(report) => report.end(wanted.dry_run),
        Err(why) => fail(&why),
    }
}

async fn import(
    wanted: &Import,
    place: &Place,
    (program, path): (Program, &Path),
    found: &ImportedStore,
) -> Result<Report, String> {
    // Looking is no reason to make a storage.
    let store = if wanted.dry_run && !place.exists() { None } else { Some(place.open().await?) };
    let into = store.as_ref().map_or_else(|| "a storage that is not there yet".to_owned(), Store::describe);
    println!("{program} in {}, into {into}\n", path.display());
    let now = Timestamp::now();
    let selected = select(found, Choice { all: wanted.all }, now);
    let mut report = Report::default();
    let mut notes = Notes::new(place.configuration.as_ref());
    for (name, index) in &selected.by_name {
        let certificate = &found.certificates[*index];
        let fate = certificate_into(store.as_ref(), &name.to_string(), certificate, (wanted, now)).await;
        let until = certificate.not_after.strftime("%Y-%m-%d");
        let what = format!("{name}: until {until}, {}, from {}", certificate.key_algorithm, certificate.from);
        report.tell(&what, &fate);
        if matches!(fate, Fate::Taken) {
            notes.look_at(&name.to_string());
        }
    }
    for account in &found.accounts {
        let fate = account_into(store.as_ref(), account, wanted.dry_run).await;
        let email = account.email.as_ref().map(|email| format!(" of {email}")).unwrap_or_default();
        report.tell(&format!("account {}{email} at {}", account.url, account.directory), &fate);
    }
    for skipped in found.skipped.iter().chain(&selected.skipped) {
        report.tell(&skipped.what, &Fate::Not(skipped.why.clone()));
    }
    for line in notes.lines() {
        println!("note         {line}");
    }
    Ok(report)
}

async fn certificate_into(
    store: Option<&Store>,
    name: &str,
    certificate: &ImportedCertificate,
    (wanted, now): (&Import, Timestamp),
) -> Fate {
    let subject = match Subject::parse(name) {
        Ok(subject) => subject,
        Err(why) => return Fate::Not(format!("no site can have this name: {}", why.0)),
    };
    let bundle = kept::bundle(&certificate.chain_pem, &certificate.key_pem);
    let leaf = match bundle.leaf_for(&subject) {
        Ok(leaf) => leaf,
        Err(fault) => return Fate::Not(fault.to_string()),
    };
    let Some(store) = store else { return Fate::Taken };
    if wanted.dry_run {
        return present_instead(store, &subject, &leaf.der, certificate, (wanted, now)).await.unwrap_or(Fate::Taken);
    }
    // Nobody may order for the name between the look at what is there and the writing.
    let lock = match store.try_lock(&stored::order_lock(&subject)).await {
        Ok(Some(lock)) => lock,
        Ok(None) => return Fate::Not("a process orders a certificate for it at this moment; try again in a minute".to_owned()),
        Err(fault) => return Fate::Not(fault.to_string()),
    };
    let fate = match present_instead(store, &subject, &leaf.der, certificate, (wanted, now)).await {
        Some(fate) => fate,
        None => {
            let facts = stored::write(&stored::Facts {
                serial: leaf.serial.clone(),
                directory: certificate.directory.clone(),
                issued_at: certificate.not_before,
                replaces: None,
                advice: None,
                is_revoked: false,
            });
            let entries = [(stored::bundle_key(&subject), bundle.0.as_bytes()), (stored::facts_key(&subject), facts.as_slice())];
            write(store, &lock, &entries).await
        }
    };
    // Whoever waits for it finds it free when this process has ended, at the latest.
    let _ = lock.release().await;
    fate
}

/// What there is that is better than what comes, or that nobody can tell. `None`: what comes is to be written.
async fn present_instead(
    store: &Store,
    subject: &Subject,
    leaf: &[u8],
    certificate: &ImportedCertificate,
    (wanted, now): (&Import, Timestamp),
) -> Option<Fate> {
    let present = match kept::read(store, subject).await {
        Ok(present) => present?,
        // It is worth less than what comes.
        Err(ReadFault::Damaged(_)) => return None,
        Err(ReadFault::Storage(fault)) => return Some(Fate::Not(fault.to_string())),
    };
    let until = present.loaded.facts.not_after;
    if present.loaded.certified_key.cert.first().is_some_and(|present| **present == *leaf) {
        return Some(Fate::Kept("it is there already".to_owned()));
    }
    if wanted.replace || present.is_revoked {
        return None;
    }
    if until >= certificate.not_after {
        return Some(Fate::Kept(format!("there is one that lasts until {}", until.strftime("%Y-%m-%d"))));
    }
    // With --all, one of a test environment may last longer than one that clients trust.
    let is_worse = until > now && certificate.origin != Origin::Public;
    is_worse.then(|| Fate::Kept("there is one that is valid, and clients may not trust this one; --replace takes it".to_owned()))
}

async fn account_into(store: Option<&Store>, account: &ImportedAccount, is_dry: bool) -> Fate {
    let AccountKey::EcdsaP256(der) = &account.key else {
        return Fate::Not(account.key.obstacle().unwrap_or_default());
    };
    let Some(store) = store else { return Fate::Taken };
    let place = stored::account_key(&account.directory, account.email.as_deref());
    if is_dry {
        return present_account(store, &place, account).await.unwrap_or(Fate::Taken);
    }
    // A process that makes one at this moment would find it replaced, and the CA would know two.
    let lock = match store.try_lock(&stored::account_lock(&account.directory)).await {
        Ok(Some(lock)) => lock,
        Ok(None) => return Fate::Not("a process makes an account there at this moment; try again in a minute".to_owned()),
        Err(fault) => return Fate::Not(fault.to_string()),
    };
    let fate = match present_account(store, &place, account).await {
        Some(fate) => fate,
        None => {
            let value = stored::write(&stored::Account {
                directory: account.directory.clone(),
                url: account.url.clone(),
                key: Zeroizing::new(STANDARD.encode(der)),
                email: account.email.clone(),
                external_key_id: None,
            });
            write(store, &lock, &[(place, value.as_slice())]).await
        }
    };
    let _ = lock.release().await;
    fate
}

/// What there is instead of an account that comes, or that nobody can tell.
async fn present_account(store: &Store, place: &str, account: &ImportedAccount) -> Option<Fate> {
    let bytes = match store.read(place).await {
        Ok(bytes) => Zeroizing::new(bytes?),
        Err(fault) => return Some(Fate::Not(fault.to_string())),
    };
    Some(match stored::parse::<stored::Account>(&bytes).map(|present| present.url) {
        Some(url) if url == account.url => Fate::Kept("it is there already".to_owned()),
        Some(url) => Fate::Kept(format!("{url} is there and in use")),
        None => Fate::Not(format!("what is in {place} cannot be read; remove it first")),
    })
}

async fn write(store: &Store, lock: &Lock, entries: &[(String, &[u8])]) -> Fate {
    for (key, value) in entries {
        if !lock.is_held() {
            return Fate::Not("the storage took too long, and others may write by now; try again".to_owned());
        }
        if let Err(fault) = store.write(key, value).await {
            return Fate::Not(fault.to_string());
        }
    }
    Fate::Taken
}

/// Whose store it is and where, from the little that was said.
fn locate(wanted: &Import) -> Result<(Program, PathBuf), String> {
    let given = wanted.from.map(|from| match from {
        From::Certbot => Program::Certbot,
        From::Caddy => Program::Caddy,
        From::Traefik => Program::Traefik,
    });
    if let Some(path) = &wanted.path {
        // Caddy's service has its data below its home folder.
        let below = path.join(".local/share/caddy");
        let path = if recognise(path).is_none() && below.is_dir() { below } else { path.clone() };
        let program = given.or_else(|| recognise(&path)).ok_or_else(|| {
            format!("{} is not a store of certbot, Caddy or Traefik\n  help: say whose it is with --from", path.display())
        })?;
        return Ok((program, path));
    }
    let program = given.ok_or("name the folder of the other program, or the program with --from")?;
    let usual = usual_places(program);
    usual.iter().find(|place| recognise(place) == Some(program)).map(|place| (program, place.clone())).ok_or_else(|| {
        let places = usual.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ");
        format!("{program} has no store in {places}\n  help: name its path")
    })
}

/// By what its store is known.
fn what_it_has(program: Program) -> &'static str {
    match program {
        Program::Certbot => "name the folder with `live`, `archive` and `renewal` in it, as /etc/letsencrypt",
        Program::Caddy => "name the folder with `certificates` and `acme` in it, as ~/.local/share/caddy",
        Program::Traefik => "name its `acme.json`",
    }
}

fn usual_places(program: Program) -> Vec<PathBuf> {
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match program {
        Program::Certbot => vec!["/etc/letsencrypt".into()],
        Program::Caddy => {
            let own = data.or_else(|| home.map(|home| home.join(".local/share"))).map(|data| data.join("caddy"));
            own.into_iter().chain(["/var/lib/caddy/.local/share/caddy".into(), "/var/lib/caddy".into()]).collect()
        }
        Program::Traefik => {
            ["/etc/traefik/acme.json", "/var/lib/traefik/acme.json", "/letsencrypt/acme.json"].map(PathBuf::from).to_vec()
        }
    }
}

impl Report {
    fn tell(&mut self, what: &str, fate: &Fate) {
        match fate {
            Fate::Taken => {
                self.taken += 1;
                println!("taken        {what}");
            }
            Fate::Kept(why) => {
                self.kept += 1;
                println!("kept         {what}: {why}");
            }
            Fate::Not(why) => {
                self.not += 1;
                println!("skipped      {what}: {why}");
            }
        }
    }

    fn end(&self, is_dry: bool) -> ExitCode {
        let conditional = if is_dry { "would be " } else { "" };
        println!(
            "\n{} {conditional}taken over, {} there already, {} thing{} skipped",
            self.taken,
            self.kept,
            self.not,
            plural(self.not)
        );
        if self.taken + self.kept > 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
    }
}
