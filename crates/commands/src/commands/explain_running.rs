//! `tidegate explain --running` and `--request`: the same as `explain`, said by the process that runs, of what it runs
//! or ran.

use super::{fail, reach};
use crate::cli::{DEFAULT_CONFIG, Reach, Running};
use crate::output;
use std::path::Path;
use std::process::ExitCode;
use tidegate_admin::client::Client;
use tidegate_api::{ExplainRequest, Explanation, PastRequest};

/// Exit code of a request that no site or no route takes, as `explain` has it.
const NOBODY: u8 = 2;

pub fn run(config: &Path, reach: &Reach, method: String, url: String, headers: Vec<String>, from: Option<String>) -> ExitCode {
    let client = match client(config, reach) {
        Ok(client) => client,
        Err(message) => return fail(&message),
    };
    let request = ExplainRequest { method, url, headers: Some(headers), from };
    match client.post::<Explanation>("/v1/explain", &request, None) {
        Ok(explanation) => {
            output::say(&explanation, || explanation.text.clone());
            if explanation.has_route { ExitCode::SUCCESS } else { ExitCode::from(NOBODY) }
        }
        // 2 says that nobody takes the request, so a process that is not there is 1 as every other fault.
        Err(fault) => fail(&fault.to_string()),
    }
}

/// What became of a request that has ended.
pub fn past(config: &Path, reach: &Reach, id: &str) -> ExitCode {
    // What ids may consist of: nothing in it can change the path that is asked for, once it is encoded.
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+/=@~".contains(&byte)) {
        return fail(&format!(
            "`{id}` is not a request id\n  help: an id is what `request_id` in the access log is, such as 32 hexadecimal digits"
        ));
    }
    let in_path: String = id.bytes().map(encoded).collect();
    reach::with(client(config, reach), |client| {
        let past: PastRequest = client.fetch(&format!("/v1/requests/{in_path}"))?;
        output::say(&past, || past.text.clone());
        Ok(())
    })
}

fn encoded(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

fn client(config: &Path, reach: &Reach) -> Result<Client, String> {
    // The default names a file only where it is installed.
    let config = (config != Path::new(DEFAULT_CONFIG)).then(|| config.to_owned());
    let reach = Reach { admin: reach.admin.clone(), token_file: reach.token_file.clone() };
    reach::running(&Running { config, reach })
}
