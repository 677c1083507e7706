//! Files of rows, what is wrong with them, and what keys come to; against a map that looks at its rows one by one.

use crate::{
    ChangedRow, Kind, LineFault, Map, Overlay, OverlayFault, Pattern, RowFault, Table, TableDraft, Value, read_csv, write_record,
};
use std::sync::Arc;
use tidegate_model::{MapSettings, MapSource, Template};

fn map(rows: &[(&str, &str)], default: Option<&str>, ignores_case: bool) -> Map {
    let mut draft = TableDraft::new(ignores_case);
    for (position, (key, value)) in rows.iter().enumerate() {
        draft.add(position + 1, key, Some(value)).expect("a row of the test");
    }
    let source = MapSource::Listed(Vec::new());
    let default = default.map(str::to_owned);
    let settings = MapSettings { name: "test".into(), key: Template::default(), default, ignores_case, source };
    Map::new(settings, Arc::new(draft.finish().expect("rows of the test")))
}

fn text(value: Option<Value<'_>>, key: &str) -> Option<String> {
    let mut text = Vec::new();
    value?.each_part(key.as_bytes(), |part, _| text.extend_from_slice(part));
    Some(String::from_utf8(text).expect("text"))
}

/// A row over one of the source.
fn to(value: Option<&str>) -> ChangedRow {
    ChangedRow { value: value.map(Box::from), over: Some("a \"b\", c".into()) }
}

#[test]
fn a_key_finds_the_row_that_fits_it_most_closely() {
    const ROWS: &[(&str, &str)] = &[
        ("~^/a/([0-9]+)/(x)?$", "regex $1 $$ $2."),
        ("~^/a", "second regex"),
        ("/a/*", "short beginning"),
        ("/a/b*", "long beginning"),
        ("/a/b", "exact"),
        ("*.css", "end"),
        ("*/b.css", "long end"),
        ("10.0.0.0/8", "network"),
        ("10.1.0.0/16", "smaller network"),
        ("10.1.2.3", "address"),
        ("10.0.0.*", "beginning of an address"),
        ("::ffff:192.0.2.0/120", "mapped network"),
        ("2001:DB8::1", "address of IPv6"),
        ("2001:db8::/32", "network of IPv6"),
        ("\\*literal*", "stars"),
        ("", "nothing"),
    ];
    let known = map(ROWS, None, false);
    let check = |key: &str, expected: Option<&str>| {
        assert_eq!(text(known.find(key.as_bytes()), key).as_deref(), expected, "{key}");
    };
    check("/a/b", Some("exact"));
    check("/a/bc", Some("long beginning"));
    check("/a/c", Some("short beginning"));
    check("/a/b.css", Some("long beginning"));
    check("/z/b.css", Some("long end"));
    check("/z.css", Some("end"));
    check("/a", Some("second regex"));
    check("/A/b", None);
    check("10.1.2.3", Some("address"));
    check("10.1.2.4", Some("smaller network"));
    check("10.0.0.1", Some("network"));
    check("11.0.0.1", None);
    check("192.0.2.9", Some("mapped network"));
    check("2001:db8::1", Some("address of IPv6"));
    check("2001:db8::2", Some("network of IPv6"));
    check("*literal*", Some("stars"));
    check("", Some("nothing"));
    let groups = map(&[("~^/a/([0-9]+)/(x)?$", "regex $1 $$ $2.")], Some("other"), false);
    assert_eq!(text(groups.find(b"/a/12/x"), "/a/12/x").as_deref(), Some("regex 12 $ x."));
    assert_eq!(text(groups.find(b"/a/7/"), "/a/7/").as_deref(), Some("regex 7 $ ."));
    assert!(groups.find(b"/b").is_none());
    assert_eq!(text(groups.value_of(b"/b"), "/b").as_deref(), Some("other"));
}

#[test]
fn letters_are_the_same_large_and_small_where_that_is_said() {
    let rows = &[("Example.COM", "exact"), ("*.Example.com", "end"), ("~^W+$", "regex")];
    let check = |ignores_case: bool, key: &str, expected: Option<&str>| {
        let known = map(rows, None, ignores_case);
        assert_eq!(text(known.find(key.as_bytes()), key).as_deref(), expected, "{key} {ignores_case}");
    };
    check(true, "example.com", Some("exact"));
    check(true, "A.EXAMPLE.com", Some("end"));
    check(true, "www", Some("regex"));
    check(false, "example.com", None);
    check(false, "Example.COM", Some("exact"));
    check(false, "www", None);
}

