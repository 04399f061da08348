use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

use super::json::Json;

/// Calls `take` with the object that a line is, and with the text of it; returns whether it is one.
pub(super) fn with_object(line: &[u8], take: impl FnOnce(&Json<'_>, &[u8])) -> bool {
    if line.trim_ascii_start().first() != Some(&b'{') {
        return false;
    }
    if let Ok(text) = str::from_utf8(line)
        && let Ok(object) = serde_json::from_str(text)
    {
        take(&object, line);
        return true;
    }
    // Programs that cut texts by length cut characters too: half a UTF-8 sequence, or half a surrogate pair in
    // an escape, which JavaScript prints without a thought; Python prints numbers that JSON does not have. The rest
    // of such a line is worth reading.
    let mended = mend_surrogates(&String::from_utf8_lossy(line));
    let mended = mend_numbers(&mended);
    serde_json::from_str(&mended).is_ok_and(|object| {
        take(&object, mended.as_bytes());
        true
    })
}

/// Replaces `NaN`, `Infinity` and numbers as large as that with `null`.
fn mend_numbers(text: &str) -> Cow<'_, str> {
    static TEXT_OR_NUMBER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#""(?:[^"\\]|\\.)*"|-?NaN|-?Infinity|-?[0-9.]+[eE]\+?[0-9]{3,}"#).expect("a valid regex")
    });
    TEXT_OR_NUMBER.replace_all(text, |found: &Captures<'_>| {
        let is_read = found[0].starts_with('"') || found[0].parse().is_ok_and(f64::is_finite);
        if is_read { found[0].to_owned() } else { "null".to_owned() }
    })
}

/// Replaces escapes of single surrogates, which no JSON parser here accepts, with U+FFFD.
fn mend_surrogates(text: &str) -> String {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::with_capacity(text.len());
    let (mut done, mut at) = (0, 0);
    while let Some(found) = text[at..].find('\\') {
        at += found;
        let low_follows = || unit(at + 6).is_some_and(|next| (0xDC00..0xE000).contains(&next));
        match unit(at) {
            Some(0xD800..0xDC00) if low_follows() => at += 12,
            Some(0xD800..0xE000) => {
                mended.push_str(&text[done..at]);
                mended.push_str("\\ufffd");
                at += 6;
                done = at;
            }
            // Over the backslash and the character after it, which may be a backslash too.
            _ => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        }
    }
    mended.push_str(&text[done..]);
    mended
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn parse(line: &[u8]) -> Option<Value> {
        let mut found = None;
        with_object(line, |object, text| {
            found = Some(object.to_value());
            assert_eq!(serde_json::from_slice::<Value>(text).ok(), found);
        });
        found
    }

    #[test]
    fn half_a_surrogate_pair_does_not_cost_the_line() {
        let line = br#"{"a":"x\ud83d","b":"\ud83d\ude00","c":"\\ud83d","d":"\ude00\ud83d"}"#;
        let want = serde_json::json!({"a": "x\u{fffd}", "b": "😀", "c": "\\ud83d", "d": "\u{fffd}\u{fffd}"});
        assert_eq!(parse(line), Some(want));
    }

    #[test]
    fn half_a_character_does_not_cost_the_line() {
        assert_eq!(parse(b"  {\"a\":\"caf\xc3\"}\r"), Some(serde_json::json!({"a": "caf\u{fffd}"})));
    }

    #[test]
    fn a_number_that_is_none_does_not_cost_the_line() {
        let line = br#"{"a":NaN,"b":[-Infinity,1e400,-1e+999,1e0002],"c":"\"NaN, 1e400"}"#;
        let want = serde_json::json!({"a": null, "b": [null, null, null, 100.0], "c": "\"NaN, 1e400"});
        assert_eq!(parse(line), Some(want));
    }

    #[test]
    fn other_lines_are_no_objects() {
        for line in ["", "not json", "[1]", "{\"a\":", "1", "{} x", "{\"a\":\"\\"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }
}
