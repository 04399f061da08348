//! What people write in a schedule, in the words of croner: the two differ in four places.

/// One of the six fields.
struct Field {
    name: &'static str,
    /// The largest value, for a step without an end.
    max: u8,
    /// Words that may stand in it.
    words: &'static [&'static str],
}

const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "L"];
const FIELDS: [Field; 6] = [
    Field { name: "second", max: 59, words: &[] },
    Field { name: "minute", max: 59, words: &[] },
    Field { name: "hour", max: 23, words: &[] },
    Field { name: "day of month", max: 31, words: &["L", "W", "LW"] },
    Field { name: "month", max: 12, words: MONTHS },
    Field { name: "day of week", max: 6, words: WEEKDAYS },
];

/// A schedule as six fields that croner reads as it was meant.
pub(super) struct Normal {
    /// The fields, seconds first.
    pub(super) pattern: String,
    /// Whether second, minute or hour is "every": such a schedule follows real time.
    pub(super) interval: bool,
}

/// Rewrites a schedule of five or six fields, or an alias.
///
/// # Errors
/// What is wrong with it; whatever croner would take for something else than was meant is refused here.
pub(super) fn normalise(text: &str) -> Result<Normal, String> {
    let upper = text.trim().to_ascii_uppercase();
    let expanded = match upper.as_str() {
        "" => {
            return Err(
                "is empty: give five fields (minute hour day month weekday), or six with seconds".into()
            );
        }
        "@YEARLY" | "@ANNUALLY" => "0 0 1 1 *",
        "@MONTHLY" => "0 0 1 * *",
        "@WEEKLY" => "0 0 * * 0",
        "@DAILY" | "@MIDNIGHT" => "0 0 * * *",
        "@HOURLY" => "0 * * * *",
        alias if alias.starts_with('@') => return Err(format!("there is no alias {text}")),
        fields => fields,
    };
    let mut fields: Vec<&str> = expanded.split_whitespace().collect();
    if fields.len() == 5 {
        fields.insert(0, "0");
    }
    if fields.len() != FIELDS.len() {
        return Err(format!("has {} fields: five or six (seconds first) are needed", fields.len()));
    }
    let interval = fields[..3].iter().any(|field| field.contains('*'));
    let fields: Result<Vec<_>, _> =
        FIELDS.iter().zip(fields).map(|(field, text)| field.normalise(text)).collect();
    Ok(Normal { pattern: fields?.join(" "), interval })
}

/// The name and the text of the first field that `is_wrong` when all others are "every".
pub(super) fn fault(pattern: &str, is_wrong: impl Fn(&str) -> bool) -> String {
    let fields = FIELDS.iter().zip(pattern.split(' ')).enumerate();
    let mut wrong = fields.filter(|(index, (_, text))| {
        let mut alone = ["*"; FIELDS.len()];
        alone[*index] = text;
        is_wrong(&alone.join(" "))
    });
    wrong.next().map_or_else(String::new, |(_, (field, text))| format!("{} {text:?}", field.name))
}

impl Field {
    fn normalise(&self, text: &str) -> Result<String, String> {
        let items: Result<Vec<_>, _> = text.split(',').map(|item| self.item(item)).collect();
        items.map(|items| items.join(",")).map_err(|wrong| format!("{} {text:?}: {wrong}", self.name))
    }

    fn item(&self, item: &str) -> Result<String, String> {
        // croner reads `1,,2` as `1,2`: a number that was forgotten would be passed over.
        if item.is_empty() {
            return Err("an item of the list is empty".into());
        }
        // croner would take a name in any field for its number, and `+` for a rule of its own.
        let words = item.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
        for word in words {
            let last = word.strip_suffix('L').filter(|name| self.words.contains(&"L") && !name.is_empty());
            if !self.words.contains(&word) && !last.is_some_and(|name| self.words.contains(&name)) {
                return Err(format!("{word} means nothing here"));
            }
        }
        if let Some(strange) = item.chars().find(|c| !c.is_ascii_alphanumeric() && !"*/-#?".contains(*c)) {
            return Err(format!("{strange:?} means nothing here"));
        }
        let max = self.max;
        Ok(match (item.split_once('/'), item.strip_prefix('L')) {
            (Some((start, step)), _) if !start.contains(['-', '*', '?']) => format!("{start}-{max}/{step}"),
            (None, Some(day)) if self.words == WEEKDAYS && !day.is_empty() => format!("{day}L"),
            _ => item.to_owned(),
        })
    }
}
