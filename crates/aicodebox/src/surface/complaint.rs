use aicodebox_engine::run::RunOutcome;

/// The end of what the agent complained of on standard error, at most `most` bytes, without blanks around it. `None` when
/// there is nothing, or when `told` has it already.
pub(crate) fn complaint(outcome: &RunOutcome, most: usize, told: &str) -> Option<String> {
    let stderr = outcome.exit.as_ref()?.stderr.tail_text(most);
    let stderr = stderr.trim();
    (!stderr.is_empty() && !told.contains(stderr)).then(|| stderr.to_owned())
}
