//! `tidegate completions`: what a shell completes. Words of the command line come from its own description; names of
//! pools, servers, sites and certificates are asked of the running process by the hidden command `names` when the key
//! is pressed, which is silent where none answers.

use super::reach;
use crate::cli::{Cli, NamesOf, Running};
use clap::CommandFactory;
use clap_complete::Shell;
use std::collections::BTreeSet;
use std::process::ExitCode;
use tidegate_admin::client::{Client, ClientFault};
use tidegate_api::{Certificates, Generations, Pools};

/// A shell shows no more, and a person reads less.
const NAMES_MAX: usize = 1000;

pub fn run(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tidegate", &mut script);
    let script = String::from_utf8_lossy(&script);
    print!("{}{}", script, names_for(shell));
    ExitCode::SUCCESS
}

/// What the shell asks beside its own words, behind the script that is generated.
fn names_for(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => "",
    }
}

const BASH: &str = r#"
# Names of the running process. Colons separate words in bash, so what stands in front of the last one is taken off.
_tidegate_with_names() {
    local of="" current="${COMP_LINE:0:$COMP_POINT}"
    current="${current##* }"
    case "${COMP_WORDS[1]}:${COMP_WORDS[2]}" in
        drain:*|undrain:*) of=servers ;;
        rollback:*|history:*) of=generations ;;
        cert:show|cert:renew|cert:revoke|cert:export) of=certificates ;;
        explain:*) of=sites ;;
    esac
    _tidegate "$@"
    if [[ -n "$of" && "$current" != -* ]]; then
        local IFS=$'\n' name
        for name in $(tidegate names "$of" 2>/dev/null); do
            if [[ "$name" == "$current"* ]]; then
                if [[ "$current" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
                    COMPREPLY+=("${name#"${current%"${current##*:}"}"}")
                else
                    COMPREPLY+=("$name")
                fi
            fi
        done
    fi
}
complete -F _tidegate_with_names -o nosort -o bashdefault -o default tidegate
"#;

const ZSH: &str = r#"
# Names of the running process.
_tidegate_with_names() {
    local of=""
    case "${words[2]}:${words[3]}" in
        drain:*|undrain:*) of=servers ;;
        rollback:*|history:*) of=generations ;;
        cert:show|cert:renew|cert:revoke|cert:export) of=certificates ;;
        explain:*) of=sites ;;
    esac
    if [[ -n "$of" && "$PREFIX" != -* ]]; then
        local -a names
        names=("${(@f)$(tidegate names "$of" 2>/dev/null)}")
        compadd -- $names
    fi
    _tidegate "$@"
}
compdef _tidegate_with_names tidegate
"#;

const FISH: &str = r#"
# What the script above leaves out, and names of the running process.
complete -c tidegate -n "__fish_seen_subcommand_from completions" -f -a "bash elvish fish powershell zsh"
complete -c tidegate -n "__fish_seen_subcommand_from drain undrain" -f -a "(tidegate names servers 2>/dev/null)"
complete -c tidegate -n "__fish_seen_subcommand_from rollback history" -f -a "(tidegate names generations 2>/dev/null)"
complete -c tidegate -n "__fish_seen_subcommand_from cert; and __fish_seen_subcommand_from show renew revoke export" -f -a "(tidegate names certificates 2>/dev/null)"
complete -c tidegate -n "__fish_seen_subcommand_from explain" -f -a "(tidegate names sites 2>/dev/null)"
"#;

pub fn names(of: NamesOf, running: &Running) -> ExitCode {
    let Ok(client) = reach::running(running) else { return ExitCode::from(super::FAILED) };
    match known(&client, of) {
        Ok(names) => {
            for name in names.iter().take(NAMES_MAX) {
                println!("{name}");
            }
            ExitCode::SUCCESS
        }
        // Who presses a key does not want a message in the middle of a line.
        Err(_) => ExitCode::from(super::FAILED),
    }
}

fn known(client: &Client, of: NamesOf) -> Result<BTreeSet<String>, ClientFault> {
    Ok(match of {
        NamesOf::Pools => {
            let Pools { pools, .. } = client.fetch("/v1/pools")?;
            pools.into_iter().map(|pool| pool.name).collect()
        }
        NamesOf::Servers => {
            let Pools { pools, .. } = client.fetch("/v1/pools")?;
            let names =
                pools.iter().flat_map(|pool| pool.servers.iter().map(|server| format!("{}/{}", pool.name, server.address)));
            names.collect()
        }
        NamesOf::Certificates => {
            let Certificates { certificates, .. } = client.fetch("/v1/certificates")?;
            certificates.into_iter().flat_map(|certificate| certificate.names).collect()
        }
        NamesOf::Generations => {
            let Generations { generations, .. } = client.fetch("/v1/generations")?;
            generations.iter().map(|generation| generation.number.to_string()).collect()
        }
        NamesOf::Sites => sites(&client.fetch("/v1/configuration")?),
    })
}

/// Addresses as URLs, but for wildcards, which are none.
fn sites(configuration: &serde_json::Value) -> BTreeSet<String> {
    let sites = configuration["site"].as_array().into_iter().flatten();
    let addresses = sites.flat_map(|site| site["addresses"].as_array().into_iter().flatten());
    let names =
        addresses.filter_map(serde_json::Value::as_str).filter(|name| !name.contains(['*', '{']) && !name.starts_with(':'));
    names.map(|name| if name.contains("://") { format!("{name}/") } else { format!("https://{name}/") }).collect()
}

#[cfg(test)]
mod tests {
    use super::{names_for, sites};
    use clap_complete::Shell;
    use serde_json::json;

    #[test]
    fn sites_are_completed_as_urls() {
        let configuration = json!({ "site": [
            { "addresses": ["a.example", "http://b.example:8080"] },
            { "addresses": ["*.example", ":8443", "{env.SITE}"] },
        ] });
        let seen: Vec<String> = sites(&configuration).into_iter().collect();
        assert_eq!(seen, ["http://b.example:8080/", "https://a.example/"]);
        assert!(sites(&json!({})).is_empty());
    }

    #[test]
    fn scripts_for_shells_with_functions_ask_the_process() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            for of in ["servers", "generations", "certificates", "sites"] {
                assert!(names_for(shell).contains(of), "{shell} {of}");
            }
        }
        assert_eq!(names_for(Shell::PowerShell), "");
    }
}
