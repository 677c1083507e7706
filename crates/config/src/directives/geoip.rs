//! `geoip "GeoLite2-Country.mmdb" "GeoLite2-ASN.mmdb"`: files that know where addresses are, and what conditions ask of
//! them. The files are read where a configuration is put to work.

use crate::diagnostics::{Diagnostic, Location};
use crate::forms::Fault;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place};
use crate::written_line::Writer;
use tidegate_model::{GeoField, GeoIp, GeoTest};

pub static GEOIP: Directive = Directive {
    name: "geoip",
    places: &[Place::Top],
    arguments: &[Argument::one_or_more(
        "files",
        Kind::Path,
        "MMDB files, as MaxMind (GeoLite2, GeoIP2), DB-IP and IPinfo publish them; the first that knows something is believed.",
    )],
    summary: "Files that say in which country an address is, and of which network (autonomous system).",
    details: "`match country=\"DE,AT\"`, `continent=\"EU\"` and `asn=\"64500\"` ask them, and so do `allow \"country:DE\"`, `deny \"asn:64500\"` and their like; `{geo.country}`, `{geo.continent}`, `{geo.region}`, `{geo.city}`, \
              `{geo.asn}` and `{geo.organization}` bring what they say into headers, limits, keys of maps and fields of a `log`. The address is the client's, behind `trusted-proxies` the one that they report. What is not known is empty, \
              and `unknown` in a condition.\n\n\
              A changed file counts within a second. One that is gone or broken leaves the one before in use, and the log and `tidegate status` say why; at a start it is an error. Files lie in memory, a gigabyte at most; \
              they are asked when something asks for an address, once for a connection.",
    example: "geoip \"/var/lib/GeoIP/GeoLite2-Country.mmdb\" \"/var/lib/GeoIP/GeoLite2-ASN.mmdb\"",
    lower: Lower::Top(lower),
    said_otherwise: &[(&["file", "database", "path"], "the file stands alone, as in `geoip \"GeoLite2-Country.mmdb\"`")],
    ..Directive::PLAIN
};

/// Countries, cities, systems, and some of one's own.
const FILES_MAX: usize = 8;

/// Of ISO 3166-1, and Kosovo's.
const COUNTRIES: &str = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ \
                         CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR \
                         GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP \
                         KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ \
                         NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW \
                         SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ \
                         UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW";
const CONTINENTS: &str = "AF AN AS EU NA OC SA";
/// What is written for a country and is none.
const NO_COUNTRIES: &[(&str, &str)] = &[
    ("UK", "the United Kingdom is `GB`"),
    ("EL", "Greece is `GR`"),
    ("EU", "the continent is `continent`, as in `match continent=\"EU\"`; a country of the Union is written by itself"),
    ("EN", "England is a part of `GB`"),
];

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let mut files = Vec::new();
    for text in line.read_arguments(lowering).into_iter().map(Read::text) {
        let path = lowering.path(&text.value, &text.location);
        if files.contains(&path) {
            lowering.report(Diagnostic::error("duplicate-file", text.location, "this file is named twice").help("remove one"));
            continue;
        }
        lowering.spans.files.push((path.clone(), text.location));
        files.push(path);
    }
    if files.len() > FILES_MAX {
        let message = format!("there are more than {FILES_MAX} files");
        lowering.report(Diagnostic::error("too-many-files", line.location(), message).help("name those that are asked for"));
    }
    lowering.configuration.geoip = GeoIp { files };
}

/// What of an address a word asks for, in conditions.
pub fn field_named(name: &str) -> Option<GeoField> {
    GeoField::IN_CONDITIONS.into_iter().find(|field| field.name() == name)
}

/// The values of a condition, with commas between: a part of the text.
pub fn test(lowering: &mut Lowering<'_>, text: &Text, field: GeoField, meant: &str) -> Option<GeoTest> {
    lowering.spans.geo_used.push(text.location.clone());
    let mut values = Vec::new();
    for part in meant.split(',').map(str::trim) {
        values.push(text.parsed(lowering, "bad-condition", value(field, part))?);
    }
    Some(GeoTest { field, values })
}

