"""LiteLLM's SDK."""
import json
import os
import sys
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices
import litellm  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent / "judges"))
from common import BASE, KEY, MODEL, case  # noqa: E402

NAME = "litellm"
COMMON = {"model": f"openai/{MODEL}", "api_base": BASE, "api_key": KEY, "num_retries": 0, "max_retries": 0}
USER = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


@case(NAME, "completion with usage")
def _():
    answer = litellm.completion(messages=USER, **COMMON)
    assert answer.choices[0].message.content.startswith("hello") and answer.usage.total_tokens > 0


@case(NAME, "stream with usage")
def _():
    chunks = list(litellm.completion(messages=USER, stream=True, stream_options={"include_usage": True}, **COMMON))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "agent" in text and any(getattr(chunk, "usage", None) for chunk in chunks), text


@case(NAME, "tool calls, and their results")
def _():
    call = litellm.completion(messages=USER, tools=TOOLS, **COMMON).choices[0]
    assert call.finish_reason == "tool_calls"
    tool = call.message.tool_calls[0]
    json.loads(tool.function.arguments)
    result = {"role": "tool", "tool_call_id": tool.id, "content": "sunny"}
    answer = litellm.completion(messages=[*USER, call.message.model_dump(), result], tools=TOOLS, **COMMON)
    assert answer.choices[0].finish_reason == "stop"


@case(NAME, "streamed tool calls")
def _():
    chunks = list(litellm.completion(messages=USER, tools=TOOLS, stream=True, **COMMON))
    whole = litellm.stream_chunk_builder(chunks, messages=USER)
    assert whole.choices[0].message.tool_calls[0].function.name == "get_weather"
    assert whole.choices[0].finish_reason == "tool_calls"


@case(NAME, "json_schema")
def _():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    answer = litellm.completion(messages=USER, **COMMON, response_format={
        "type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    assert isinstance(json.loads(answer.choices[0].message.content)["n"], int)


@case(NAME, "errors have their classes")
def _():
    for text, wanted in (("STUB_FAIL", litellm.InternalServerError), ("STUB_PROVIDER_ERROR", litellm.RateLimitError)):
        try:
            litellm.completion(messages=[{"role": "user", "content": text}], **COMMON)
        except wanted:
            continue
        raise AssertionError(f"{text} raised nothing")