#[test]
fn a_key_is_written_in_one_way() {
    let check = |written: &str, expected: Result<(Kind, &str, &str), RowFault>| {
        let read = Pattern::parse(written);
        let read = read.as_ref().map(|read| (read.kind, &*read.text, read.to_string()));
        assert_eq!(read, expected.as_ref().map(|(kind, text, again)| (*kind, *text, (*again).to_owned())), "{written}");
    };
    check("a", Ok((Kind::Exact, "a", "a")));
    check("a*", Ok((Kind::Prefix, "a", "a*")));
    check("*a", Ok((Kind::Suffix, "a", "*a")));
    check("~a*", Ok((Kind::Regex, "a*", "~a*")));
    check("\\a*", Ok((Kind::Exact, "a*", "\\a*")));
    check("\\a", Ok((Kind::Exact, "a", "a")));
    check("10.0.0.0/8", Ok((Kind::Network, "10.0.0.0/8", "10.0.0.0/8")));
    check("2001:DB8::/32", Ok((Kind::Network, "2001:db8::/32", "2001:db8::/32")));
    check("2001:DB8::0001", Ok((Kind::Exact, "2001:db8::1", "2001:db8::1")));
    check("10.0.0.1/8", Err(RowFault::InsideNetwork("10.0.0.0/8".into())));
    check("6.6.6.0/255.255.255.0", Err(RowFault::NoNetwork));
    check("8.8.8.0/99", Err(RowFault::NoNetwork));
    check("2001:db8::/129", Err(RowFault::NoNetwork));
    check("a/8", Ok((Kind::Exact, "a/8", "a/8")));
    check("*", Err(RowFault::Everything));
    check("*a*", Err(RowFault::TwoStars));
    check("a*b*", Err(RowFault::TwoStars));
    check("a*b", Ok((Kind::Exact, "a*b", "a*b")));
    check("a\nb", Err(RowFault::ControlCharacter));
    check(&"a".repeat(8193), Err(RowFault::KeyTooLong));
}

#[test]
fn a_file_is_read_as_spreadsheets_write_it() {
    let text = "\u{feff}key,value\r\n# old shop\r\n/a , /b\r\n\r\n\"/c,\"\"d\"\"\" , \"e, f\"\n  /g,\"\"\n/h,/i";
    let mut rows = Vec::new();
    let read = read_csv(text.as_bytes(), |line, key, value| {
        rows.push((line, key.to_owned(), value.to_owned()));
        Ok(())
    });
    assert_eq!(read, Ok(()));
    let row = |line, key: &str, value: &str| (line, key.to_owned(), value.to_owned());
    assert_eq!(rows, [row(3, "/a", "/b"), row(5, "/c,\"d\"", "e, f"), row(6, "/g", ""), row(7, "/h", "/i")]);
}

#[test]
fn what_is_wrong_with_a_file_is_told_by_line() {
    let check = |text: &str, expected: &[(usize, RowFault)]| {
        let expected: Vec<_> = expected.iter().map(|(line, fault)| LineFault { line: *line, fault: fault.clone() }).collect();
        assert_eq!(Table::read(text.as_bytes(), false).err().unwrap_or_default(), expected, "{text:?}");
    };
    let twice = |first, key: &str| RowFault::Twice { first, key: key.into() };
    check("", &[]);
    check("a,b\n", &[]);
    check("a", &[(1, RowFault::Fields(1))]);
    check("a,b\nc,d,e\n", &[(2, RowFault::Fields(3))]);
    check("a,\"b\nc", &[(1, RowFault::QuoteOpen), (2, RowFault::Fields(1))]);
    check("a,b\"c\"\n\"a\"b,c\n", &[(1, RowFault::QuoteInside), (2, RowFault::BehindQuote)]);
    check("\"a\nb\",c\nd\n", &[(1, RowFault::ControlCharacter), (3, RowFault::Fields(1))]);
    check("a,1\nb,1\n\na,2\nb,3\n", &[(4, twice(1, "a")), (5, twice(2, "b"))]);
    check("a*,1\n*a,1\na,1\n~a,1\n\\a*,1\na*,2", &[(6, twice(1, "a*"))]);
    check("10.0.0.0/8,1\n::ffff:10.0.0.0/104,2\n", &[(2, twice(1, "10.0.0.0/8"))]);
    check("10.0.0.1/8,1", &[(1, RowFault::InsideNetwork("10.0.0.0/8".into()))]);
    check("~^(a)$,$2\n~a,$\n", &[(1, RowFault::NoGroup { number: 2, groups: 1 }), (2, RowFault::Dollar)]);
    check("*,a", &[(1, RowFault::Everything)]);
    check(&"x\n".repeat(1000), &(1..=10).map(|line| (line, RowFault::Fields(1))).collect::<Vec<_>>());
    let expressions: Vec<String> = (0..=256).map(|number| format!("~a{number},1\n")).collect();
    check(&expressions.concat(), &[(0, RowFault::TooManyRegexes)]);
    let lengths: Vec<String> = (1..=257).map(|length| format!("{}*,1\n", "a".repeat(length))).collect();
    check(&lengths.concat(), &[(257, RowFault::TooManyLengths)]);
    assert_eq!(Table::read(b"a,b\nc,\xff", false).err(), Some(vec![LineFault { line: 2, fault: RowFault::NotText }]));
    let said = Table::read(b"~(,1\n", false).expect_err("a bad expression")[0].to_string();
    assert_eq!(said, "line 1: the regular expression is not valid: unclosed group");
}

