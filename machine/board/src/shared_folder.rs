//! A folder of this computer behind a 9P device.

use device::virtio::nine_p::FileServer;
pub use share::Access;
use share::Share;
use std::path::Path;

/// A folder that cannot be shared.
#[derive(Debug, thiserror::Error)]
#[error("{folder}: cannot share the folder")]
pub struct ShareError {
    /// Its name, as given.
    folder: String,
    /// The host's reason.
    source: std::io::Error,
}

/// Opens a folder for guests.
pub fn open(folder: &Path, access: Access) -> Result<Box<dyn FileServer>, ShareError> {
    let failed = |source| ShareError { folder: folder.display().to_string(), source };
    Ok(Box::new(Server(Share::open(folder, access).map_err(failed)?)))
}

#[derive(Debug)]
struct Server(Share);

impl FileServer for Server {
    fn answer(&mut self, message: &[u8], room: usize) -> Vec<u8> {
        self.0.answer(message, room)
    }

    fn is_in_use(&self) -> bool {
        self.0.is_in_use()
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn duplicate(&self) -> Box<dyn FileServer> {
        Box::new(Self(self.0.clone()))
    }
}
