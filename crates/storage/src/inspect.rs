//! A look at a store that is not in use yet, for `tidegate check`: whether it could be used, as far as that can be told
//! without making or changing anything in it. Every wait has a bound.

use crate::fault::{Problem, StorageFault};
use crate::folder::{Folder, FolderKind};
use crate::{FOLDER_IN_STATE, Store};
use std::path::Path;
use std::time::Duration;
use tidegate_model::Storage;

/// Nobody has a value of this name; the answer to the question for it is what counts.
const ASKED_FOR: &str = "check";
const SERVER_TIME_MAX: Duration = Duration::from_secs(8);

pub async fn inspect(settings: &Storage, state_dir: &Path) -> Result<(), StorageFault> {
    match settings {
        Storage::State => Folder::inspect(&state_dir.join(FOLDER_IN_STATE), FolderKind::Own).await,
        Storage::Folder(path) => Folder::inspect(path, FolderKind::Named).await,
        // Nothing is asked of a server before something is asked for.
        Storage::Redis(_) | Storage::Kubernetes(_) => {
            let store = Store::open(settings, state_dir).await?;
            let answer = tokio::time::timeout(SERVER_TIME_MAX, store.read(ASKED_FOR)).await;
            match answer {
                Ok(read) => read.map(|_| ()),
                Err(_) => {
                    let problem = Problem::ServerSilent { seconds: SERVER_TIME_MAX.as_secs() };
                    Err(StorageFault::new("certificates and keys cannot be kept", store.describe(), problem))
                }
            }
        }
    }
}
