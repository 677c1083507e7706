//! Accounts at CAs: made when first needed, shared by all processes of a storage, made anew when the CA has forgotten
//! them. An account is for one directory and one address of mail; a changed address takes the account over, if nobody
//! else uses it.

use crate::cause::{Blame, Cause, Context};
use crate::contact::Conversation;
use crate::nonce::repeat;
use crate::shared::{Shared, storage_cause};
use crate::stored::{self, Account};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
use instant_acme::{ExternalAccountKey, NewAccount};
use rustls_pki_types::PrivatePkcs8KeyDer;
use std::time::Duration;
use tidegate_model::{AcmeAuthority, AcmeExternalAccount};
use zeroize::Zeroizing;

/// Making an account is three requests; whoever waits for another process doing so waits no longer than this.
const LOCK_TRIES_MAX: u32 = 60;
const LOCK_TRY_EVERY: Duration = Duration::from_secs(1);

/// An account, ready to order with, and what storage has of it.
pub struct Ready {
    pub account: instant_acme::Account,
    pub stored: Account,
}

/// The account for this CA and address, made if there is none.
pub async fn account(
    shared: &Shared,
    authority: &AcmeAuthority,
    email: Option<&str>,
    conversation: &Conversation,
) -> Result<Ready, Cause> {
    let key = stored::account_key(&conversation.url, email);
    if let Some(known) = find(shared, &key, authority).await? {
        return open(known, conversation).await;
    }
    // One is made at a time within this process; others are kept out by the lock in storage.
    let _alone = shared.accounts_alone.lock().await;
    let lock = take_lock(shared, &conversation.url).await?;
    let outcome = match find(shared, &key, authority).await {
        Ok(Some(known)) => Ok(known),
        Ok(None) => make_or_take_over(shared, authority, email, conversation, &key).await,
        Err(cause) => Err(cause),
    };
    let _ = lock.release().await;
    open(outcome?, conversation).await
}

/// The CA has forgotten it; the next attempt makes another.
pub async fn forget(shared: &Shared, conversation: &Conversation, email: Option<&str>) -> Result<(), Cause> {
    let key = stored::account_key(&conversation.url, email);
    shared.store.remove(&key).await.map_err(|fault| storage_cause(&fault))
}

/// The address of the account, if there is one already.
pub async fn known_url(shared: &Shared, authority: &AcmeAuthority, email: Option<&str>) -> Option<String> {
    let key = stored::account_key(&authority.directory, email);
    find(shared, &key, authority).await.ok().flatten().map(|known| known.url)
}

async fn find(shared: &Shared, key: &str, authority: &AcmeAuthority) -> Result<Option<Account>, Cause> {
    let bytes = shared.store.read(key).await.map_err(|fault| storage_cause(&fault))?;
    let known = bytes.map(Zeroizing::new).and_then(|bytes| stored::parse::<Account>(&bytes));
    // Another external account is another customer of the CA.
    let wanted = authority.external_account.as_ref().map(|external| external.key_id.as_str());
    Ok(known.filter(|known| wanted.is_none() || known.external_key_id.as_deref() == wanted))
}

async fn open(stored: Account, conversation: &Conversation) -> Result<Ready, Cause> {
    let damaged = || {
        Cause::new(
            Blame::Storage,
            format!("the key of the account at {} is damaged in storage", conversation.authority),
            "restore it from a backup, or remove it below acme/accounts to have a new account made",
        )
    };
    let der = Zeroizing::new(BASE64_STANDARD.decode(stored.key.as_bytes()).map_err(|_| damaged())?);
    let key = PrivatePkcs8KeyDer::from(der.as_slice());
    let builder = instant_acme::Account::builder_with_http(conversation.http());
    let account = builder.from_parts(stored.url.clone(), key, conversation.url.to_string()).await.map_err(|_| damaged())?;
    Ok(Ready { account, stored })
}

async fn take_lock(shared: &Shared, directory: &str) -> Result<tidegate_storage::Lock, Cause> {
    let name = stored::account_lock(directory);
    for _ in 0..LOCK_TRIES_MAX {
        match shared.store.try_lock(&name).await {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) => tokio::time::sleep(LOCK_TRY_EVERY).await,
            Err(fault) => return Err(storage_cause(&fault)),
        }
    }
    Err(Cause::new(
        Blame::Storage,
        "another process has been making an account for a minute and does not come to an end",
        "look at the other processes that share this storage",
    ))
}

