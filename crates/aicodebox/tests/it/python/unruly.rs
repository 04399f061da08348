use aicodebox_engine::{
    engine::WhenBusy,
    run::{AgentFault, FailureKind, Origin, RunStatus, Verdict},
};

use super::fixture::{Box_, failure, within};

const INTERNAL: FailureKind = FailureKind::Agent(AgentFault::Internal);

#[tokio::test]
async fn an_exception_fails_its_run_and_says_which() {
    let box_ = Box_::new("unruly:Unruly").await;
    let refused = box_.refused(box_.request("raise", Origin::Api)).await;
    assert_eq!(refused.kind, INTERNAL);
    assert_eq!(refused.message, "the Python adapter failed: build_argv raised KeyError: 'argv'");
    let outcome = box_.ask("raise in parse").await;
    let (kind, message) = failure(&outcome);
    assert_eq!(kind, INTERNAL);
    assert_eq!(message, "the Python adapter failed: parse_output raised RuntimeError: cannot read this");
    assert_eq!(box_.ask("well").await.text, "well");
}

#[tokio::test]
async fn an_exit_code_comes_before_a_failed_hook() {
    let box_ = Box_::new("unruly:Unruly").await;
    let outcome = box_.ask("exit").await;
    assert_eq!(failure(&outcome).0, FailureKind::Exit(3));
    assert_eq!((outcome.text.as_str(), outcome.exit_code), ("partly", 3));
    assert_eq!(outcome.status(), RunStatus::Completed);
}

#[tokio::test]
async fn a_hook_that_ends_the_process_fails_its_run_only() {
    let box_ = Box_::new("unruly:Unruly").await;
    let outcome = box_.ask("end in parse").await;
    let (kind, message) = failure(&outcome);
    assert_eq!(kind, INTERNAL);
    assert!(message.contains("the adapter's Python process ended or hung in parse_output"), "{message}");
    assert_eq!(box_.ask("well").await.text, "well");
}

#[tokio::test]
async fn while_a_hook_hangs_other_runs_go_on_and_the_run_can_be_given_up() {
    let box_ = Box_::new("unruly:Unruly").await;
    let request = box_.request("hang in parse", Origin::Api);
    let mut hanging = box_.engine.start(request, WhenBusy::Wait).await.unwrap();
    for _ in 0..10 {
        assert_eq!(box_.ask("well").await.text, "well");
    }
    assert_eq!(box_.engine.active().len(), 1);
    hanging.cancel();
    let outcome = within(6, hanging.outcome()).await.unwrap();
    assert_eq!(failure(&outcome).0, FailureKind::Cancelled);
    within(10, box_.engine.shutdown()).await;
}

#[tokio::test]
async fn a_stream_whose_hook_raises_is_stopped() {
    let box_ = Box_::new("unruly:Unruly").await;
    let mut request = box_.request("first\nraise in stream\nnever\n", Origin::OpenAi);
    request.stream = true;
    let (outcome, _) = box_.run(request).await;
    let (kind, message) = failure(&outcome);
    assert_eq!(kind, INTERNAL);
    assert!(message.contains("parse_stream_event raised RuntimeError: cannot read this line"), "{message}");
    assert_eq!(outcome.text, "first\n");
}

#[tokio::test]
async fn a_stream_whose_hook_hangs_does_not_block_the_agent_nor_the_end_of_a_cancelled_run() {
    let box_ = Box_::new("unruly:Unruly").await;
    let mut request = box_.request(&format!("hang in stream\n{}", "x\n".repeat(1 << 20)), Origin::OpenAi);
    request.stream = true;
    let mut handle = box_.engine.start(request, WhenBusy::Wait).await.unwrap();
    assert_eq!(box_.ask("well").await.verdict, Verdict::Ok);
    handle.cancel();
    let outcome = within(15, handle.outcome()).await.unwrap();
    assert_ne!(outcome.verdict, Verdict::Ok);
}
