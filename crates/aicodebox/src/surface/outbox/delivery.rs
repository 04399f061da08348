use serde::Serialize;

/// What became of a letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Delivery {
    /// Where it went: the new id of a group that has moved.
    pub(crate) chat: i64,
    /// Ids of the messages that arrived.
    pub(crate) messages: Vec<i32>,
    /// Why not all of it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}
