"""pydantic-ai."""
import asyncio
import sys
from pathlib import Path

from pydantic import BaseModel
from pydantic_ai import Agent, ModelHTTPError, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

sys.path.insert(0, str(Path(__file__).parent / "judges"))
from common import BASE, KEY, MODEL, case  # noqa: E402

NAME = "pydantic-ai"
model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=BASE, api_key=KEY))


class Event(BaseModel):
    name: str
    n: int


@case(NAME, "run")
def _():
    result = Agent(model, instructions="Be brief.").run_sync("hi")
    assert result.output.startswith("hello")


@case(NAME, "run with a tool")
def _():
    agent, called = Agent(model), []

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """The weather in a city."""
        called.append(city)
        return "sunny"

    assert agent.run_sync("weather?").output and called


@case(NAME, "typed output by a tool")
def _():
    assert isinstance(Agent(model, output_type=Event).run_sync("hi").output, Event)


@case(NAME, "typed output by json_schema")
def _():
    assert isinstance(Agent(model, output_type=NativeOutput(Event)).run_sync("hi").output, Event)


@case(NAME, "stream, and a crash")
def _():
    async def stream() -> str:
        async with Agent(model).run_stream("hi") as answer:
            return "".join([piece async for piece in answer.stream_text(delta=True)])

    assert "agent" in asyncio.run(stream())
    try:
        Agent(model).run_sync("STUB_FAIL")
    except ModelHTTPError as error:
        assert error.status_code == 500
        return
    raise AssertionError("nothing was raised")
