"""What every agent must do through the HTTP API. A scenario gets a `Stage` and raises AssertionError when it fails.

The mock (mock/fixtures.json) chooses its answer by a word in the prompt: `ERR401!`, `TOOLSLEEP_CODEX!`, ….
"""
from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Callable

from agents import Agent
from box import Answer, Box, free_port
from wire import Request, Wire

HELLO = "Hello from the mock. ünïcödé ✓"
TOOL_DONE = "The tool said its piece. Done."
RED_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")

# Marker, the kinds that are right, and the seconds within which the answer must be back.
FAULTS = (
    ("ERR401", ("auth",), 10),
    ("ERR403", ("permission",), 10),
    ("ERR429", ("rate_limit",), 60),
    ("ERRQUOTA", ("quota",), 60),
    ("ERR400", ("content_filter",), 30),
    ("ERRCTX", ("context",), 60),
    ("ERR404", ("model_not_found",), 30),
    ("ERR500", ("provider",), 30),
    ("CUT", ("network", "provider"), 60),
)

SCENARIOS: dict[str, Callable[["Stage"], None]] = {}


def scenario(function: Callable[["Stage"], None]) -> Callable[["Stage"], None]:
    SCENARIOS[function.__name__] = function
    return function


@dataclass(frozen=True)
class Verified:
    """What `aicodebox verify` said."""
    code: int
    text: str
    seconds: float


@dataclass
class Stage:
    """Where one scenario plays: an agent behind a server, and a workspace of its own."""
    agent: Agent
    box: Box
    wire: Wire
    name: str
    new_box: Callable[..., Box]
    """Starts a further server for this agent alone, with these variables beside the usual ones."""
    verify: Callable[[str | None, str | None], Verified]
    """`aicodebox verify`, with the model at another address, and without a variable."""
    token: str = field(default_factory=lambda: f"[{secrets.token_hex(6)}]")

    @property
    def folder(self) -> Path:
        """The workspace, as a path."""
        path = self.box.workspace / self.name
        path.mkdir(exist_ok=True)
        return path

    def run(self, prompt: str, **body) -> Answer:
        whole = {"prompt": f"{prompt} {self.token}", "workspace": self.name, **body}
        return self.box.run(**{name: value for name, value in whole.items() if value is not None})

    def good(self, prompt: str, **body) -> dict:
        """A run that must end well; its answer."""
        answer = self.run(prompt, **body)
        assert answer.status == 200 and answer.json.get("exitCode") == 0 and "error" not in answer.json, short(answer)
        return answer.json

    def sent(self) -> list[Request]:
        found = self.wire.requests(self.token)
        assert found, "no request reached the model"
        return found

    def unescape(self, text: str) -> str:
        for put, meant in self.agent.escapes:
            text = text.replace(put, meant)
        return text

    def tool(self, marker: str) -> str:
        """The prompt on which the mock asks for this agent's shell."""
        return f"{marker}_{self.agent.name.upper()}!"


def short(answer: Answer) -> str:
    return f"{answer.status} after {answer.seconds:.1f} s: {answer.text[:1500]}"


def wait_for(what: str, condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.05)


def tokens(answer: dict) -> tuple:
    counted = answer.get("tokens") or {}
    return counted.get("input"), counted.get("output")


@scenario
def plain(stage: Stage) -> None:
    answer = stage.good("Say hello", outputFormat="json-verbose")
    assert answer["text"] == HELLO, answer["text"]
    assert tokens(answer) == (111, 22), answer.get("tokens")
    assert answer.get("sessionId"), "no session"


@scenario
def tool(stage: Stage) -> None:
    answer = stage.good(stage.tool("TOOLWRITE"), outputFormat="json-verbose")
    assert answer["text"] == TOOL_DONE, answer["text"]
    assert tokens(answer) == (222, 44), answer.get("tokens")
    assert (stage.folder / "written-by-tool.txt").read_text() == "w\n"


