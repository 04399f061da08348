use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Token counts that mean the same for every agent. `None` = the agent did not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    /// All input tokens, cached ones included.
    pub input: Option<u64>,
    /// Generated tokens.
    pub output: Option<u64>,
    /// The part of `input` that was read from a cache.
    pub cache_read: Option<u64>,
    /// The part of `input` that was written to a cache.
    pub cache_write: Option<u64>,
    /// The part of the output that was reasoning.
    pub reasoning: Option<u64>,
    /// The provider's own total, where it gives one.
    pub total: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

/// What a run consumed: the provider's own object and its canonical reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The provider's object; over several steps or attempts numbers are added at any depth, the rest keeps
    /// its first value.
    #[serde(with = "super::json_text")]
    pub native: Value,
    /// The same in our words.
    pub tokens: Tokens,
}

/// The counters of a whole session after a run, kept so that the next run of it can be told apart
/// (codex reports totals of the thread).
pub type SessionTotals = Usage;

impl Tokens {
    /// Adds `other`, field by field; a field that neither knows stays unknown.
    pub fn add(&mut self, other: &Self) {
        // Saturating: the numbers are an agent's, and may be anything.
        let sum = |mine: &mut Option<u64>, other: Option<u64>| {
            *mine = mine.zip(other).map(|(a, b)| a.saturating_add(b)).or(*mine).or(other);
        };
        sum(&mut self.input, other.input);
        sum(&mut self.output, other.output);
        sum(&mut self.cache_read, other.cache_read);
        sum(&mut self.cache_write, other.cache_write);
        sum(&mut self.reasoning, other.reasoning);
        sum(&mut self.total, other.total);
        self.cost_usd =
            self.cost_usd.zip(other.cost_usd).map(|(a, b)| a + b).or(self.cost_usd).or(other.cost_usd);
    }
}

impl Usage {
    /// Adds another attempt or step.
    pub fn add(&mut self, other: &Self) {
        add_numbers(&mut self.native, &other.native);
        self.tokens.add(&other.tokens);
    }
}

/// Adds the numbers of `other` to those at the same place in `sum`; what `sum` lacks is taken over.
pub(crate) fn add_numbers(sum: &mut Value, other: &Value) {
    match (sum, other) {
        (Value::Number(a), Value::Number(b)) => {
            let integers = a.as_i64().zip(b.as_i64()).and_then(|(x, y)| x.checked_add(y)).map(Into::into);
            let floats = || serde_json::Number::from_f64(a.as_f64()? + b.as_f64()?);
            if let Some(total) = integers.or_else(floats) {
                *a = total;
            }
        }
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in b {
                match a.get_mut(key) {
                    Some(mine) => add_numbers(mine, value),
                    None => {
                        a.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for (mine, value) in a.iter_mut().zip(b) {
                add_numbers(mine, value);
            }
        }
        _ => {}
    }
}

/// Takes the numbers of `other` off those at the same place in `left`; everything else stays.
pub(crate) fn subtract_numbers(left: &mut Value, other: &Value) {
    match (left, other) {
        (Value::Number(a), Value::Number(b)) => {
            let integers = a.as_i64().zip(b.as_i64()).and_then(|(x, y)| x.checked_sub(y)).map(Into::into);
            let floats = || serde_json::Number::from_f64(a.as_f64()? - b.as_f64()?);
            if let Some(rest) = integers.or_else(floats) {
                *a = rest;
            }
        }
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in b {
                if let Some(mine) = a.get_mut(key) {
                    subtract_numbers(mine, value);
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for (mine, value) in a.iter_mut().zip(b) {
                subtract_numbers(mine, value);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_add_at_any_depth_and_the_rest_keeps_its_first_value() {
        let mut sum = json!({"in": 1, "tier": "a", "deep": {"x": 1.5, "list": [1, 2]}});
        add_numbers(&mut sum, &json!({"in": 2, "tier": "b", "deep": {"x": 1, "y": 7, "list": [10, 20]}}));
        assert_eq!(sum, json!({"in": 3, "tier": "a", "deep": {"x": 2.5, "list": [11, 22], "y": 7}}));
    }

    #[test]
    fn what_an_agent_reports_cannot_overflow() {
        let tokens = |input| Tokens { input: Some(input), ..Tokens::default() };
        let mut sum = Tokens::default();
        for (more, expected) in [(2, 2), (u64::MAX, u64::MAX), (1, u64::MAX)] {
            sum.add(&tokens(more));
            assert_eq!(sum, tokens(expected));
        }
    }

    #[test]
    fn what_was_there_before_is_taken_off_at_any_depth() {
        let mut left = json!({"in": 3, "tier": "a", "deep": {"x": 2.5, "list": [11, 22], "y": 7}});
        subtract_numbers(&mut left, &json!({"in": 1, "tier": "b", "deep": {"x": 1, "list": [1], "z": 9}}));
        assert_eq!(left, json!({"in": 2, "tier": "a", "deep": {"x": 1.5, "list": [10, 22], "y": 7}}));
    }
}
