//! Both pipes are drained from the first instant to the last, whatever the agent or the reader does.

use std::time::{Duration, Instant};

use aicodebox_engine::{
    process::{Flow, KEPT, Limits, Lines, MAX_LINE, Stdin, Stop},
    run::{EndedBy, ExitStatus},
};

use super::support::{Seen, agent, pool, run, status_of, supervise};

const OK: Option<ExitStatus> = Some(ExitStatus::Code(0));

#[tokio::test]
async fn an_agent_answers() {
    let pool = pool().await;
    let mut seen = Seen::default();
    let exit = supervise(&pool, agent("--say hi --stderr 5 --exit 3"), &mut seen).await.unwrap();
    assert_eq!((seen.text(), seen.stderr.as_slice()), ("hi\n", b"abcde".as_slice()));
    assert_eq!((exit.status, exit.ended_by), (Some(ExitStatus::Code(3)), EndedBy::Itself));
    assert_eq!((exit.swept, exit.stuck, exit.abort), (0, vec![], None));
    assert_eq!(
        (exit.stdout.head.as_slice(), exit.stderr.head.as_slice()),
        (b"hi\n".as_slice(), b"abcde".as_slice())
    );
    assert!(seen.pid > 1 && exit.took < Duration::from_secs(5));
}

#[tokio::test]
async fn ten_megabytes_of_stderr_do_not_stop_the_answer() {
    let pool = pool().await;
    let begin = Instant::now();
    let (exit, stdout) = run(&pool, agent("--stderr 10m --say done --stderr 3")).await;
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert_eq!((exit.status, stdout.as_slice()), (OK, b"done\n".as_slice()));
    assert_eq!((exit.stderr.head.len(), exit.stderr.tail.len()), (KEPT, KEPT));
    assert_eq!(exit.stderr.dropped, 8 * KEPT as u64 + 3);
    assert!(exit.stderr.tail.ends_with(b"abc"), "the tail is the end");
}

#[tokio::test]
async fn a_flood_on_one_pipe_keeps_no_other_waiting() {
    let pool = pool().await;
    let shell = |script: &str| {
        let mut launch = agent("--exec /bin/sh -c");
        launch.args.push(script.into());
        launch
    };
    let limits = Limits { deadline: Some(Duration::from_secs(8)), idle: None };
    let mut prompted = shell("yes & flood=$!; cat > /dev/null; kill $flood; echo FINISHED");
    prompted.stdin = Stdin::Bytes(vec![b'x'; 400_000]);
    let complaining = shell("yes & flood=$!; head -c 2000000 /dev/zero >&2; kill $flood; echo FINISHED");
    for launch in [prompted, complaining] {
        let mut seen = Seen::default();
        let exit = pool.supervise(launch, limits, &Stop::default(), &mut seen).await.unwrap();
        assert_eq!(exit.ended_by, EndedBy::Itself);
        assert!(seen.text().ends_with("FINISHED\n"));
    }
}

#[tokio::test]
async fn a_slow_reader_of_its_own_does_not_lose_bytes() {
    let pool = pool().await;
    let (exit, stdout) = run(&pool, agent("--stdout 30m --say end")).await;
    assert_eq!(exit.status, OK);
    assert_eq!(stdout.len(), (30 << 20) + 4);
    assert!(stdout.ends_with(b"end\n"));
}

#[tokio::test]
async fn characters_are_not_broken_and_latin_1_does_not_stop_a_run() {
    let pool = pool().await;
    let (_, stdout) = run(&pool, agent("--split-utf8 --latin1 --say after")).await;
    assert_eq!(stdout, [b"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\ncaf\xe9\nafter\n".as_slice()].concat());
}

