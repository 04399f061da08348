use std::fmt;

use serde_json::Value;

/// Decides whether an answer is acceptable, and what it says. When it is not, the agent is asked again, at most
/// three times.
pub trait AnswerCheck: fmt::Debug + Send + Sync {
    /// Reads an answer: the value from the agent's own channel for answers by schema, where it has one and used it,
    /// else the text. Takes time in proportion to the answer, and is called off the reactor.
    ///
    /// # Errors
    /// What is wrong with it, for the model and for the user.
    fn read(&self, text: &str, structured: Option<Value>) -> Result<Value, String>;

    /// What the agent is told to do when it is asked again, after what was wrong.
    fn instruction(&self) -> &str;
}
