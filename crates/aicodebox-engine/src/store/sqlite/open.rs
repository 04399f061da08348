//! Opens the database: alone, with the tables of this version, and with nothing that still claims to run.

use std::{
    fs,
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nix::fcntl::{Flock, FlockArg};
use rusqlite::{Connection, OpenFlags};

use super::{
    convert::{from_integer, to_id},
    fault::{explain, is_damage},
    schema, write,
};
use crate::run::{Failure, FailureKind, RunId, RunOutcome, Verdict};

const FILE: &str = "runs.db";
const LOCK: &str = "lock";
/// No page is smaller. SQLite would take what is left of one for a new database.
const SMALLEST: u64 = 512;
/// A database up to this size is looked through as a whole; reading a larger one would hold up the start.
const CHECKED_WHOLE: u64 = 32 << 20;
/// How long a statement waits for another connection: for a checkpoint, at most.
const BUSY: Duration = Duration::from_secs(5);

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server has it.
    #[error(
        "another aicodebox (pid {pid}) serves from {path}: stop it, or give this one another state directory"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other's process.
        pid: String,
    },
    /// A later version has written it.
    #[error(
        "{path} was written by a newer aicodebox (its tables have version {found}, this one knows {known}): \
         use that one, or another state directory"
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// A file or directory cannot be used.
    #[error("{path} cannot be used: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database cannot be used.
    #[error("{0}")]
    Database(String),
}

/// An open database, and what keeps others out of it.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) lock: Flock<fs::File>,
}

/// Opens the database in `dir`, which is made if it is missing. A damaged one is set aside.
pub(super) fn open(dir: &Path) -> Result<Opened, OpenError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::Io { path, source }
    };
    fs::DirBuilder::new().mode(0o700).recursive(true).create(dir).map_err(io(dir))?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(io(dir))?;
    let lock = lock(dir)?;
    let path = dir.join(FILE);
    let connection = match prepare(&path) {
        Err(Trouble::Damage(error)) => {
            let aside = set_aside(&path).map_err(io(&path))?;
            tracing::error!(
                %error,
                kept = %aside.display(),
                "the run store is damaged: it was set aside, and a new one begun"
            );
            prepare(&path)
        }
        prepared => prepared,
    };
    match connection {
        Ok(connection) => Ok(Opened { connection, path, lock }),
        Err(Trouble::Damage(error) | Trouble::Other(error)) => {
            Err(OpenError::Database(explain(&error, &path).0))
        }
        Err(Trouble::Open(error)) => Err(error),
    }
}

/// Another connection to the same database.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY)?;
    connection
        .execute_batch("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -1024;")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn lock(dir: &Path) -> Result<Flock<fs::File>, OpenError> {
    let path = dir.join(LOCK);
    let io = |source| OpenError::Io { path: path.clone(), source };
    let file =
        fs::OpenOptions::new().read(true).write(true).create(true).mode(0o600).truncate(false).open(&path);
    match Flock::lock(file.map_err(io)?, FlockArg::LockExclusiveNonblock) {
        Ok(mut lock) => {
            lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id())).map_err(io)?;
            Ok(lock)
        }
        Err((mut file, nix::errno::Errno::EWOULDBLOCK)) => {
            let mut pid = String::new();
            file.rewind().and_then(|()| file.take(20).read_to_string(&mut pid)).map_err(io)?;
            Err(OpenError::InUse { path: dir.to_owned(), pid })
        }
        Err((_file, errno)) => Err(io(errno.into())),
    }
}

enum Trouble {
    Damage(rusqlite::Error),
    Other(rusqlite::Error),
    Open(OpenError),
}

impl Trouble {
    fn damage(what: impl Into<String>) -> Self {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        Self::Damage(rusqlite::Error::SqliteFailure(code, Some(what.into())))
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) { Self::Damage(error) } else { Self::Other(error) }
    }
}

fn prepare(path: &Path) -> Result<Connection, Trouble> {
    // SQLite gives its two other files the mode of this one.
    let made = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let size = made
        .and_then(|file| file.metadata())
        .map_err(|source| Trouble::Open(OpenError::Io { path: path.to_owned(), source }))?;
    if (1..SMALLEST).contains(&size.len()) {
        return Err(Trouble::damage("it is too short to be a database"));
    }
    let mut connection = connect(path)?;
    // Before anything is changed: a newer database is none of our business.
    let (found, known) = (schema::found(&connection)?, schema::version());
    if found > known {
        return Err(Trouble::Open(OpenError::Newer { path: path.to_owned(), found, known }));
    }
    if found == 0 {
        // Before the first table, or it has no effect.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    if size.len() <= CHECKED_WHOLE {
        let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if verdict != "ok" {
            return Err(Trouble::damage(verdict));
        }
    }
    schema::migrate(&mut connection)?;
    interrupt(&mut connection)?;
    Ok(connection)
}

/// Renames the database and what belongs to it.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let name = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    for suffix in ["", "-wal", "-shm"] {
        match fs::rename(name(suffix), name(&format!(".damaged-{seconds}{suffix}"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(name(&format!(".damaged-{seconds}")))
}

/// No process of an earlier server is alive: what it did not finish, it never will.
fn interrupt(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let running: Vec<(i64, RunId, i64)> = transaction
        .prepare(
            "SELECT number, id, (SELECT ifnull(max(last), 0) FROM events WHERE place BETWEEN number << 16 AND (number << 16) + 65535)
             FROM run WHERE status = 'running'",
        )?
        .query_map([], |row| Ok((row.get(0)?, to_id(row.get(1)?), row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    for (number, id, last) in &running {
        write::finished(&transaction, *number, &interrupted(*id), from_integer(*last) + 1)?;
    }
    transaction.execute(
        "UPDATE callback SET due = 0 WHERE due IS NULL AND run IN (SELECT number FROM run WHERE status <> 'running')",
        [],
    )?;
    if !running.is_empty() {
        tracing::warn!(
            runs = running.len(),
            "the last server ended with runs that were running: interrupted"
        );
    }
    transaction.commit()
}

fn interrupted(id: RunId) -> RunOutcome {
    let failure = Failure::new(FailureKind::Shutdown, "interrupted: the server ended before the run did");
    RunOutcome { exit_code: 143, ..RunOutcome::bare(id, Verdict::Failed(failure)) }
}