#[test]
fn changed_rows_stand_above_those_of_the_source() {
    let source = &[
        ("/a", "a"),
        ("/b*", "b"),
        ("/bc*", "bc"),
        ("10.0.0.0/8", "large"),
        ("10.1.0.0/16", "small"),
        ("~^x", "x"),
        ("~^xy", "xy"),
    ];
    let check = |changes: &[(&str, Option<&str>)], key: &str, expected: Option<&str>| {
        let mut overlay = Overlay::default();
        for (written, value) in changes {
            overlay.set(written, to(*value), false).expect("a row of the test");
        }
        assert_eq!(Overlay::read(overlay.write().as_bytes(), false), Ok(overlay.clone()));
        let known = map(source, None, false).with_overlay(Arc::new(overlay));
        assert_eq!(known.unfit().count(), 0);
        assert_eq!(text(known.find(key.as_bytes()), key).as_deref(), expected, "{key} with {changes:?}");
    };
    check(&[("/a", Some("new"))], "/a", Some("new"));
    check(&[("/a", None)], "/a", None);
    check(&[("/new", Some("new"))], "/new", Some("new"));
    check(&[("/bc*", None)], "/bcd", Some("b"));
    check(&[("/bcd*", Some("new"))], "/bcde", Some("new"));
    check(&[("/b*", Some("new"))], "/bcd", Some("bc"));
    check(&[("10.1.0.0/16", None)], "10.1.2.3", Some("large"));
    check(&[("10.1.2.0/24", Some("new"))], "10.1.2.3", Some("new"));
    check(&[("0.0.0.0/0", Some("new"))], "10.1.2.3", Some("small"));
    check(&[("0.0.0.0/0", Some("new"))], "11.1.2.3", Some("new"));
    check(&[("10.0.0.0/8", Some("new"))], "10.2.2.3", Some("new"));
    check(&[("~^x", None)], "xyz", Some("xy"));
    check(&[("~^xyz", Some("new"))], "xyz", Some("new"));
    check(&[("~^x$", Some("$$"))], "x", Some("$"));
}

#[test]
fn changed_rows_are_bounded_and_dropped_by_their_keys() {
    let mut overlay = Overlay::default();
    assert_eq!(
        overlay.set("~(", to(Some("x")), false).map_err(|fault| fault.help()),
        Err("for a text that begins with `~`, write `\\` in front")
    );
    for number in 0..crate::CHANGED_ROWS_MAX {
        overlay.set(&number.to_string(), to(Some("x")), false).expect("there is room");
    }
    assert_eq!(overlay.set("one more", to(Some("x")), false), Err(RowFault::TooManyChanged));
    assert_eq!(overlay.set("7", to(Some("y")), false), Ok(()), "one that is there");
    assert!(overlay.drop_row("8") && !overlay.drop_row("8"));
    assert_eq!(overlay.set("one more", to(None), false), Ok(()));
    assert_eq!((overlay.row("one more"), overlay.row("7"), overlay.row("8")), (Some(&to(None)), Some(&to(Some("y"))), None));
    let mut large = Overlay::default();
    let value = "\"".repeat(4000);
    let fitted = (0..1000).take_while(|number| large.set(&number.to_string(), to(Some(&value)), false).is_ok()).count();
    assert!(fitted > 50 && large.write().len() <= crate::CHANGED_BYTES_MAX + 100, "{fitted} {}", large.write().len());
}

