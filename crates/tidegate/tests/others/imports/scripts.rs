//! A server of scripts that answers with what each would be told. A script that is not there is 404 and a file of
//! another ending 403, as PHP-FPM has it, so that a source that is run, a path that leads elsewhere and a param that is
//! wrong are all differences.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use tidegate_testkit::scripts::AskedScript;

/// Params that an application finds its pages and its files by.
const SHOWN: [&str; 6] = ["SCRIPT_FILENAME", "SCRIPT_NAME", "PATH_INFO", "REQUEST_URI", "QUERY_STRING", "REQUEST_METHOD"];

pub struct Scripts {
    pub address: SocketAddr,
}

impl Scripts {
    /// Ends with the test's process.
    pub fn start() -> Result<Scripts, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || while_asked(stream));
            }
        });
        Ok(Scripts { address })
    }
}

fn while_asked(mut stream: TcpStream) {
    let (mut received, mut piece) = (Vec::new(), [0; 16384]);
    loop {
        match AskedScript::parse(&received) {
            Ok(Some((asked, used))) => {
                received.drain(..used);
                if stream.write_all(&asked.answered(answer(&asked).as_bytes())).is_err() || !asked.keeps {
                    return;
                }
            }
            Ok(None) => match stream.read(&mut piece) {
                Ok(count) if count > 0 => received.extend_from_slice(&piece[..count]),
                _ => return,
            },
            Err(_) => return,
        }
    }
}

fn answer(asked: &AskedScript) -> String {
    let param = |name: &str| String::from_utf8_lossy(asked.param(name).unwrap_or_default()).into_owned();
    let file = param("SCRIPT_FILENAME");
    let script = Path::new(&file);
    // The one script of an application has no page of its own for a folder without one.
    let root = file.strip_suffix("/index.php").unwrap_or(&file);
    let asked = param("REQUEST_URI");
    let folder = Path::new(root).join(asked.split('?').next().unwrap_or_default().trim_matches('/'));
    let is_no_page =
        asked.split('?').next().is_some_and(|path| path.ends_with('/')) && folder.is_dir() && folder != Path::new(root);
    let status = match (script.is_file(), script.extension().is_some_and(|ending| ending == "php")) {
        (true, true) if is_no_page => "Status: 404 Not Found\r\n",
        (false, _) => "Status: 404 Not Found\r\n",
        (true, false) => "Status: 403 Forbidden\r\n",
        (true, true) => "X-Script: yes\r\n",
    };
    let lines = SHOWN.map(|name| format!("{name}: {}\n", param(name))).concat();
    format!("{status}Content-Type: text/plain\r\n\r\n{lines}")
}
