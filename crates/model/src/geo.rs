//! `geoip`: what is known of an address by where it is and whose it is. Databases are read in the crate `geo`.

use std::path::PathBuf;

/// Files that are asked for an address, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GeoIp {
    pub files: Vec<PathBuf>,
}

/// A thing that is known of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GeoField {
    /// Two letters of ISO 3166-1.
    Country,
    /// `EU`, `NA` and the like.
    Continent,
    /// A part of the country by ISO 3166-2, without the country in front.
    Region,
    /// The city's English name.
    City,
    /// The number of the autonomous system, without `AS`.
    Asn,
    /// Who has the autonomous system.
    Organization,
}

/// A condition on an address: one of the values is what is known. Empty is what is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeoTest {
    pub field: GeoField,
    pub values: Vec<String>,
}

impl GeoField {
    pub const ALL: [GeoField; 6] =
        [GeoField::Country, GeoField::Continent, GeoField::Region, GeoField::City, GeoField::Asn, GeoField::Organization];
    /// Fields that conditions ask for.
    pub const IN_CONDITIONS: [GeoField; 3] = [GeoField::Country, GeoField::Continent, GeoField::Asn];

    pub fn name(self) -> &'static str {
        match self {
            GeoField::Country => "country",
            GeoField::Continent => "continent",
            GeoField::Region => "region",
            GeoField::City => "city",
            GeoField::Asn => "asn",
            GeoField::Organization => "organization",
        }
    }
}

impl GeoTest {
    /// How a value is written that is not known.
    pub const UNKNOWN: &'static str = "unknown";
}
