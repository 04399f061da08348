//! What Telegram demands of a text and its entities, by the documentation of the Bot API. Also compiled into the unit
//! tests of the renderer.

use serde_json::{Value, json};

/// A text that was accepted, as Telegram shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) entities: Vec<Value>,
}

const KNOWN: &[&str] = &[
    "bold",
    "italic",
    "underline",
    "strikethrough",
    "spoiler",
    "code",
    "pre",
    "text_link",
    "blockquote",
    "expandable_blockquote",
];

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Accepts a text with entities, or with HTML where the parse mode says so.
pub(crate) fn accept(
    params: &Value,
    text: &str,
    entities: &str,
    limit: usize,
    empty_ok: bool,
) -> Result<Shown, String> {
    let source = params[text].as_str().unwrap_or_default();
    let shown = match params["parse_mode"].as_str() {
        Some("HTML") => html(source)?,
        Some(other) => return Err(format!("can't parse entities: unsupported parse_mode {other}")),
        None => Shown {
            text: source.to_owned(),
            entities: params[entities].as_array().cloned().unwrap_or_default(),
        },
    };
    if shown.text.trim().is_empty() && !empty_ok {
        return Err("message text is empty".into());
    }
    if units(&shown.text) > limit {
        return Err(if limit == 1024 { "message caption is too long" } else { "message is too long" }.into());
    }
    check(&shown)?;
    Ok(shown)
}

fn check(shown: &Shown) -> Result<(), String> {
    let wrong = |entity: &Value, what: &str| Err(format!("can't parse entities: {what}: {entity}"));
    if shown.entities.len() > 100 {
        return Err("can't parse entities: more than 100 would be dropped".into());
    }
    // UTF-16 offsets that lie between characters.
    let mut bounds = vec![0];
    for c in shown.text.chars() {
        bounds.push(bounds[bounds.len() - 1] + c.len_utf16());
    }
    let mut ranges: Vec<(usize, usize, &str)> = Vec::new();
    for entity in &shown.entities {
        let kind = entity["type"].as_str().unwrap_or_default();
        if !KNOWN.contains(&kind) {
            return wrong(entity, "unknown type");
        }
        let (Some(offset), Some(length)) = (entity["offset"].as_u64(), entity["length"].as_u64()) else {
            return wrong(entity, "offset and length are needed");
        };
        let (begin, end) = (offset as usize, (offset + length) as usize);
        if length == 0 || bounds.binary_search(&begin).is_err() || bounds.binary_search(&end).is_err() {
            return wrong(entity, "bounds are outside of the text or within a character");
        }
        if kind == "text_link" {
            let url = entity["url"].as_str().unwrap_or_default();
            if !["http://", "https://", "tg:", "mailto:"].iter().any(|scheme| url.starts_with(scheme)) {
                return wrong(entity, "unsupported URL");
            }
        }
        ranges.push((begin, end, kind));
    }
    for (index, a) in ranges.iter().enumerate() {
        for b in &ranges[..index] {
            let apart = a.1 <= b.0 || b.1 <= a.0;
            let nested = (a.0 >= b.0 && a.1 <= b.1) || (b.0 >= a.0 && b.1 <= a.1);
            if !apart && !nested {
                return Err(format!("can't parse entities: {a:?} and {b:?} overlap"));
            }
            let code = |kind| matches!(kind, "code" | "pre");
            let quote = |kind| matches!(kind, "blockquote" | "expandable_blockquote");
            let forbidden = a.2 == b.2
                || (code(a.2) && !quote(b.2))
                || (code(b.2) && !quote(a.2))
                || (quote(a.2) && quote(b.2));
            if !apart && forbidden {
                return Err(format!("can't parse entities: {} and {} cannot be nested", a.2, b.2));
            }
        }
    }
    Ok(())
}

/// HTML as Telegram takes it: a handful of tags, all closed, in order; `<`, `>` and `&` only as entities.
fn html(source: &str) -> Result<Shown, String> {
    let (mut text, mut entities, mut open) =
        (String::new(), Vec::new(), Vec::<(String, usize, Value)>::new());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        match c {
            '<' => {
                let end = rest.find('>').ok_or("can't parse entities: unclosed start tag")?;
                let tag = &rest[1..end];
                rest = &rest[end + 1..];
                if let Some(name) = tag.strip_prefix('/') {
                    let (opened, begin, mut entity) =
                        open.pop().ok_or(format!("can't parse entities: unexpected end tag </{name}>"))?;
                    if opened != name {
                        return Err(format!("can't parse entities: expected </{opened}>, found </{name}>"));
                    }
                    entity["offset"] = json!(begin);
                    entity["length"] = json!(units(&text) - begin);
                    if entity["length"] != 0 {
                        entities.push(entity);
                    }
                    continue;
                }
                let name = tag.split(' ').next().unwrap_or_default();
                let kind = match name {
                    "b" | "strong" => "bold",
                    "i" | "em" => "italic",
                    "u" | "ins" => "underline",
                    "s" | "strike" | "del" => "strikethrough",
                    "code" => "code",
                    "pre" => "pre",
                    "blockquote" => "blockquote",
                    "a" => "text_link",
                    _ => return Err(format!("can't parse entities: unsupported start tag \"{name}\"")),
                };
                let mut entity = json!({ "type": kind });
                if kind == "text_link" {
                    let url = tag.split("href=\"").nth(1).and_then(|rest| rest.split('"').next());
                    entity["url"] = json!(url.unwrap_or_default());
                }
                open.push((name.to_owned(), units(&text), entity));
            }
            '&' => {
                let known = [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&'), ("&quot;", '"')];
                let (name, c) = known
                    .iter()
                    .find(|(name, _)| rest.starts_with(name))
                    .ok_or("can't parse entities: raw &")?;
                text.push(*c);
                rest = &rest[name.len()..];
            }
            '>' => return Err("can't parse entities: raw >".into()),
            c => {
                text.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    match open.pop() {
        Some((name, ..)) => Err(format!("can't parse entities: can't find end tag for {name}")),
        None => Ok(Shown { text, entities }),
    }
}