#[test]
fn what_cannot_be_a_row_here_is_named_and_kept_and_harms_no_other() {
    const HEADING: &str = "# changed rows of a map, version 1\n";
    let read = |text: &str, ignores_case| Overlay::read(text.as_bytes(), ignores_case).expect("it is of this version");
    let check = |lines: &str, ignores_case: bool, counting: &[&str], unfit: &[(Option<&str>, RowFault)]| {
        let overlay = read(&format!("{HEADING}{lines}"), ignores_case);
        let rows: Vec<&str> = overlay.rows().map(|(key, _)| key).collect();
        assert_eq!(rows, counting, "{lines}");
        let named: Vec<_> = overlay.unread().map(|row| (row.key.as_deref(), row.fault.clone())).collect();
        assert_eq!(named, unfit, "{lines}");
        assert_eq!(read(&overlay.write(), ignores_case), overlay, "{lines}");
        for line in lines.lines() {
            assert!(ignores_case || overlay.write().contains(line), "{line} in {}", overlay.write());
        }
    };
    let twice = RowFault::Twice { first: 0, key: "a".into() };
    check("\"a\",\"=1\",\"-\"\n", false, &["a"], &[]);
    check("\"a\",\"=1\",\"-\"\nx\n\"b\",\"-\",\"-\"\n", false, &["a", "b"], &[(Some("x"), RowFault::Fields(1))]);
    check("\"a\nb\n\"c\",\"=1\",\"-\"\n", false, &["c"], &[(None, RowFault::QuoteOpen), (Some("b"), RowFault::Fields(1))]);
    check("\"a\",\"?1\",\"-\"\n", false, &[], &[(Some("a"), RowFault::Unknown)]);
    check("\"~(\",\"=1\",\"-\"\n", false, &[], &[(Some("~("), RowFault::Regex("unclosed group".into()))]);
    check("\"A\",\"=1\",\"-\"\n\"a\",\"=2\",\"-\"\n", false, &["A", "a"], &[]);
    check("\"A\",\"=1\",\"-\"\n\"a\",\"=2\",\"-\"\n", true, &["a"], &[(Some("a"), twice)]);
    let mut overlay = read(&format!("{HEADING}\"~(\",\"=1\",\"-\"\n\"a\",\"=1\",\"-\"\n"), false);
    assert!(overlay.drop_row("~(") && !overlay.drop_row("~(") && overlay.drop_row("a") && overlay.is_empty());
    assert_eq!(overlay, Overlay::default());
    let fault = |bytes: &[u8]| Overlay::read(bytes, false).err();
    assert_eq!(fault(b"# another\n"), Some(OverlayFault::OtherVersion));
    assert_eq!(fault(b"# changed rows of a map, version 10\n"), Some(OverlayFault::OtherVersion));
    assert_eq!(fault(b"# changed rows of a map, version 1\n\xff"), Some(OverlayFault::NotText));
}

#[test]
fn rows_that_do_not_fit_together_are_left_out_one_by_one() {
    let large = |letter: char| format!("~^(?:{letter}{{1000}}){{200}}$");
    let mut overlay = Overlay::default();
    for letter in 'a'..='h' {
        overlay.set(&large(letter), to(Some("x")), false).expect("each is small enough");
    }
    overlay.set("/a", to(Some("new")), false).expect("a row");
    let known = map(&[("/a", "old")], None, false).with_overlay(Arc::new(overlay));
    let unfit: Vec<&str> = known.unfit().filter_map(|row| row.key.as_deref()).collect();
    assert!(!unfit.is_empty() && unfit.len() < 8, "{unfit:?}");
    let last = large('h');
    assert!(unfit.contains(&&*last) && known.unfit().all(|row| row.fault == RowFault::RegexesTooLarge));
    assert_eq!((known.changed_rows().count(), known.changed_row(&last)), (9 - unfit.len(), None));
    assert_eq!(text(known.find(b"/a"), "/a").as_deref(), Some("new"));
    let first = "a".repeat(200_000);
    assert_eq!(text(known.find(first.as_bytes()), &first).as_deref(), Some("x"));

    let mut overlay = Overlay::default();
    for number in 0..=crate::LENGTHS_MAX {
        overlay.set(&format!("{}*", "a".repeat(number + 1)), to(Some("x")), false).expect("each alone");
    }
    let known = map(&[], None, false).with_overlay(Arc::new(overlay));
    let faults: Vec<&RowFault> = known.unfit().map(|row| &row.fault).collect();
    assert_eq!((faults, known.changed_rows().count()), (vec![&RowFault::TooManyLengths], crate::LENGTHS_MAX));
}

