//! Images in messages.

use serde_json::{Value, json};

use super::support::{CHANNELS, chat, content, error};
use crate::harness::{SHELL, Server};

const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn shows(script: &str, url: &str) -> Value {
    json!({"model": "small", "messages": [{"role": "user", "content":
        [{"type": "text", "text": script}, {"type": "image_url", "image_url": {"url": url}}]}]})
}

#[test]
fn an_image_goes_by_flag_where_there_is_one_and_else_by_path() {
    let url = format!("data:image/png;base64,{PNG}");
    let by_flag = Server::new().adapter(SHELL).start();
    let text = content(chat(&by_flag, shows("echo \"$2\"; head -c 4 \"$2\" | tail -c 3", &url)));
    let (path, magic) = text.split_once('\n').unwrap();
    assert!(path.contains("/workspace/.aicodebox/images/") && path.ends_with(".png"), "{path}");
    assert_eq!(magic, "PNG");

    let by_path = Server::new().adapter(CHANNELS).start();
    let line = content(chat(&by_path, shows("cat <<'[END]'", &url)));
    let name =
        line.trim().strip_prefix("[IMAGE ").and_then(|rest| rest.strip_suffix(']')).unwrap().to_owned();
    assert!(by_path.workspace().join(name).is_file(), "{line}");
}

#[test]
fn a_bad_image_is_a_400_and_no_address_of_ours_is_reached() {
    let server = Server::new().start();
    for url in [
        "data:image/png;base64,AAAA",
        "http://127.0.0.1:1/x.png",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/x.png",
        "http://localhost/x.png",
        "file:///etc/passwd",
        "nonsense",
    ] {
        let error = error(chat(&server, shows("touch ran", url)), 400);
        assert_eq!(error["param"], "image_url", "{url}");
    }
    assert!(!server.workspace().join("ran").exists());
}
