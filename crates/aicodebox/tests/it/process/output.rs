use aicodebox_engine::run::{EndedBy, ExitStatus};

use super::support::{agent, pool, run};

#[tokio::test]
async fn an_agent_answers() {
    let pool = pool().await;
    let (exit, stdout) = run(&pool, agent("--say hi --exit 3")).await;
    assert_eq!(stdout, b"hi\n");
    assert_eq!(exit.status, Some(ExitStatus::Code(3)));
    assert_eq!(exit.ended_by, EndedBy::Itself);
}
