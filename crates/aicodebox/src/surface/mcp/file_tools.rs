use aicodebox_engine::workspace::Condition;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;

use super::{
    arguments::{FileName, ListArguments, WriteArguments},
    handler::Handler,
    reply::{Refusal, Reply},
};
use crate::surface::file_answer::{DoneAnswer, ListingAnswer};

/// A file longer than this many bytes is not read: nothing that takes part in a conversation could hold it.
const READ_LIMIT: u64 = 10 << 20;

impl Handler {
    pub(super) async fn list_files(&self, arguments: &ListArguments) -> Result<Reply, Refusal> {
        // The listing of the root calls it `/`, so models ask for that.
        let path = arguments.path.as_deref().filter(|path| *path != "/").unwrap_or_default();
        let listing = ListingAnswer::from(self.workspaces.files().list(path).await?);
        let value = serde_json::to_value(&listing)?;
        Ok(Reply { text: serde_json::to_string(&listing.without_sizes())?, value })
    }

    pub(super) async fn read_file(&self, arguments: &FileName) -> Result<Reply, Refusal> {
        let file = self.workspaces.files().open(&arguments.path).await?;
        let bytes = file.read(READ_LIMIT).await?;
        let size = bytes.len();
        Ok(match String::from_utf8(bytes) {
            Ok(content) => {
                let value = json!({"path": file.path, "size": size, "content": content, "encoding": "utf-8"});
                Reply { text: content, value }
            }
            Err(other) => {
                let content = STANDARD.encode(other.as_bytes());
                let value =
                    json!({"path": file.path, "size": size, "content": content, "encoding": "base64"});
                Reply { text: value.to_string(), value }
            }
        })
    }

    pub(super) async fn write_file(&self, arguments: &WriteArguments) -> Result<Reply, Refusal> {
        let content = arguments.content.as_bytes();
        // The limit is that of the message that carried it.
        let mut upload = self.workspaces.files().write(&arguments.path, u64::MAX, Condition::Always).await?;
        upload.push(content).await?;
        let done = DoneAnswer::written(upload.finish().await?);
        Ok(Reply::new(serde_json::to_string(&done)?, &done))
    }

    pub(super) async fn delete_file(&self, arguments: &FileName) -> Result<Reply, Refusal> {
        let done =
            DoneAnswer::deleted(self.workspaces.files().delete(&arguments.path, Condition::Always).await?);
        Ok(Reply::new(serde_json::to_string(&done)?, &done))
    }
}