def fault(marker: str, kinds: tuple[str, ...], seconds: float) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        extra = stage.agent.retry_less if marker in ("ERR500", "CUT") else []
        answer = stage.run(f"{marker}!", extraArgs=extra)
        error = answer.json.get("error") or {}
        assert answer.status == 200 and error.get("kind") in stage.agent.faults.get(marker, kinds), short(answer)
        assert error.get("message"), short(answer)
        assert answer.seconds <= seconds, f"back only after {answer.seconds:.1f} s"
    return play


for _marker, _kinds, _seconds in FAULTS:
    SCENARIOS[_marker.lower()] = fault(_marker, _kinds, _seconds)

ALONE = {marker.lower() for marker, _, seconds in FAULTS if seconds <= 10}
"""Played with nothing beside them: their limit is about giving up soon, and beside others the start alone takes longer."""


@scenario
def model(stage: Stage) -> None:
    other = stage.agent.models[1]
    stage.good("Say hello", model=other)
    assert stage.sent()[-1].model == other.rsplit("/", 1)[-1], stage.sent()[-1].model


@scenario
def effort(stage: Stage) -> None:
    stage.good("Say hello", thinking="high")
    seen = stage.sent()[-1].effort
    assert seen == ("high" if stage.agent.effort == "sent" else None), seen


@scenario
def system_prompt(stage: Stage) -> None:
    stage.good("Say hello", workspace=f"{stage.name}-own")
    own = stage.sent()[-1].system
    stage.token = f"[{secrets.token_hex(6)}]"
    stage.good("Say hello", systemPrompt="You are a pirate. Say arr.")
    replaced = stage.sent()[-1].system
    assert "You are a pirate. Say arr." in replaced, replaced[:500]
    assert own[:200] not in replaced, "the agent's own system prompt is still there"


@scenario
def append_system_prompt(stage: Stage) -> None:
    stage.good("Say hello", appendSystemPrompt="Answer in Latin only.")
    request = stage.sent()[-1]
    seen = request.system if stage.agent.append == "system" else request.user
    assert "Answer in Latin only." in seen, seen[-500:]


@scenario
def no_tools(stage: Stage) -> None:
    stage.run(stage.tool("TOOLWRITE"), noTools=True)
    assert not (stage.folder / "written-by-tool.txt").exists(), "the tool ran all the same"


@scenario
def tools_list(stage: Stage) -> None:
    answer = stage.run("Say hello", toolsAllowlist=list(stage.agent.tools[1:]) or ["Read"])
    if not stage.agent.tools:
        assert answer.status == 422, short(answer)
        return
    assert answer.status == 200 and answer.json.get("exitCode") == 0, short(answer)
    offered = stage.sent()[-1].tools
    assert not offered & set(stage.agent.shells), f"the shell is offered: {sorted(offered)}"


@scenario
def session(stage: Stage) -> None:
    first = stage.good("Say hello", outputFormat="json-verbose")
    second = stage.good("This is the second turn", outputFormat="json-verbose")
    third = stage.good("And a third", outputFormat="json-verbose")
    assert first["sessionId"] == second["sessionId"] == third["sessionId"], [x["sessionId"] for x in (first, second, third)]
    assert second["text"] == "I remember the first turn. Second answer.", second["text"]
    assert [tokens(x) for x in (first, second, third)] == [(111, 22)] * 3, [x.get("tokens") for x in (first, second, third)]
    heard = stage.sent()[-1].user
    assert "Say hello" in heard and "second turn" in heard, "the third turn did not carry the first two"
    fresh = stage.good("Say hello", noContinue=True, outputFormat="json-verbose")
    assert fresh["sessionId"] != first["sessionId"], "noContinue continued"
    named = stage.good("Say hello", resume=first["sessionId"], outputFormat="json-verbose")
    assert named["sessionId"] == first["sessionId"], named["sessionId"]
    assert tokens(named) == (111, 22), named.get("tokens")


@scenario
def session_not_found(stage: Stage) -> None:
    answer = stage.run("Say hello", resume="01a228b1-0000-7000-8000-000000000000")
    assert (answer.json.get("error") or {}).get("kind") == "session_not_found", short(answer)


