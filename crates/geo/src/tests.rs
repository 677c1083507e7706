//! What is found in files that were made for it, and what becomes of broken ones.

use crate::{Database, DatabaseFault, Geo, GeoMemory, Whereabouts};
use std::net::IpAddr;
use std::sync::Arc;
use tidegate_model::GeoField;
use tidegate_testkit::mmdb::{Data, RecordSize, database, of_lines, record};

const LINES: &str = "
    81.2.69.0/24 country=GB continent=EU region=ENG city=London asn=20712 organization=Andrews_&_Arnold
    81.2.69.128/25 country=IE
    2001:db8::/32 country=DE continent=EU asn=64500
    0.0.0.0/1 asn=64501
";

fn geo(databases: Vec<Vec<u8>>) -> Geo {
    let geo = Geo::default();
    geo.replace(databases.into_iter().map(|bytes| Arc::new(Database::read(bytes).expect("a good file"))).collect());
    geo
}

fn text(geo: &Geo, address: &str, field: GeoField) -> String {
    let address: IpAddr = address.parse().expect("an address");
    Whereabouts::without_memory(geo).see(address, field, str::to_owned)
}

#[test]
fn an_address_has_what_the_smallest_network_says() {
    let known = geo(vec![of_lines(LINES).expect("lines")]);
    let check = |address: &str, expected: [&str; 6]| {
        let seen = GeoField::ALL.map(|field| text(&known, address, field));
        assert_eq!(seen, expected, "{address}");
    };
    check("81.2.69.1", ["GB", "EU", "ENG", "London", "20712", "Andrews & Arnold"]);
    check("::ffff:81.2.69.1", ["GB", "EU", "ENG", "London", "20712", "Andrews & Arnold"]);
    check("81.2.69.200", ["IE", "", "", "", "", ""]);
    check("2001:db8::7", ["DE", "EU", "", "", "64500", ""]);
    check("8.8.8.8", ["", "", "", "", "64501", ""]);
    check("192.0.2.1", [""; 6]);
    check("2001:db9::1", [""; 6]);
}

#[test]
fn the_first_file_that_knows_something_is_believed() {
    let row = |network: &str, words: &str| (network.parse().expect("a network"), record(words));
    let countries = database("A-Country", RecordSize::Bits32, &[row("192.0.2.0/24", "country=DE")]);
    let systems = database("B-ASN", RecordSize::Bits24, &[row("192.0.0.0/16", "asn=64500 country=FR")]);
    let known = geo(vec![countries, systems]);
    let seen = |address: &str| (text(&known, address, GeoField::Country), text(&known, address, GeoField::Asn));
    assert_eq!(seen("192.0.2.1"), ("DE".into(), "64500".into()));
    assert_eq!(seen("192.0.3.1"), ("FR".into(), "64500".into()));
}

#[test]
fn publishers_keep_things_in_their_own_places() {
    let check = |data: Data, country: &str, asn: &str, organization: &str| {
        let known = geo(vec![database("X", RecordSize::Bits24, &[("192.0.2.0/24".parse().expect("a network"), data)])]);
        let seen = [GeoField::Country, GeoField::Asn, GeoField::Organization].map(|field| text(&known, "192.0.2.1", field));
        assert_eq!(seen, [country, asn, organization]);
    };
    let flat = |country: &str| {
        let text = |text: &str| Data::Text(text.into());
        Data::Map(vec![
            ("as_name", text("Example")),
            ("asn", text("AS64500")),
            ("country", text("Germany")),
            ("country_code", text(country)),
        ])
    };
    check(flat("DE"), "DE", "64500", "Example");
    check(flat("Germany"), "", "64500", "Example");
    check(Data::Map(vec![("country", Data::Text("AT".into()))]), "AT", "", "");
    let traits = Data::Map(vec![("traits", record("asn=64501 organization=Traits"))]);
    check(traits, "", "64501", "Traits");
}

#[test]
fn a_connection_remembers_its_client_until_the_files_change() {
    let known = geo(vec![of_lines("192.0.2.0/24 country=DE").expect("lines")]);
    let memory = GeoMemory::default();
    let country = |address: &str| {
        let address: IpAddr = address.parse().expect("an address");
        Whereabouts::new(&known, &memory).see(address, GeoField::Country, str::to_owned)
    };
    assert_eq!((country("192.0.2.1"), country("198.51.100.1"), country("192.0.2.1")), ("DE".into(), String::new(), "DE".into()));
    let again = Database::read(of_lines("192.0.2.0/24 country=AT").expect("lines")).expect("a good file");
    known.replace(vec![Arc::new(again)]);
    assert_eq!(country("192.0.2.1"), "AT");
    assert_eq!(Whereabouts::none().see(IpAddr::from([192, 0, 2, 1]), GeoField::Country, str::len), 0);
}

#[test]
fn what_is_no_database_of_places_is_refused() {
    let fault = |bytes: &[u8]| Database::read(bytes.to_vec()).err();
    let good = of_lines(LINES).expect("lines");
    for cut in [0, 1, 100, good.len() / 2, good.len() - 1] {
        assert!(matches!(fault(&good[..cut]), Some(DatabaseFault::NotReadable(_))), "{cut} bytes of it");
    }
    assert!(matches!(fault(b"country,GB\n"), Some(DatabaseFault::NotReadable(_))));
    let other = database("Anonymous-IP", RecordSize::Bits24, &[("192.0.2.0/24".parse().expect("a network"), record(""))]);
    assert_eq!(fault(&other), Some(DatabaseFault::NothingKnown("Anonymous-IP".into())));
    let said = fault(&other).expect("a fault").to_string();
    assert_eq!(said, "it is of the kind `Anonymous-IP` and has neither countries nor autonomous systems");
    assert!(Database::read(good).is_ok());
}

#[test]
fn a_file_that_is_broken_far_behind_is_refused() {
    let good = of_lines(LINES).expect("lines");
    let with_a_changed_byte = (0..good.len()).map(|at| {
        let mut bytes = good.clone();
        bytes[at] ^= 0xff;
        bytes
    });
    // Broken where nobody has looked yet.
    let found =
        with_a_changed_byte.filter(|bytes| Database::open(bytes.clone()).is_ok() && Database::read(bytes.clone()).is_err());
    assert!(found.count() > 0);
}

/// A file with some bytes changed: taken or refused, and asked for addresses, it never panics and always ends.
#[test]
fn no_change_of_a_file_makes_it_panic() {
    let good = of_lines(LINES).expect("lines");
    bolero::check!().with_type::<Vec<(u16, u8)>>().for_each(|changes| {
        let mut bytes = good.clone();
        for (at, byte) in changes.iter().take(8) {
            let at = usize::from(*at) % bytes.len();
            bytes[at] = *byte;
        }
        let _ = Database::read(bytes.clone());
        let Ok(database) = Database::open(bytes) else { return };
        let known = Geo::default();
        known.replace(vec![Arc::new(database)]);
        for address in ["81.2.69.1", "81.2.69.200", "2001:db8::1", "0.0.0.0", "255.255.255.255", "::", "ffff::"] {
            for field in GeoField::ALL {
                let _ = text(&known, address, field);
            }
        }
    });
}
