//! Completions in the shells that they are for: what bash, zsh and fish offer behind a line, words of the command line
//! and names of the running process. That the scripts ask for each kind of name is tested beside them.

use crate::programs::{find, run};
use std::path::{Path, PathBuf};
use tidegate_testkit::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// The API is where a command looks for it by itself: on the socket of the state folder.
const CONFIG: &str = r#"
admin "127.0.0.1:{admin}" serve="metrics"
access-log "off"
threads 1
pool "shop" { server "127.0.0.1:{closed:a}"; }
site "http://shop.test:{port}" { proxy "shop"; }
"#;

/// What bash would insert, one a line. Programs complete like this in Debian's own tests of completions.
const BASH: &str = r#"
source "$SCRIPT" 2>/dev/null
line="$1"
COMP_LINE="$line" COMP_POINT=${#line}
read -r -a COMP_WORDS <<<"$line"
[[ "$line" == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { :; }
_tidegate_with_names tidegate "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// A zsh within a terminal, since it completes in no other: the line after the key, and what is listed below it.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "PROMPT=; RPROMPT=; autoload -Uz compinit; compinit -u -D; source $SCRIPT; bindkey '^I' complete-word; setopt no_auto_menu auto_list; LISTMAX=1000; print -r -- REA''DY"
wait_for() {
    local seen="" piece
    for ((turn = 0; turn < 400; turn++)); do
        while zpty -r -t shell piece; do seen+="$piece"; done
        [[ "$seen" == *"$1"* ]] && break
        sleep 0.05
    done
    print -r -- "$seen"
}
wait_for READY >/dev/null
zpty -n -w shell "$1"$'\t'
wait_for "$2"
zpty -d shell
"#;

const FISH: &str = "source $SCRIPT; complete -C $argv[1]";

struct Shells {
    proxy: Proxy,
}

impl Shells {
    fn new() -> Shells {
        Shells { proxy: Proxy::start(PROGRAM, CONFIG).expect("a proxy") }
    }

    fn script(&self, shell: &str) -> PathBuf {
        let script = run(Path::new(PROGRAM), &["completions", shell], "");
        assert!(script.is_success, "{}", script.text);
        let path = self.proxy.places.folder().join(format!("completions.{shell}"));
        std::fs::write(&path, script.stdout).expect("written");
        path
    }

    /// What the shell says to a line of ours. The program is found by its name, as a user has it.
    fn ask(&self, shell: &Path, flags: &[&str], arguments: &[&str]) -> String {
        let name = shell.file_name().and_then(|name| name.to_str()).expect("a name");
        let folder = self.proxy.places.folder();
        let path = std::env::var("PATH").unwrap_or_default();
        let own = Path::new(PROGRAM).parent().expect("a folder");
        let environment = [
            format!("SCRIPT={}", self.script(name).display()),
            format!("STATE_DIRECTORY={}", folder.join("state").display()),
            format!("HOME={}", folder.display()),
            format!("PATH={}:{path}", own.display()),
            "TERM=dumb".to_owned(),
        ];
        let environment: Vec<&str> = environment.iter().map(String::as_str).collect();
        let shell = shell.to_str().expect("a path");
        let all = [&environment[..], &[shell], flags, arguments].concat();
        run(Path::new("/usr/bin/env"), &all, "").text
    }
}

/// Lines, and what has to be offered behind each.
fn check(ask: impl Fn(&Shells, &str, &str) -> String) {
    let mut shells = Shells::new();
    let (first, port) = (shells.proxy.places.fill("{closed:a}").expect("a port"), shells.proxy.address.port());
    let cases = [
        ("tidegate undr", "undrain".to_owned()),
        ("tidegate run --wa", "--watch".to_owned()),
        ("tidegate run --share", "--share-port".to_owned()),
        ("tidegate completions ", "elvish".to_owned()),
        ("tidegate drain shop/", first),
        ("tidegate rollback ", "1".to_owned()),
        ("tidegate explain GET http://shop", format!("{port}/")),
    ];
    for (line, expected) in cases {
        let said = ask(&shells, line, &expected);
        assert!(said.contains(&expected), "`{line}` does not offer {expected}: {said}");
    }
}

#[test]
fn bash_completes() {
    let Some(bash) = find("bash") else { return };
    check(|shells, line, _| shells.ask(&bash, &["--norc", "--noprofile", "-c", BASH, "bash"], &[line]));
}

#[test]
fn zsh_completes() {
    let Some(zsh) = find("zsh") else { return };
    check(|shells, line, expected| shells.ask(&zsh, &["-f", "-c", ZSH, "zsh"], &[line, expected]));
}

#[test]
fn fish_completes() {
    let Some(fish) = find("fish") else { return };
    check(|shells, line, _| shells.ask(&fish, &["--no-config", "-c", FISH, "--"], &[line]));
}