PERSON = {"type": "object", "required": ["name", "age"], "additionalProperties": False,
          "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}


def all_counted(stage: Stage, answer: dict) -> bool:
    """Whether the usage is the sum of what every request to the model cost, and that of the attempts."""
    requests = len(stage.sent())
    assert requests >= len(answer["attempts"]), f"{requests} requests in {len(answer['attempts'])} attempts"
    total = numbers(answer["usage"])
    parts = [numbers(attempt["usage"]) for attempt in answer["attempts"]]
    summed = {name: sum(part.get(name, 0) for part in parts) for name in total}
    assert all(abs(summed[name] - total[name]) < 1e-9 for name in total), f"{parts} are not {total}"
    return tokens(answer) == (111 * requests, 22 * requests)


def numbers(value, name: str = "") -> dict[str, float]:
    """Every number in a usage object, by its path."""
    match value:
        case bool():
            return {}
        case int() | float():
            return {name: value}
        case dict():
            return {path: number for key, inner in value.items() for path, number in numbers(inner, f"{name}/{key}").items()}
    return {}


def schema_met(stage: Stage, **body) -> dict:
    """Two answers miss the schema, the third meets it."""
    answer = stage.good("MISSTWICE!", jsonSchema=PERSON, **body)
    assert answer.get("json") == {"name": "Ada", "age": 36} and answer.get("jsonRetries") == 2, answer
    wrong = [attempt["parseError"] for attempt in answer["attempts"]]
    assert "no JSON was found" in wrong[0] and '"age" is a required property' in wrong[1] and wrong[2] is None, wrong
    assert all_counted(stage, answer), f"{answer['tokens']} in {len(stage.sent())} requests"
    last = stage.sent()[-1].user
    assert '"age" is a required property' in last, f"the last request does not hold the correction: {last[-1500:]}"
    assert last.count(stage.token) == 1, f"the last request holds the task {last.count(stage.token)} times"
    assert {event["attempt"] for event in answer["events"]} == {0, 1, 2}
    return answer


@scenario
def schema_continued(stage: Stage) -> None:
    answer = schema_met(stage, ephemeral=True, workspace=None)
    assert answer.get("sessionId"), "no session"
    heard = stage.sent()[-1]
    assert "no JSON was found" in heard.user, "the conversation was not continued: it does not hold the first correction"


@scenario
def schema_fresh(stage: Stage) -> None:
    schema_met(stage)
    heard = stage.sent()[-1].user
    assert "no JSON was found" not in heard, "the third attempt went on with the conversation of the second"


@scenario
def schema_never(stage: Stage) -> None:
    answer = stage.run("NOTJSON!", jsonSchema=PERSON).json
    assert answer.get("exitCode") == 0 and answer.get("jsonRetries") == 3 and "json" not in answer, answer
    assert "no JSON was found" in answer.get("parseError", ""), answer.get("parseError")
    assert len(answer["attempts"]) == 4 and all(attempt["parseError"] for attempt in answer["attempts"]), answer["attempts"]
    assert all_counted(stage, answer), f"{answer['tokens']} in {len(stage.sent())} requests"
    for name in ("runId", "workspace", "text", "sessionId", "usage", "tokens", "events"):
        assert answer.get(name), f"{name} is missing"


@scenario
def images(stage: Stage) -> None:
    (stage.folder / "red.png").write_bytes(RED_PIXEL)
    answer = stage.run("Describe it", images=["red.png"])
    if not stage.agent.images:
        assert answer.status == 422 and answer.json.get("field") == "images", short(answer)
        return
    assert answer.status == 200 and answer.json.get("exitCode") == 0, short(answer)
    assert stage.sent()[-1].images, "the model got no image"


@scenario
def literal_prompts(stage: Stage) -> None:
    (stage.folder / "note.txt").write_text("the content of the note")
    for lead in ("-x --help", "/context", "/help me", "@note.txt what is this", "see @note.txt"):
        stage.token = f"[{secrets.token_hex(6)}]"
        answer = stage.run(lead, noContinue=True)
        if answer.status in (400, 413, 422):
            continue
        assert answer.status == 200 and answer.json.get("exitCode") == 0, f"{lead}: {short(answer)}"
        request = stage.sent()[-1]
        assert f"{lead} {stage.token}" in stage.unescape(request.user), f"{lead}: {request.user[-500:]}"
        assert "the content of the note" not in request.raw, f"{lead}: the file was attached"


@scenario
def big_prompt(stage: Stage) -> None:
    answer = stage.run("word " * 200_000)
    if answer.status != 413:
        assert answer.status == 200 and answer.json.get("text") == HELLO, short(answer)
        assert len(stage.sent()[-1].user) >= 1_000_000
    answer = stage.run("word " * 300_000, noContinue=True)
    assert answer.status == 413 or answer.json.get("text") == HELLO, short(answer)
    assert answer.status == 200 or "prompt" in answer.json.get("detail", ""), short(answer)


@scenario
def stop(stage: Stage) -> None:
    """Cancel one of two runs in the middle of `sleep 97`, and let the other one reach its time limit."""
    box = stage.new_box()
    try:
        limit = round(stage.agent.start_seconds + 15)
        (box.workspace / "cancelled").mkdir()
        (box.workspace / "limited").mkdir()
        prompt = f"{stage.tool('TOOLSLEEP')} {stage.token}"
        one = box.run(prompt=prompt, workspace="cancelled", **{"async": True}).json["runId"]
        wait_for("the first tool", (box.workspace / "cancelled" / "started.txt").exists, 60)
        first = set(box.agents())
        assert first, "no process of the first run was found"

        begun = time.monotonic()
        other = box.run(prompt=prompt, workspace="limited", timeoutSeconds=limit, **{"async": True}).json["runId"]
        wait_for("the second tool", (box.workspace / "limited" / "started.txt").exists, limit)
        second = {pid: command for pid, command in box.agents().items() if pid not in first}
        # An agent may have helpers beside its tool that come and go by themselves.
        tool = {pid for pid, command in second.items() if "sleep 97" in command}
        assert tool, f"no process of the second run's tool was found: {second}"

        answer = box.request("DELETE", f"/run/{one}")
        assert answer.status == 200 and answer.json.get("status") == "cancelled", short(answer)
        assert answer.seconds <= 3.5, f"DELETE took {answer.seconds:.1f} s"
        wait_for("the end of the first run's processes", lambda: not set(box.agents()) - set(second), 3)
        assert tool <= set(box.agents()), "the second run was touched"
        assert box.request("GET", f"/run/result?runId={other}").json.get("status") == "running"

        wait_for("the time limit", lambda: status(box, other) != "running", limit + 5)
        assert status(box, other) == "timed_out", status(box, other)
        assert time.monotonic() - begun <= limit + 4, f"{time.monotonic() - begun:.1f} s for a limit of {limit} s"
        wait_for("the end of the second run's processes", lambda: not box.agents(), 3)
        for name in ("cancelled", "limited"):
            assert not (box.workspace / name / "finished.txt").exists(), f"{name}: the tool went on"
    finally:
        box.stop()


@scenario
def verify(stage: Stage) -> None:
    """An account in every state: each is told within a minute."""
    refused, limited = (refusing(status) for status in (401, 429))
    states = [("signed in; it answered", None, None), ("not signed in", refused, None),
              ("rate limited", limited, None), ("cannot be reached", f"http://127.0.0.1:{free_port()}", None)]
    if stage.agent.key:
        states.append(("not signed in", None, stage.agent.key))
    for words, address, without in states:
        said = stage.verify(address, without)
        assert words in said.text, f"{words}: {said}"
        assert (said.code == 0) == (words.startswith("signed in")), said
        assert said.seconds <= 60, f"{words}: only after {said.seconds:.1f} s"


def refusing(status: int) -> str:
    """The address of a provider that answers every request with this status, in the words of all three APIs."""
    kind, code, name = {401: ("authentication_error", "invalid_api_key", "UNAUTHENTICATED"),
                        429: ("rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED")}[status]
    error = {"type": kind, "code": code, "status": name, "message": f"{kind}: refused by the test"}
    body = json.dumps({"type": "error", "error": error}).encode()

    class Refusing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def status(box: Box, run: str) -> str | None:
    return box.request("GET", f"/run/result?runId={run}").json.get("status")
