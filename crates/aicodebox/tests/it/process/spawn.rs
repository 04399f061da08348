//! What cannot be started is said so, and the next run works.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use aicodebox_engine::{
    process::{Launch, Limits, Pool, SpawnError, Stop, variables},
    run::{EndedBy, ExitStatus},
};

use super::support::{Marker, Seen, agent, agent_with, launcher, pool, run, supervise, within, works};

async fn refused(pool: &Pool, launch: Launch) -> SpawnError {
    let mut seen = Seen::default();
    let error = supervise(pool, launch, &mut seen).await.expect_err("it cannot be started");
    assert_eq!((seen.pid, seen.stdout.len()), (0, 0));
    error
}

fn program(path: &Path) -> Launch {
    let mut launch = agent("");
    launch.program = path.into();
    launch
}

#[tokio::test]
async fn every_reason_has_its_name() {
    let pool = pool().await;
    let files = Marker::new();

    let error = refused(&pool, program("/no/such/agent".as_ref())).await;
    assert!(matches!(&error, SpawnError::NotFound(path) if path == Path::new("/no/such/agent")));
    assert_eq!(error.code(), 127);

    let text = files.path("text");
    fs::write(&text, "no program").unwrap();
    let error = refused(&pool, program(&text)).await;
    assert!(matches!(error, SpawnError::NotExecutable { .. }), "{error}");
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
    let error = refused(&pool, program(&text)).await;
    assert!(matches!(error, SpawnError::NotExecutable { reason: "Exec format error", .. }), "{error}");
    assert_eq!(error.code(), 126);

    let script = files.path("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let error = refused(&pool, program(&script)).await;
    assert!(matches!(&error, SpawnError::NoInterpreter(path) if *path == script), "{error}");
    assert_eq!(error.code(), 127);

    let mut launch = agent("--say x");
    launch.cwd = files.path("gone");
    let error = refused(&pool, launch).await;
    assert!(matches!(error, SpawnError::Cwd { .. }), "{error}");

    let error = refused(&pool, agent_with(["--say", "nul\0byte"])).await;
    assert!(matches!(error, SpawnError::Nul), "{error}");

    works(&pool).await;
}

#[tokio::test]
async fn arguments_have_limits() {
    let pool = pool().await;
    let (_, stdout) = run(&pool, agent_with(["--say".into(), "x".repeat(131_071)])).await;
    assert_eq!(stdout.len(), 131_072);
    let error = refused(&pool, agent_with(["--say".into(), "x".repeat(131_072)])).await;
    assert!(matches!(error, SpawnError::TooBig { bytes } if bytes > 131_072), "{error}");
    let error = refused(&pool, agent_with(vec!["x".repeat(100_000); 100])).await;
    assert!(matches!(error, SpawnError::TooBig { bytes } if bytes > 10_000_000), "{error}");
    // Far more than a socket's buffer, still allowed.
    let mut launch = agent("--say many");
    launch.env = variables((0..10).map(|at| (format!("V{at}"), "x".repeat(100_000))));
    assert_eq!(run(&pool, launch).await.1, b"many\n");
}

#[tokio::test]
async fn a_run_that_was_stopped_before_its_turn_never_starts() {
    let pool = Pool::start(launcher(), 1).await.unwrap();
    let running = pool.spawn(agent("--hang")).await.unwrap();
    let stop = Stop::default();
    let mut seen = Seen::default();
    let waiting = pool.supervise(agent("--say never"), Limits::default(), &stop, &mut seen);
    let (exit, _) =
        within(5, async { tokio::join!(waiting, async { stop.request(EndedBy::Cancelled) }) }).await;
    let exit = exit.unwrap();
    assert_eq!((exit.status, exit.ended_by), (None, EndedBy::Cancelled));
    assert_eq!(seen.pid, 0);
    drop(running);
    works(&pool).await;
}

#[tokio::test]
async fn a_closed_pool_starts_nothing() {
    let pool = pool().await;
    let marker = Marker::new();
    let mut running = pool.spawn(marker.agent("--say up --fork nasty --hang")).await.unwrap();
    let mut stdout = running.take_stdout().unwrap().unwrap();
    tokio::io::AsyncReadExt::read_exact(&mut stdout, &mut [0; 3]).await.unwrap();
    works(&pool).await;
    within(5, pool.close()).await;
    assert!(!marker.alive(), "close returned while a run was alive");
    assert_eq!(running.wait().await, Some(ExitStatus::Signal(9)));
    assert!(matches!(refused(&pool, agent("--say x")).await, SpawnError::Lost(_)));
}

#[tokio::test]
async fn a_program_that_is_no_launcher_is_noticed() {
    let command =
        aicodebox_engine::process::LauncherCommand { program: "/bin/true".into(), arg0: "x".into() };
    assert!(within(5, Pool::start(command, 1)).await.is_err());
}