async fn make_or_take_over(
    shared: &Shared,
    authority: &AcmeAuthority,
    email: Option<&str>,
    conversation: &Conversation,
    key: &str,
) -> Result<Account, Cause> {
    if let Some((old_key, mut account)) = unused_account(shared, authority, conversation).await? {
        let ready = open(account.clone(), conversation).await?;
        let contact = email.map(|email| format!("mailto:{email}"));
        let contacts: Vec<&str> = contact.as_deref().into_iter().collect();
        // An account that cannot be changed is left where it is, and a new one is made.
        if repeat(async || ready.account.update_contacts(&contacts).await).await.is_ok() {
            account.email = email.map(str::to_owned);
            shared.store.write(key, &stored::write(&account)).await.map_err(|fault| storage_cause(&fault))?;
            shared.store.remove(&old_key).await.map_err(|fault| storage_cause(&fault))?;
            return Ok(account);
        }
    }
    let account = make(authority, email, conversation).await?;
    shared.store.write(key, &stored::write(&account)).await.map_err(|fault| storage_cause(&fault))?;
    Ok(account)
}

/// The only account at this CA, if no name that is wanted uses it: its address was changed in the configuration.
async fn unused_account(
    shared: &Shared,
    authority: &AcmeAuthority,
    conversation: &Conversation,
) -> Result<Option<(String, Account)>, Cause> {
    let prefix = stored::accounts_prefix(&conversation.url);
    let keys = shared.store.list(&prefix).await.map_err(|fault| storage_cause(&fault))?;
    let [key] = keys.as_slice() else { return Ok(None) };
    let Some(account) = find(shared, key, authority).await? else { return Ok(None) };
    Ok((!shared.is_email_in_use(account.email.as_deref())).then(|| (key.clone(), account)))
}

async fn make(authority: &AcmeAuthority, email: Option<&str>, conversation: &Conversation) -> Result<Account, Cause> {
    let name = &authority.name;
    let external = authority.external_account.as_ref().map(|external| external_key(name, external)).transpose()?;
    if conversation.directory.meta.external_account_required && external.is_none() {
        return Err(Cause::new(
            Blame::Unfit,
            format!("{name} makes accounts only for customers that it knows (external account binding)"),
            "give `eab` with the key id and the HMAC key from the CA's site",
        ));
    }
    let contact = email.map(|email| format!("mailto:{email}"));
    let contacts: Vec<&str> = contact.as_deref().into_iter().collect();
    let wanted = NewAccount { contact: &contacts, terms_of_service_agreed: true, only_return_existing: false };
    let made = repeat(async || {
        let builder = instant_acme::Account::builder_with_http(conversation.http());
        builder.create(&wanted, conversation.url.to_string(), external.as_ref()).await
    });
    let made = made.await;
    let context = Context { name: "the account", authority: name, challenge: None, retry_after: None };
    let (account, credentials) = made.map_err(|error| match (&external, conversation.cause(&error, context)) {
        // What CAs say to a wrong HMAC key is as good as nothing.
        (Some(_), cause) if cause.blame == Blame::Setup => {
            Cause::new(Blame::Setup, cause.text, "check key id and HMAC key of `eab`; many CAs let each be used once only")
        }
        (_, cause) => cause,
    })?;
    Ok(Account {
        directory: conversation.url.to_string(),
        url: account.id().to_owned(),
        key: Zeroizing::new(BASE64_STANDARD.encode(credentials.private_key().secret_pkcs8_der())),
        email: email.map(str::to_owned),
        external_key_id: authority.external_account.as_ref().map(|external| external.key_id.clone()),
    })
}

fn external_key(authority: &str, external: &AcmeExternalAccount) -> Result<ExternalAccountKey, Cause> {
    let text = external.hmac_key.reveal().trim();
    let decoded = BASE64_URL_SAFE_NO_PAD
        .decode(text)
        .or_else(|_| BASE64_URL_SAFE.decode(text))
        .or_else(|_| BASE64_STANDARD.decode(text))
        .map(Zeroizing::new);
    match decoded {
        Ok(key) => Ok(ExternalAccountKey::new(external.key_id.clone(), &key)),
        Err(_) => Err(Cause::new(
            Blame::Preflight,
            format!("the HMAC key of `eab` for {authority} is not base64url"),
            "copy it whole from the CA's site, without spaces",
        )),
    }
}
