//! `tidegate hash-key`: a key for a program, and the line by which `api-key` knows it. A key that is there already is
//! never an argument: those can be read by everybody on the machine.

use super::fail;
use super::hash_password::read_secret;
use std::process::ExitCode;
use tidegate_passwords::{API_KEY_BYTES_MAX, API_KEY_BYTES_MIN, api_key_line, make_api_key};

pub fn run(name: &str, expires: Option<&str>, is_given: bool) -> ExitCode {
    let key = if is_given { given() } else { make_api_key().ok_or_else(|| "the system has no randomness to give".to_owned()) };
    let key = match key {
        Ok(key) => key,
        Err(why) => return fail(&why),
    };
    match api_key_line(name, &key, expires) {
        Ok(line) => {
            if !is_given {
                // Not where the line goes, which is a file most of the time.
                eprintln!("The key of {name}, which is shown this once:\n\n    {key}\n");
            }
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(fault) => fail(&format!("{fault}; {}", fault.help())),
    }
}

fn given() -> Result<String, String> {
    let key = read_secret("Key")?;
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a key has letters, digits and signs of ASCII, and no spaces".to_owned());
    }
    if !(API_KEY_BYTES_MIN..=API_KEY_BYTES_MAX).contains(&key.len()) {
        return Err(format!(
            "a key has {API_KEY_BYTES_MIN} to {API_KEY_BYTES_MAX} characters; a shorter one is guessed, since its hash costs nothing"
        ));
    }
    Ok(key)
}
