use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::{fault::explain, open::connect};
use crate::store::StoreError;

/// At most so many read at the same time.
const CONNECTIONS: usize = 4;

/// Connections that only read. They neither hold up the writer nor wait for it.
pub(super) struct Reads {
    path: Arc<PathBuf>,
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

impl Reads {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path: Arc::new(path), idle: Arc::default(), permits: Arc::new(Semaphore::new(CONNECTIONS)) }
    }

    /// Reads off the reactor.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|_closed| StoreError("the store was closed".into()))?;
        let (path, idle) = (self.path.clone(), self.idle.clone());
        let reading = spawn_blocking(move || {
            let connection = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let result = connection.map_or_else(|| open(&path), Ok).and_then(|connection| {
                let found = read(&connection);
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
                found
            });
            drop(permit);
            result.map_err(|error| explain(&error, &path))
        });
        reading.await.unwrap_or_else(|error| Err(StoreError(format!("the store could not be read: {error}"))))
    }
}

fn open(path: &std::path::Path) -> rusqlite::Result<Connection> {
    let connection = connect(path)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}
