use serde_json::Value;

use crate::run::{Tokens, Usage};

/// Reads a class's `usage`: the provider's own object, under the names that the CLIs use.
pub(super) fn usage(native: Value) -> Usage {
    let count = |names: &[&str]| names.iter().find_map(|name| native.pointer(name)?.as_u64());
    let input = count(&["/input_tokens", "/inputTokens", "/prompt_tokens", "/input"]);
    // OpenAI counts these within the input, everybody else beside it.
    let within = count(&["/cached_input_tokens", "/prompt_tokens_details/cached_tokens"]);
    let beside = count(&["/cache_read_input_tokens", "/cacheRead", "/cache_read"]);
    let cache_write = count(&["/cache_creation_input_tokens", "/cacheWrite", "/cache_write"]);
    let on_top = beside.unwrap_or_default().saturating_add(cache_write.unwrap_or_default());
    let tokens = Tokens {
        input: input.map(|input| input.saturating_add(on_top)),
        output: count(&["/output_tokens", "/outputTokens", "/completion_tokens", "/output"]),
        cache_read: within.or(beside),
        cache_write,
        reasoning: count(&[
            "/reasoning_output_tokens",
            "/reasoning_tokens",
            "/completion_tokens_details/reasoning_tokens",
        ]),
        total: count(&["/total_tokens", "/totalTokens", "/total"]),
        cost_usd: ["/total_cost_usd", "/costUsd", "/cost_usd", "/cost/total", "/cost"]
            .iter()
            .find_map(|name| native.pointer(name)?.as_f64()),
    };
    Usage { native, tokens }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_input_includes_what_came_from_a_cache_under_every_name() {
        let read = |native| {
            let tokens = usage(native).tokens;
            (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write, tokens.cost_usd)
        };
        assert_eq!(
            read(json!({"input_tokens": 3, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 5,
                        "output_tokens": 7})),
            (Some(18), Some(7), Some(10), Some(5), None)
        );
        assert_eq!(
            read(json!({"input": 3, "input_tokens": 3, "output": 7, "cacheRead": 10, "cacheWrite": 0,
                        "cost": {"total": 0.5}})),
            (Some(13), Some(7), Some(10), Some(0), Some(0.5))
        );
        assert_eq!(
            read(json!({"input_tokens": 13, "cached_input_tokens": 10, "output_tokens": 7})),
            (Some(13), Some(7), Some(10), None, None)
        );
        assert_eq!(read(json!("nothing")), (None, None, None, None, None));
    }
}
