"""LangChain's ChatOpenAI."""
import sys
from pathlib import Path

import openai
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

sys.path.insert(0, str(Path(__file__).parent / "judges"))
from common import BASE, KEY, MODEL, case  # noqa: E402

NAME = "langchain"
model = ChatOpenAI(model=MODEL, base_url=BASE, api_key=KEY, max_retries=0)


class Event(BaseModel):
    name: str
    n: int


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@case(NAME, "invoke with a system message")
def _():
    answer = model.invoke([SystemMessage("Be brief."), HumanMessage("hi")])
    assert answer.content.startswith("hello") and answer.usage_metadata["total_tokens"] > 0


@case(NAME, "stream")
def _():
    chunks = list(model.stream("hi", stream_usage=True))
    assert len(chunks) > 3 and "agent" in "".join(chunk.content for chunk in chunks)
    assert any(chunk.usage_metadata for chunk in chunks)


@case(NAME, "a tool is called and its result answered")
def _():
    bound, messages = model.bind_tools([get_weather]), [HumanMessage("weather?")]
    call = bound.invoke(messages)
    assert call.tool_calls[0]["name"] == "get_weather", call
    result = ToolMessage(get_weather.invoke(call.tool_calls[0]["args"]), tool_call_id=call.tool_calls[0]["id"])
    assert bound.invoke([*messages, call, result]).content


@case(NAME, "structured output by json_schema")
def _():
    assert isinstance(model.with_structured_output(Event, method="json_schema").invoke("hi"), Event)


@case(NAME, "structured output by a forced tool")
def _():
    assert isinstance(model.with_structured_output(Event, method="function_calling").invoke("hi"), Event)


@case(NAME, "a crash is an error, streamed too")
def _():
    for ask in (lambda: model.invoke("STUB_FAIL"), lambda: list(model.stream("STUB_FAIL"))):
        try:
            ask()
        except openai.APIError:
            continue
        raise AssertionError("nothing was raised")
