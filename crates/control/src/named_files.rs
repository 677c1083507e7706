//! Files that a configuration names and that are read again while it runs: users, certificates, keys and authorities.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_model::{
    ApiKeyAuth, ApiKeySource, AuthUsers, BasicAuth, Certificate, ClientAuth, Configuration, Jwt, KeySource, Oidc, Pem, Site,
    Step, TlsSource,
};

/// Every file that users, keys of programs, or keys of tokens are read from.
pub(crate) fn user_files(configuration: &Configuration) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        auths(configuration.sites.iter()).filter_map(|(_, auth)| file_of(&auth.users)).map(Path::to_owned).collect();
    files.extend(key_sources(configuration.sites.iter()).filter_map(|(_, keys)| key_file_of(keys)).map(Path::to_owned));
    files.extend(api_keys(configuration.sites.iter()).filter_map(|(_, auth)| api_key_file_of(&auth.keys)).map(Path::to_owned));
    files.sort();
    files.dedup();
    files
}

/// Every `api-key`, with the site it stands in.
pub(crate) fn api_keys<'a>(sites: impl Iterator<Item = &'a Arc<Site>>) -> impl Iterator<Item = (&'a Arc<Site>, &'a ApiKeyAuth)> {
    sites.flat_map(|site| {
        let parts = site.all_steps().flat_map(Step::parts);
        parts.filter_map(move |step| if let Step::ApiKey(Some(auth)) = step { Some((site, &**auth)) } else { None })
    })
}

pub(crate) fn api_key_file_of(keys: &ApiKeySource) -> Option<&Path> {
    match keys {
        ApiKeySource::File(path) => Some(path),
        ApiKeySource::Listed(_) => None,
    }
}

/// Every `basic-auth`, with the site it stands in.
pub(crate) fn auths<'a>(sites: impl Iterator<Item = &'a Arc<Site>>) -> impl Iterator<Item = (&'a Arc<Site>, &'a BasicAuth)> {
    sites.flat_map(|site| {
        let parts = site.all_steps().flat_map(Step::parts);
        parts.filter_map(move |step| if let Step::BasicAuth(Some(auth)) = step { Some((site, auth)) } else { None })
    })
}

/// Where keys of tokens are had, with the site whose `jwt` says so.
pub(crate) fn key_sources<'a>(
    sites: impl Iterator<Item = &'a Arc<Site>>,
) -> impl Iterator<Item = (&'a Arc<Site>, &'a KeySource)> {
    sites.flat_map(|site| {
        let jwts = site
            .all_steps()
            .flat_map(Step::parts)
            .filter_map(|step| if let Step::Jwt(jwt) = step { jwt.as_deref() } else { None });
        jwts.flat_map(|jwt: &Jwt| &jwt.issuers).map(move |issuer| (site, &issuer.keys))
    })
}

/// Files of authorities that providers of log-ins are verified against, with the site.
pub(crate) fn provider_authorities<'a>(
    sites: impl Iterator<Item = &'a Arc<Site>>,
) -> impl Iterator<Item = (&'a Arc<Site>, &'a PathBuf)> {
    sites.flat_map(|site| {
        let log_ins = site
            .all_steps()
            .flat_map(Step::parts)
            .filter_map(|step| if let Step::Oidc(oidc) = step { oidc.as_deref() } else { None });
        log_ins.flat_map(Oidc::providers).filter_map(move |provider| Some((site, provider.ca.as_ref()?)))
    })
}

pub(crate) fn key_file_of(keys: &KeySource) -> Option<&Path> {
    match keys {
        KeySource::File(path) => Some(path),
        KeySource::Url { .. } => None,
    }
}

pub(crate) fn file_of(users: &AuthUsers) -> Option<&Path> {
    match users {
        AuthUsers::File(path) => Some(path),
        AuthUsers::Listed(_) => None,
    }
}

/// Every file that a certificate, a key of any kind or trusted roots are read from.
pub(crate) fn certificate_files(configuration: &Configuration) -> Vec<PathBuf> {
    let mut files = certificate_files_of(configuration);
    for certificate in &configuration.certificates {
        files.extend(files_of(certificate));
    }
    files.extend(configuration.ticket_keys.files().iter().cloned());
    files.sort();
    files.dedup();
    files
}

/// Certificate files that sites and pools name, as often as they do.
pub(crate) fn certificate_files_of(configuration: &Configuration) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for site in &configuration.sites {
        if let Some(ClientAuth { ca, crls, .. }) = &site.tls.client_auth {
            files.extend(ca.iter().chain(crls).filter_map(Pem::file).map(Path::to_owned));
        }
        if let TlsSource::Files(certificates) = &site.tls.source {
            files.extend(certificates.iter().flat_map(files_of));
        }
    }
    for pool in &configuration.pools {
        let pair = pool.tls.client_certificate.iter().flat_map(|(cert, key)| [cert, key]);
        files.extend(pool.tls.ca.iter().chain(pair).filter_map(Pem::file).map(Path::to_owned));
    }
    files
}

/// The files of a certificate, as far as it is not in the configuration itself.
fn files_of(certificate: &Certificate) -> impl Iterator<Item = PathBuf> {
    std::iter::once(&certificate.cert).chain(&certificate.key).filter_map(Pem::file).map(Path::to_owned)
}
