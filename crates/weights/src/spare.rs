//! Files to be written over instead of being removed and made anew.
//!
//! A trainer publishes the same lengths again and again and prunes as many. Making a file costs
//! more than its bytes, and most where many were just removed: ext4 passes over each inode that was
//! deleted in the last five seconds. So what is pruned waits in `spare/` for the next tensor of its
//! length, and goes with the next pruning if none came. Nothing is ever read from there.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::WeightsError;
use crate::folder::{io_error, names};

/// The spare files of a folder by their length; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spares(Arc<Mutex<HashMap<u64, Vec<PathBuf>>>>);

impl Spares {
    /// Moves a spare file of that length to `path`, if there is one.
    pub(crate) fn take(&self, length: u64, path: &Path) -> bool {
        let mut files = self.lock();
        let Some(of_length) = files.get_mut(&length) else {
            return false;
        };
        std::iter::from_fn(|| of_length.pop()).any(|spare| fs::rename(spare, path).is_ok())
    }

    /// Moves `file` into `folder`, to be written over.
    pub(crate) fn put(&self, file: &Path, folder: &Path) -> Result<(), WeightsError> {
        let length = fs::metadata(file).map_err(io_error("look at", file))?.len();
        let spare = folder.join(file.file_name().unwrap_or_default());
        let mut files = self.lock();
        fs::rename(file, &spare).map_err(io_error("move", file))?;
        files.entry(length).or_default().push(spare);
        Ok(())
    }

    /// Removes what is in `folder`, a dead process's spare files, too.
    pub(crate) fn clear(&self, folder: &Path) -> Result<(), WeightsError> {
        let mut files = self.lock();
        files.clear();
        for name in names(folder)? {
            let path = folder.join(name);
            fs::remove_file(&path).map_err(io_error("remove", &path))?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Vec<PathBuf>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
