//! What became of each line of an imported file, for programs.

use serde_json::{Value, json};
use tidegate_foreign::Peer;
use tidegate_foreign::import::{AccountedStatement, ImportAccount, Imported, LineAccount, Sums};
use tidegate_foreign::source::SourceText;

pub fn as_json(peer: Peer, source: &SourceText, imported: &Imported, sums: &Sums) -> Value {
    let names: Vec<&str> = source.files().map(|(name, _)| name).collect();
    let statement = |statement: &AccountedStatement| {
        let (account, why) = match &statement.account {
            ImportAccount::Carried => ("carried", None),
            ImportAccount::SameByDefault(why) => ("same-by-default", Some(why)),
            ImportAccount::Approximated(how) => ("approximated", Some(how)),
            ImportAccount::NotCarried(_, what) => ("not-carried", Some(what)),
        };
        let mut value = json!({
            "file": names[statement.place.file],
            "line": statement.place.line,
            "word": statement.name,
            "account": account,
        });
        if let Some(why) = why {
            value["why"] = why.as_str().into();
        }
        value
    };
    let files = source.files().enumerate().map(|(file, (name, _))| {
        let lines = imported.lines.iter().filter(|line| line.place.file == file);
        json!({ "name": name, "lines": lines.map(|line| word(line.account)).collect::<Vec<_>>() })
    });
    json!({
        "from": peer.describe(),
        "files": files.collect::<Vec<_>>(),
        "sums": {
            "lines": sums.total(),
            "carried": sums.carried,
            "same-by-default": sums.same_by_default,
            "approximated": sums.approximated,
            "not-carried": sums.not_carried,
            "comments": sums.comments,
            "structure": sums.structure,
        },
        "statements": imported.statements.iter().map(statement).collect::<Vec<_>>(),
        "remarks": imported.remarks,
    })
}

fn word(account: LineAccount) -> &'static str {
    match account {
        LineAccount::Structure => "structure",
        LineAccount::Comment => "comment",
        LineAccount::SameByDefault => "same-by-default",
        LineAccount::Carried => "carried",
        LineAccount::Approximated => "approximated",
        LineAccount::NotCarried => "not-carried",
    }
}
