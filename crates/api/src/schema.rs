//! JSON Schema of what the API takes and gives. The macros make a type and its description from one text, so that
//! neither can have a member that the other lacks. The document that they end up in is made by `openapi`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// Schemas by the names of their types.
pub type Components = Map<String, Value>;

pub trait Described {
    /// May be absent, or `null`.
    const OPTIONAL: bool = false;

    /// The schema of a value; types with a name are put into `known` and referred to.
    fn schema(known: &mut Components) -> Value;
}

/// A word of a set that other crates know, such as a scheme; clients see a string.
pub type Word = Cow<'static, str>;

macro_rules! described_as {
    ($($kind:ty: $schema:tt;)*) => { $(
        impl Described for $kind {
            fn schema(_: &mut Components) -> Value {
                json!($schema)
            }
        }
    )* };
}

described_as! {
    String: { "type": "string" };
    Box<str>: { "type": "string" };
    Word: { "type": "string" };
    Timestamp: { "type": "string" };
    SocketAddr: { "type": "string" };
    IpAddr: { "type": "string" };
    bool: { "type": "boolean" };
    f64: { "type": "number" };
    u16: { "type": "integer", "minimum": 0 };
    u32: { "type": "integer", "minimum": 0 };
    u64: { "type": "integer", "minimum": 0 };
    usize: { "type": "integer", "minimum": 0 };
    i64: { "type": "integer" };
}

impl<T: Described> Described for Option<T> {
    const OPTIONAL: bool = true;

    fn schema(known: &mut Components) -> Value {
        json!({ "anyOf": [T::schema(known), { "type": "null" }] })
    }
}

impl<T: Described> Described for Vec<T> {
    fn schema(known: &mut Components) -> Value {
        json!({ "type": "array", "items": T::schema(known) })
    }
}

/// The schema of a type, as a function.
pub fn of<T: Described>(known: &mut Components) -> Value {
    T::schema(known)
}

pub struct Member {
    pub name: &'static str,
    pub about: &'static str,
    pub schema: Value,
    pub is_optional: bool,
}

pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The schema of an object; `is_closed` when members that are not in it are errors.
pub fn object_schema(about: &str, is_closed: bool, members: Vec<Member>) -> Value {
    let required: Vec<&str> = members.iter().filter(|member| !member.is_optional).map(|member| member.name).collect();
    let mut schema = json!({ "type": "object", "description": about.trim(), "required": required });
    if is_closed {
        schema["additionalProperties"] = Value::Bool(false);
    }
    let mut properties = Map::new();
    for member in members {
        let mut described = member.schema;
        if !member.about.trim().is_empty() {
            described["description"] = Value::String(member.about.trim().to_owned());
        }
        properties.insert(member.name.to_owned(), described);
    }
    schema["properties"] = Value::Object(properties);
    schema
}

/// A struct with serde's derives and its schema.
#[macro_export]
macro_rules! objects {
    ($(
        $(#[doc = $about:literal])*
        $(#[serde($($container:tt)*)])?
        pub struct $name:ident {
            $( $(#[doc = $doc:literal])* pub $field:ident: $kind:ty, )*
        }
    )+) => { $(
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        $(#[serde($($container)*)])?
        pub struct $name {
            $( $(#[doc = $doc])* pub $field: $kind, )*
        }

        impl $crate::schema::Described for $name {
            fn schema(known: &mut $crate::schema::Components) -> serde_json::Value {
                use $crate::schema;
                const NAME: &str = stringify!($name);
                if !known.contains_key(NAME) {
                    // A type may contain itself: its name is known before its members are looked at.
                    known.insert(NAME.to_owned(), serde_json::Value::Null);
                    let members = vec![ $( schema::Member {
                        name: stringify!($field).trim_start_matches("r#"),
                        about: concat!("", $($doc),*),
                        schema: <$kind as schema::Described>::schema(known),
                        is_optional: <$kind as schema::Described>::OPTIONAL,
                    }, )* ];
                    let is_closed = concat!("", $(stringify!($($container)*))?).contains("deny_unknown_fields");
                    known.insert(NAME.to_owned(), schema::object_schema(concat!("", $($about),*), is_closed, members));
                }
                schema::reference(NAME)
            }
        }
    )+ };
}

/// A closed set of words. The schema of an `enum` lists them; that of a `text` is any string, so that a later version
/// may have more.
#[macro_export]
macro_rules! words {
    ($(#[doc = $about:literal])* pub enum $name:ident { $($variants:tt)* }) => {
        $crate::words! { @type $(#[doc = $about])* $name { $($variants)* } }

        impl $crate::schema::Described for $name {
            fn schema(known: &mut $crate::schema::Components) -> serde_json::Value {
                let words: Vec<&str> = $name::ALL.iter().map(|word| word.as_str()).collect();
                let about = concat!("", $($about),*).trim();
                let schema = serde_json::json!({ "type": "string", "description": about, "enum": words });
                known.insert(stringify!($name).to_owned(), schema);
                $crate::schema::reference(stringify!($name))
            }
        }
    };
    ($(#[doc = $about:literal])* pub text $name:ident { $($variants:tt)* }) => {
        $crate::words! { @type $(#[doc = $about])* $name { $($variants)* } }

        impl $crate::schema::Described for $name {
            fn schema(known: &mut $crate::schema::Components) -> serde_json::Value {
                $crate::schema::of::<String>(known)
            }
        }
    };
    (
        @type $(#[doc = $about:literal])* $name:ident {
            $( $(#[doc = $doc:literal])* $variant:ident = $word:literal, )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $( $(#[doc = $doc])* #[serde(rename = $word)] $variant, )*
        }

        impl $name {
            pub const ALL: &[$name] = &[ $( $name::$variant ),* ];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $( $name::$variant => $word, )*
                }
            }
        }
    };
}

pub use {objects, words};

#[cfg(test)]
mod tests {
    use super::{Components, Described};
    use serde_json::json;

    objects! {
        /// A box.
        #[serde(deny_unknown_fields)]
        pub struct Crate {
            /// How many
            /// are in it.
            pub count: u32,
            pub r#type: Option<Wood>,
            pub inner: Vec<Crate>,
        }
    }

    words! {
        pub enum Wood { Oak = "oak", Ash = "ash", }
    }

    #[test]
    fn a_type_and_its_schema_come_from_one_text() {
        let mut known = Components::new();
        assert_eq!(Crate::schema(&mut known), json!({ "$ref": "#/components/schemas/Crate" }));
        assert_eq!(
            known["Crate"],
            json!({
                "type": "object",
                "description": "A box.",
                "required": ["count", "inner"],
                "additionalProperties": false,
                "properties": {
                    "count": { "type": "integer", "minimum": 0, "description": "How many are in it." },
                    "type": { "anyOf": [{ "$ref": "#/components/schemas/Wood" }, { "type": "null" }] },
                    "inner": { "type": "array", "items": { "$ref": "#/components/schemas/Crate" } },
                },
            })
        );
        assert_eq!(known["Wood"]["enum"], json!(["oak", "ash"]));
        assert_eq!([Wood::Oak.as_str(), Wood::Ash.as_str()], ["oak", "ash"]);
        let value = Crate { count: 1, r#type: Some(Wood::Ash), inner: Vec::new() };
        assert_eq!(serde_json::to_value(&value).unwrap(), json!({ "count": 1, "type": "ash", "inner": [] }));
    }
}
