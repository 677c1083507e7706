//! What an entry of the table of addresses is: a path, what is asked there, and what is said of both. The table is in
//! `routes`; the router and the OpenAPI document are made from it.

use axum::routing::MethodRouter;
use serde_json::Value;
use std::borrow::Cow;
use tidegate_api::schema::Components;
use tidegate_control::ControlHandle;

/// An address and what is said of it.
pub struct Endpoint {
    pub verb: Verb,
    pub path: &'static str,
    /// The endpoint's name in the document.
    pub id: Cow<'static, str>,
    pub summary: &'static str,
    pub query: &'static [Parameter],
    pub body: Option<Describe>,
    /// Otherwise an absent body is `{}`.
    pub needs_body: bool,
    pub answer: Describe,
    /// Answers carry the generation as `ETag`.
    pub is_tagged: bool,
    /// Errors beside those that every address has.
    pub refusals: &'static [u16],
    pub handler: fn() -> MethodRouter<ControlHandle>,
}

pub type Describe = fn(&mut Components) -> Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    /// Changes something, or asks something that takes a body.
    Post,
    Put,
    Patch,
    Delete,
}

pub struct Parameter {
    pub name: &'static str,
    pub about: &'static str,
    pub schema: Describe,
}

impl Endpoint {
    pub fn reading(
        path: &'static str,
        id: &'static str,
        answer: Describe,
        handler: fn() -> MethodRouter<ControlHandle>,
    ) -> Endpoint {
        Endpoint {
            verb: Verb::Get,
            path,
            id: id.into(),
            summary: "",
            query: &[],
            body: None,
            needs_body: false,
            answer,
            is_tagged: false,
            refusals: &[],
            handler,
        }
    }

    pub fn changing(
        path: &'static str,
        id: &'static str,
        body: Describe,
        answer: Describe,
        handler: fn() -> MethodRouter<ControlHandle>,
    ) -> Endpoint {
        Endpoint {
            verb: Verb::Post,
            body: Some(body),
            is_tagged: true,
            refusals: &[404, 409, 412],
            ..Endpoint::reading(path, id, answer, handler)
        }
    }

    pub fn called(self, id: String) -> Endpoint {
        Endpoint { id: id.into(), ..self }
    }

    pub fn about(self, summary: &'static str) -> Endpoint {
        Endpoint { summary, ..self }
    }

    pub fn tagged(self) -> Endpoint {
        Endpoint { is_tagged: true, ..self }
    }

    pub fn untagged(self) -> Endpoint {
        Endpoint { is_tagged: false, ..self }
    }

    pub fn refusing(self, refusals: &'static [u16]) -> Endpoint {
        Endpoint { refusals, ..self }
    }

    pub fn asking(self, query: &'static [Parameter]) -> Endpoint {
        Endpoint { query, ..self }
    }

    /// Honours `If-Match`.
    pub fn is_conditional(&self) -> bool {
        self.refusals.contains(&412)
    }
}
