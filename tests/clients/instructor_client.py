"""instructor."""
import sys
from pathlib import Path

import instructor
from openai import OpenAI
from pydantic import BaseModel

sys.path.insert(0, str(Path(__file__).parent / "judges"))
from common import BASE, KEY, MODEL, case  # noqa: E402

NAME = "instructor"


class Event(BaseModel):
    name: str
    n: int


def ask(mode: instructor.Mode) -> Event:
    client = instructor.from_openai(OpenAI(base_url=BASE, api_key=KEY, max_retries=0), mode=mode)
    return client.chat.completions.create(model=MODEL, response_model=Event, max_retries=1,
                                          messages=[{"role": "user", "content": "hi"}])


@case(NAME, "TOOLS")
def _():
    assert isinstance(ask(instructor.Mode.TOOLS), Event)


@case(NAME, "JSON_SCHEMA")
def _():
    assert isinstance(ask(instructor.Mode.JSON_SCHEMA), Event)


@case(NAME, "TOOLS_STRICT")
def _():
    assert isinstance(ask(instructor.Mode.TOOLS_STRICT), Event)