#[test]
fn a_large_table_takes_little_more_than_its_texts() {
    const ROWS: usize = 100_000;
    let mut draft = TableDraft::new(false);
    let mut texts = 0;
    for number in 0..ROWS {
        let (key, value) = (format!("/products/{number}/index.html"), format!("/p/{number}"));
        texts += key.len() + value.len();
        draft.add(number + 1, &key, Some(&value)).expect("a row");
    }
    let table = draft.finish().expect("rows");
    assert_eq!((table.len(), table.rows().count()), (ROWS, ROWS));
    // Two lengths, and eight bytes for four thirds of a place.
    assert!(table.bytes() <= texts + ROWS * 15, "{} for {texts}", table.bytes());
    for number in [0, 1, 4_711, ROWS - 1] {
        let row = table.row(Kind::Exact, format!("/products/{number}/index.html").as_bytes()).expect("a row");
        assert_eq!(row.value, Some(&*format!("/p/{number}")));
    }
    assert!(table.row(Kind::Exact, b"/products/100000/index.html").is_none());
}

/// Networks against a walk over all of them.
#[test]
fn networks_are_found_as_a_walk_finds_them() {
    bolero::check!().with_type::<(Vec<(u8, u8, u8)>, Vec<(u8, u8)>)>().for_each(|(networks, asked)| {
        let mut draft = TableDraft::new(false);
        let mut known: Vec<(ipnet::IpNet, String)> = Vec::new();
        for (first, second, length) in networks.iter().take(40) {
            let address = std::net::Ipv4Addr::new(*first & 3, *second, 0, 0);
            let network = ipnet::IpNet::new(address.into(), length % 33).expect("a length").trunc();
            if known.iter().all(|(other, _)| *other != network) {
                known.push((network, network.to_string()));
                draft.add(known.len(), &network.to_string(), Some(&network.to_string())).expect("a row");
            }
        }
        let table = draft.finish().expect("rows");
        for (first, second) in asked.iter().take(40) {
            let address = std::net::IpAddr::from([*first & 3, *second, 0, 0]);
            let mut expected: Vec<_> = known.iter().filter(|(network, _)| network.contains(&address)).collect();
            expected.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
            let expected: Vec<&str> = expected.iter().map(|(_, text)| &**text).collect();
            let found: Vec<&str> = table.networks_of(address).filter_map(|(_, row)| row.value).collect();
            assert_eq!(found, expected, "{address} in {known:?}");
        }
    });
}

/// Among so many that several levels of steps lead to them: each with a neighbour that no row has.
#[test]
fn of_ten_thousand_networks_each_is_found() {
    const NETWORKS: u32 = 10_000;
    let mut draft = TableDraft::new(false);
    let address = |number: u32| std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
    for number in (0..NETWORKS).map(|number| number * 3) {
        draft.add(1, &format!("{}/32", address(number)), Some(&number.to_string())).expect("a row");
    }
    draft.add(1, "10.0.0.0/16", Some("around")).expect("a row");
    let table = draft.finish().expect("rows");
    let check = |number: u32, expected: &[&str]| {
        let found: Vec<&str> = table.networks_of(address(number).into()).filter_map(|(_, row)| row.value).collect();
        assert_eq!(found, expected, "{}", address(number));
    };
    for number in (0..NETWORKS).map(|number| number * 3) {
        check(number, &[&number.to_string(), "around"]);
        check(number + 1, &["around"]);
    }
    check(NETWORKS * 3, &["around"]);
    check(0xffff, &["around"]);
    check(0x1_0000, &[]);
    assert_eq!(table.networks_of([9, 255, 255, 255].into()).count(), 0);
}

#[test]
fn no_bytes_make_the_reader_panic_and_what_it_reads_is_read_again() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut written = String::new();
        let mut rows = Vec::new();
        let read = read_csv(bytes, |_, key, value| {
            write_record(&[key, value], &mut written);
            rows.push((key.to_owned(), value.to_owned()));
            Ok(())
        });
        if read.is_err() {
            return;
        }
        // A first row of these words is a heading.
        let mut again = Vec::new();
        let read = read_csv(format!("#\n\"a\",\"b\"\n{written}").as_bytes(), |_, key, value| {
            again.push((key.to_owned(), value.to_owned()));
            Ok(())
        });
        assert_eq!(read, Ok(()));
        assert_eq!(again[1..], rows);
        if let Ok(table) = Table::read(bytes, true) {
            table.rows().for_each(|row| assert!(table.row(row.kind, row.key).is_some()));
        }
        for ignores_case in [false, true] {
            let mut kept = b"# changed rows of a map, version 1\n".to_vec();
            kept.extend_from_slice(bytes);
            let Ok(overlay) = Overlay::read(&kept, ignores_case) else { continue };
            assert_eq!(Overlay::read(overlay.write().as_bytes(), ignores_case), Ok(overlay));
        }
    });
}