#[tokio::test]
async fn heavy_a_line_of_a_gigabyte_is_cut_in_constant_memory() {
    let pool = pool().await;
    let mut lines = Lines::new(MAX_LINE);
    let mut found = Vec::new();
    let before: u64 = kilobytes("VmHWM");
    let mut seen =
        Reader(|bytes: &[u8]| lines.feed(bytes, |line| found.push((line.bytes.len(), line.truncated))));
    let launch = agent("--long-line 1g --say end");
    let exit = pool.supervise(launch, Default::default(), &Default::default(), &mut seen).await.unwrap();
    assert_eq!(exit.status, OK);
    assert_eq!(found, [(MAX_LINE, true), (3, false)]);
    let grown = kilobytes("VmHWM") - before;
    assert!(grown < 32 << 10, "grew by {grown} kB");
}

fn kilobytes(field: &str) -> u64 {
    let value = status_of(std::process::id().try_into().unwrap(), field).unwrap();
    value.split_once(' ').unwrap().0.parse().unwrap()
}

/// Keeps nothing.
struct Reader<F>(F);

impl<F: FnMut(&[u8]) + Send> aicodebox_engine::process::Output for Reader<F> {
    fn started(&mut self, _pid: i32) {}

    fn feed(&mut self, stream: aicodebox_engine::process::Stream, bytes: &[u8]) -> Flow {
        if stream == aicodebox_engine::process::Stream::Stdout {
            self.0(bytes);
        }
        Flow::Go
    }
}

#[tokio::test]
async fn a_megabyte_of_prompt_is_echoed() {
    let pool = pool().await;
    let prompt: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    let mut launch = agent("--echo-stdin");
    launch.stdin = Stdin::Bytes(prompt.clone());
    let (exit, stdout) = run(&pool, launch).await;
    assert_eq!(exit.status, OK);
    assert!(stdout == prompt);
}

#[tokio::test]
async fn prompts_of_every_length_arrive_whole() {
    let pool = pool().await;
    for length in [0, 1, 65_535, 65_536, 65_537, 300_000] {
        let mut launch = agent("--stdin-length");
        launch.stdin = Stdin::Bytes(vec![b'p'; length]);
        let (_, stdout) = run(&pool, launch).await;
        assert_eq!(stdout, format!("{length}\n").as_bytes());
    }
}

#[tokio::test]
async fn a_prompt_that_nobody_reads_is_no_failure() {
    let pool = pool().await;
    for steps in ["--say unread", "--close-stdin --say unread --stdout 1m"] {
        let mut launch = agent(steps);
        launch.stdin = Stdin::Bytes(vec![b'p'; 1 << 20]);
        let (exit, stdout) = run(&pool, launch).await;
        assert_eq!((exit.status, exit.ended_by), (OK, EndedBy::Itself));
        assert!(stdout.starts_with(b"unread\n"));
    }
}

#[tokio::test]
async fn no_prompt_is_an_empty_one() {
    let pool = pool().await;
    let (_, stdout) = run(&pool, agent("--stdin-length")).await;
    assert_eq!(stdout, b"0\n");
    let mut launch = agent("--stdin-length");
    launch.stdin = Stdin::Piped;
    let (_, stdout) = run(&pool, launch).await;
    assert_eq!(stdout, b"0\n");
}

#[tokio::test]
async fn an_agent_that_closes_its_streams_runs_on() {
    let pool = pool().await;
    let (exit, stdout) = run(&pool, agent("--say bye --close-stdout --sleep 50 --exit 7")).await;
    assert_eq!((exit.status, stdout.as_slice()), (Some(ExitStatus::Code(7)), b"bye\n".as_slice()));
}

#[tokio::test]
async fn a_spawned_process_is_talked_with() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let pool = pool().await;
    let mut launch = agent("--echo-stdin --exit 4");
    launch.stdin = Stdin::Piped;
    let mut running = pool.spawn(launch).await.unwrap();
    let (mut stdin, mut stdout) = (running.take_stdin().unwrap(), running.take_stdout().unwrap().unwrap());
    for word in [b"one", b"two"] {
        stdin.write_all(word).await.unwrap();
        let mut answer = [0; 3];
        stdout.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, word);
    }
    drop(stdin);
    assert_eq!(running.wait().await, Some(ExitStatus::Code(4)));
}
