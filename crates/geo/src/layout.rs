//! Where publishers keep what is known of an address: MaxMind and DB-IP in maps within maps, IPinfo side by side.

use maxminddb::PathElement::{self, Index, Key};
use tidegate_model::GeoField;

/// The places of a field, the first that is there counts.
pub(crate) fn places(field: GeoField) -> &'static [&'static [PathElement<'static>]] {
    match field {
        GeoField::Country => &[&[Key("country"), Key("iso_code")], &[Key("country_code")], &[Key("country")]],
        GeoField::Continent => &[&[Key("continent"), Key("code")], &[Key("continent_code")], &[Key("continent")]],
        GeoField::Region => &[&[Key("subdivisions"), Index(0), Key("iso_code")], &[Key("region_code")], &[Key("region")]],
        GeoField::City => &[&[Key("city"), Key("names"), Key("en")], &[Key("city")]],
        GeoField::Asn => &[&[Key("autonomous_system_number")], &[Key("traits"), Key("autonomous_system_number")], &[Key("asn")]],
        GeoField::Organization => &[
            &[Key("autonomous_system_organization")],
            &[Key("traits"), Key("autonomous_system_organization")],
            &[Key("as_name")],
        ],
    }
}

/// Whether a text can be the value of a field. IPinfo has the name of a country where others have a map.
pub(crate) fn fits(field: GeoField, text: &str) -> bool {
    match field {
        GeoField::Country | GeoField::Continent => text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_uppercase()),
        GeoField::Asn => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()),
        GeoField::Region | GeoField::City | GeoField::Organization => !text.is_empty() && !text.contains(char::is_control),
    }
}
