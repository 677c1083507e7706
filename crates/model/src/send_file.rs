//! `send-file`: an application names a file, and the proxy sends it. Which file that is, and what of the application's
//! answer stays, is decided in `middleware::send_file` and the crate `files`.

use std::path::PathBuf;

/// A folder of which an application may have files sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendFile {
    /// Absolute. Nothing outside of it is sent.
    pub root: PathBuf,
    /// What the paths of the application begin with that are below the folder, without a slash at its end; `None`: as
    /// the field has them that names the file.
    pub under: Option<String>,
    /// Whether names that begin with a dot are sent.
    pub hidden: bool,
}

/// The folders of a site or a route.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SendFiles {
    /// `send-file "off"`: none of those that the site names.
    pub are_off_before: bool,
    /// In the order written; the first that has the path counts.
    pub folders: Vec<SendFile>,
}

impl SendFiles {
    /// Each is looked through for every answer that names a file.
    pub const FOLDERS_MAX: usize = 16;

    /// What holds in a route: its folders, and behind them those of its site.
    pub fn and(&self, route: &SendFiles) -> SendFiles {
        let kept = if route.are_off_before { &[][..] } else { &self.folders };
        SendFiles { are_off_before: self.are_off_before || route.are_off_before, folders: [&route.folders, kept].concat() }
    }
}

#[cfg(test)]
mod tests {
    use super::{SendFile, SendFiles};

    #[test]
    fn folders_of_a_route_come_first_and_those_of_its_site_unless_they_are_off() {
        let folders = |are_off_before, root: &str| {
            let folder = SendFile { root: root.into(), under: None, hidden: false };
            SendFiles { are_off_before, folders: vec![folder] }
        };
        let check = |off: bool, expected: &[&str]| {
            let both = folders(false, "/site").and(&folders(off, "/route"));
            let roots: Vec<_> = both.folders.iter().map(|folder| folder.root.to_str().expect("text")).collect();
            assert_eq!(roots, expected);
        };
        check(false, &["/route", "/site"]);
        check(true, &["/route"]);
    }
}
