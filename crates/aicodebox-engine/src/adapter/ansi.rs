use std::borrow::Cow;

/// Takes colours and cursor movements (`ESC [ … letter`) out of a text.
pub(super) fn strip(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        let parameters = |c: char| c.is_ascii_digit() || c == ';' || c == '?';
        let end = after.strip_prefix('[').map(|after| after.trim_start_matches(parameters));
        match end.and_then(|end| end.strip_prefix(|c: char| c.is_ascii_alphabetic())) {
            Some(end) => rest = end,
            None => {
                plain.push('\u{1b}');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_and_everything_else_stays() {
        assert_eq!(strip("\u{1b}[1;31mred\u{1b}[0m and \u{1b}[?25lplain"), "red and plain");
        assert_eq!(strip("é\u{1b}x \u{1b}[12 \u{1b}"), "é\u{1b}x \u{1b}[12 \u{1b}");
    }
}