fn value(field: GeoField, part: &str) -> Result<String, Fault> {
    if part == GeoTest::UNKNOWN {
        return Ok(String::new());
    }
    let upper = part.to_ascii_uppercase();
    let of_list = |list: &str| list.split_ascii_whitespace().any(|known| known == upper);
    match field {
        GeoField::Country if of_list(COUNTRIES) => Ok(upper),
        GeoField::Continent if of_list(CONTINENTS) => Ok(upper),
        GeoField::Country => {
            let meant = NO_COUNTRIES.iter().find(|(code, _)| *code == upper).map(|(_, help)| (*help).into());
            let help = meant.unwrap_or("a country is two letters, as in `DE`; where none is known, `unknown`".into());
            Err((format!("`{part}` is no country of ISO 3166").into(), help))
        }
        GeoField::Continent => Err((
            format!("`{part}` is no continent").into(),
            format!("it is one of {}, or `unknown`", CONTINENTS.replace(' ', ", ")).into(),
        )),
        GeoField::Asn | GeoField::Region | GeoField::City | GeoField::Organization => {
            let digits = upper.strip_prefix("AS").unwrap_or(&upper);
            let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok()).flatten();
            match number.filter(|number| *number > 0) {
                Some(number) => Ok(number.to_string()),
                None => Err((
                    format!("`{part}` is no number of an autonomous system").into(),
                    "it is a number, as in `64500`; where none is known, `unknown`".into(),
                )),
            }
        }
    }
}

/// Questions without a file that answers them.
pub fn check_uses(lowering: &mut Lowering<'_>) {
    if !lowering.configuration.geoip.files.is_empty() {
        return;
    }
    let first: Option<Location> = lowering.spans.geo_used.first().cloned();
    if let Some(at) = first {
        let message = "nothing says where addresses are: there is no `geoip` at the top level";
        let help = "name a database, as in `geoip \"/var/lib/GeoIP/GeoLite2-Country.mmdb\"`";
        lowering.report(Diagnostic::error("no-geoip", at, message).help(help));
    }
}

pub fn write(line: &mut Writer, GeoIp { files }: &GeoIp) {
    if !files.is_empty() {
        line.name("geoip").arguments(files.iter().map(|path| path.display()));
    }
}

/// With commas between, as a condition has them.
pub fn show_values(GeoTest { values, .. }: &GeoTest) -> String {
    let shown = |value: &String| if value.is_empty() { GeoTest::UNKNOWN.to_owned() } else { value.clone() };
    values.iter().map(shown).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::{COUNTRIES, value};
    use tidegate_model::GeoField;

    #[test]
    fn values_have_one_spelling() {
        let check = |field, part: &str, expected: Result<&str, &str>| {
            let seen = value(field, part).map_err(|(_, help)| help.into_owned());
            match (seen, expected) {
                (Err(help), Err(part)) => assert!(help.contains(part), "{help}"),
                (seen, expected) => assert_eq!(seen, expected.map(str::to_owned).map_err(str::to_owned), "{part}"),
            }
        };
        check(GeoField::Country, "de", Ok("DE"));
        check(GeoField::Country, "unknown", Ok(""));
        check(GeoField::Country, "UK", Err("`GB`"));
        check(GeoField::Country, "Germany", Err("two letters"));
        check(GeoField::Continent, "eu", Ok("EU"));
        check(GeoField::Continent, "DE", Err("AF, AN, AS, EU, NA, OC, SA"));
        check(GeoField::Asn, "AS64500", Ok("64500"));
        check(GeoField::Asn, "064500", Ok("64500"));
        check(GeoField::Asn, "0", Err("a number"));
        check(GeoField::Asn, "-1", Err("a number"));
        check(GeoField::Asn, "4294967296", Err("a number"));
        assert_eq!(COUNTRIES.split_ascii_whitespace().count(), 250);
    }
}
