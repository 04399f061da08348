"""The openai SDK streams from real agents on the mock model: the text of claude and pi comes while the model writes it."""
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from openai import OpenAI

HERE = Path(__file__).resolve().parent
# Before our own folder, which has a run.py too.
sys.path[:0] = [str(HERE.parent / "agents"), str(HERE.parents[1] / "scripts")]
import run  # noqa: E402
from agents import AGENTS  # noqa: E402

sys.path.append(str(HERE / "judges"))
from common import case  # noqa: E402

NAME = "real-agents"
folder = Path(tempfile.mkdtemp(prefix="aicodebox-agents-", dir="/var/tmp"))
mock = run.Mock(folder)
troupe = run.Troupe(Path(os.environ["AICODEBOX_BINARY"]), folder, mock)


def client(name: str) -> tuple[OpenAI, str]:
    box = troupe.new_box(AGENTS[name])
    return OpenAI(base_url=f"http://127.0.0.1:{box.port}/v1", api_key="none", max_retries=0, timeout=120), AGENTS[name].models[0]


def ask(name: str, text: str):
    gateway, model = client(name)
    return gateway.chat.completions.create(model=model, stream=True, stream_options={"include_usage": True},
                                           messages=[{"role": "user", "content": text}])


def whole(name: str) -> None:
    chunks = list(ask(name, "Say hello"))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
    assert "Hello from the mock" in text and reasons == ["stop"], (text, reasons)
    usage = chunks[-1].usage
    assert usage.prompt_tokens > 0 and not getattr(usage, "estimated", False), usage


def piecemeal(name: str) -> None:
    # The mock gives five characters every half second; what was gathered would come at one time.
    arrivals = []
    stream = ask(name, "SLOW!")
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            arrivals.append(time.monotonic())
        if len(arrivals) == 6:
            break
    stream.close()
    assert len(arrivals) == 6 and arrivals[-1] - arrivals[0] > 1, [round(one - arrivals[0], 2) for one in arrivals]


try:
    for agent in ("codex", "claude", "pi"):
        case(NAME, f"{agent} streams")(lambda agent=agent: whole(agent))
    for agent in ("claude", "pi"):
        case(NAME, f"{agent} comes piece by piece")(lambda agent=agent: piecemeal(agent))
finally:
    troupe.stop()
    mock.stop()
    shutil.rmtree(folder, ignore_errors=True)
