use aicodebox_engine::workspace::OpenFile;
use axum::http::{HeaderMap, header};

/// Which bytes of a file are asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Range {
    /// All, also when several parts are asked for: a server may ignore that.
    Whole,
    /// From `start` to before `end`; at least one byte.
    Part { start: u64, end: u64 },
    /// None that it has.
    Beyond,
}

impl Range {
    /// What `Range` and `If-Range` say.
    pub(super) fn of(headers: &HeaderMap, file: &OpenFile) -> Self {
        let Some(range) = headers.get(header::RANGE).and_then(|value| value.to_str().ok()) else {
            return Self::Whole;
        };
        // Whoever has the beginning of another file needs all of this one.
        let same = headers.get(header::IF_RANGE).is_none_or(|tag| tag.as_bytes() == file.tag.as_bytes());
        if same { Self::read(range, file.size) } else { Self::Whole }
    }

    fn read(range: &str, size: u64) -> Self {
        let number =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let Some((first, last)) = range
            .split_once('=')
            .filter(|(unit, _)| unit.trim().eq_ignore_ascii_case("bytes"))
            .and_then(|(_, part)| part.trim().split_once('-'))
        else {
            return Self::Whole;
        };
        let (start, end) = match (first, number(first), last, number(last)) {
            ("", _, _, Some(length)) => (size.saturating_sub(length), size),
            (_, Some(start), "", _) => (start, size),
            (_, Some(start), _, Some(last)) if start <= last => (start, size.min(last.saturating_add(1))),
            _ => return Self::Whole,
        };
        if start < end { Self::Part { start, end } } else { Self::Beyond }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_what_is_none_is_ignored() {
        let part = |start, end| Range::Part { start, end };
        for (text, wanted) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=2-5", part(2, 6)),
            ("Bytes = 2-99", part(2, 10)),
            ("bytes=9-", part(9, 10)),
            ("bytes=-3", part(7, 10)),
            ("bytes=-99", part(0, 10)),
            ("bytes=10-", Range::Beyond),
            ("bytes=10-12", Range::Beyond),
            ("bytes=-0", Range::Beyond),
            ("bytes=0-18446744073709551615", part(0, 10)),
            ("bytes=5-2", Range::Whole),
            ("bytes=-", Range::Whole),
            ("bytes=a-b", Range::Whole),
            ("bytes=+1-2", Range::Whole),
            ("bytes=0-1,4-5", Range::Whole),
            ("lines=0-1", Range::Whole),
            ("bytes", Range::Whole),
            ("bytes=99999999999999999999-", Range::Whole),
        ] {
            assert_eq!(Range::read(text, 10), wanted, "{text}");
        }
        assert_eq!(Range::read("bytes=0-", 0), Range::Beyond);
    }
}
