//! One refresh for all who bring a session, and bounds on all who wait.

use super::{Errand, ErrandsBusy, FAILED_KEPT, OidcShared, REFRESHED_KEPT, RefreshOutcome, Refreshing, WAITING_MAX};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tidegate_access::oidc::Session;
use tidegate_middleware::CompiledOidc;
use tidegate_model::{Oidc, OidcProvider};

fn oidc() -> CompiledOidc {
    let provider = OidcProvider {
        name: String::new(),
        issuer: "https://idp.example.com".into(),
        client: "me".into(),
        ca: None,
        secret: None,
        scopes: vec!["openid".into()],
        parameters: Vec::new(),
    };
    CompiledOidc::new(&Oidc {
        provider,
        others: Vec::new(),
        session: Duration::from_hours(8),
        domain: None,
        callback: Oidc::CALLBACK.into(),
        logout: Oidc::LOGOUT.into(),
        after_logout: "/".into(),
        user: "sub".into(),
        requirements: Vec::new(),
        headers: Vec::new(),
        access_token: None,
        id_token: None,
        asks_user_info: false,
        is_optional: false,
        leeway: Duration::ZERO,
    })
}

/// As it lies in a cookie: nothing but a refresh token.
fn session(refresh_token: &str) -> Session {
    let mut bytes = vec![2];
    bytes.extend_from_slice(&[7; 16]);
    bytes.extend_from_slice(&[0; 24]);
    for part in ["", "{}", "", "", refresh_token, ""] {
        bytes.extend_from_slice(&(part.len() as u32).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    Session::read(&bytes).expect("a session")
}

fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_session_is_refreshed_once_for_all_who_bring_it() {
    let (shared, now) = (OidcShared::default(), Instant::now());
    let provider = shared.provider(&oidc(), now);
    assert!(Arc::ptr_eq(&provider, &shared.provider(&oidc(), now)));
    let first = session("r1");
    let mut waiting = Vec::new();
    for _ in 0..WAITING_MAX {
        match shared.refresh(&provider, &first, now) {
            Ok(Refreshing::Waits(awaited)) => waiting.push(awaited),
            Ok(Refreshing::Known(_)) | Err(_) => panic!("it is on its way"),
        }
    }
    assert!(matches!(shared.refresh(&provider, &first, now), Err(ErrandsBusy)), "more than a browser has tabs");
    assert!(matches!(shared.next_errand(), Some(Errand::Refresh { .. })));
    assert!(shared.next_errand().is_none());
    let renewed = RefreshOutcome::Renewed(Arc::new(session("r2")));
    shared.refreshed(first.generation(), &renewed, now);
    for awaited in waiting {
        assert!(matches!(poll(awaited), Poll::Ready(Some(RefreshOutcome::Renewed(_)))));
    }
    let late = now + REFRESHED_KEPT / 2;
    assert!(matches!(shared.refresh(&provider, &first, late), Ok(Refreshing::Known(RefreshOutcome::Renewed(_)))));
    assert!(matches!(shared.refresh(&provider, &session("r2"), late), Ok(Refreshing::Waits(_))), "another state of it");
    assert!(matches!(shared.refresh(&provider, &first, now + REFRESHED_KEPT), Ok(Refreshing::Waits(_))));
}

#[test]
fn a_refresh_that_failed_is_not_tried_for_each_request() {
    let (shared, now) = (OidcShared::default(), Instant::now());
    let provider = shared.provider(&oidc(), now);
    let first = session("r1");
    assert!(matches!(shared.refresh(&provider, &first, now), Ok(Refreshing::Waits(_))));
    shared.refreshed(first.generation(), &RefreshOutcome::Away, now);
    let (until, just_before) = (now + FAILED_KEPT, now + FAILED_KEPT.mul_f64(0.999));
    assert!(matches!(shared.refresh(&provider, &first, just_before), Ok(Refreshing::Known(RefreshOutcome::Away))));
    assert!(matches!(shared.refresh(&provider, &first, until), Ok(Refreshing::Waits(_))));
}

#[test]
fn what_is_missing_is_waited_for_and_a_failure_ends_the_wait() {
    let (shared, now) = (Arc::new(OidcShared::default()), Instant::now());
    let provider = shared.provider(&oidc(), now);
    assert_eq!(poll(shared.ready(None)), Poll::Pending);
    let keys = Arc::new(tidegate_access::oidc::SessionKeys::first([1; 32]));
    shared.set_state(super::SessionState { keys, revoked: Arc::default() });
    assert_eq!(poll(shared.ready(None)), Poll::Ready(()));
    assert_eq!(poll(shared.ready(Some(provider.clone()))), Poll::Pending);
    assert!(provider.begin(now));
    assert_eq!(poll(shared.ready(Some(provider.clone()))), Poll::Pending);
    shared.note_failure(&provider, now);
    assert_eq!(poll(shared.ready(Some(provider))), Poll::Ready(()), "nobody waits for the next attempt");
}
