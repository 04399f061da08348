"""The interface of an adapter: a class that says how one agent CLI is started and how its output is read."""

from __future__ import annotations

import importlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional

from aicodebox.adapters.json_answer import parse_json_response, strip_json_fences

__all__ = [
    "AgentAdapter",
    "ProcHook",
    "RunRequest",
    "RunResult",
    "StreamEvent",
    "get_adapter",
    "parse_json_response",
    "reset_adapter_cache",
    "strip_json_fences",
]

ProcHook = Optional[Callable[[subprocess.Popen], None]]

OUTPUT_FORMATS = ("text", "json", "json-verbose")
EVENT_MODES = ("none", "full")


@dataclass
class RunRequest:
    """What one run is asked to do. One object serves a run from ``validate`` to its last ``parse_…`` call."""

    prompt: str = ""
    workspace: str = ""
    model: str | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    json_schema: dict | None = None
    #: "text", "json" or "json-verbose".
    output_format: str = "text"
    #: True: a conversation that nobody will continue. False: continue the agent's last one in the workspace,
    #: or keep a new one.
    no_continue: bool = False
    #: Id of the conversation to continue; wins over ``no_continue``.
    resume: str | None = None
    extra_args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    timeout_seconds: int | None = None
    #: Always None: the gateway starts and stops the process, not Python.
    proc_hook: ProcHook = None
    thinking: str | None = None
    tools_allowlist: list[str] | None = None
    no_tools: bool = False
    #: "full": the provider's own records are wanted (``parse_events``); "none": they are not.
    event_mode: str = "none"


@dataclass
class RunResult:
    """What the output of a finished agent says. The gateway itself knows stdout, stderr and the exit code."""

    text: str
    raw_stdout: str
    raw_stderr: str
    exit_code: int
    session_id: str = ""
    #: The answer to a JSON schema, and why there is none.
    parsed: Any = None
    parse_error: str | None = None
    #: What the model's provider complained about; makes the run fail.
    provider_error: str | None = None
    #: The provider's own counters.
    usage: dict[str, Any] | None = None
    attempts: list[dict[str, Any]] | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    event_attempts: list[list[dict[str, Any]]] | None = None


@dataclass
class StreamEvent:
    """What one line of a streaming agent means.

    ``type`` is "delta" (``text`` is a piece of the answer), "session" (``data["id"]``), "usage" (``data`` are the
    counters), "stop" (``data["reason"]``, perhaps ``data["usage"]``), "error" (``text`` says what went wrong) or
    "raw".
    """

    type: str
    text: str = ""
    data: dict | None = None


class AgentAdapter:
    """Base class of adapters. Only ``build_argv`` must be written; one object serves all runs, from many threads."""

    name: ClassVar[str] = ""
    binary: ClassVar[str] = ""
    #: What is offered to choose from; empty = any text.
    available_models: ClassVar[list[str]] = []
    available_thinking_levels: ClassVar[list[str]] = []

    def validate(self, req: RunRequest) -> None:
        """Raises ValueError for a request that this agent cannot honour; its text reaches the caller."""
        if req.output_format not in OUTPUT_FORMATS:
            raise ValueError(f"output_format: {req.output_format!r} is none of {', '.join(OUTPUT_FORMATS)}")
        if req.event_mode not in EVENT_MODES:
            raise ValueError(f"event_mode: {req.event_mode!r} is none of {', '.join(EVENT_MODES)}")

    def build_argv(self, req: RunRequest) -> list[str]:
        """The command line. The prompt is also written to the agent's standard input."""
        raise NotImplementedError(f"{type(self).__name__} has no build_argv")

    def build_env(self, req: RunRequest) -> dict[str, str]:
        """The agent's whole environment."""
        env = dict(os.environ)
        env.update(self.translate_auth(env))
        env.update(req.env or {})
        return env

    def translate_auth(self, env: dict[str, str]) -> dict[str, str]:
        """Variables to add, because the agent knows a key by another name."""
        return {}

    def parse_output(self, stdout: str, req: RunRequest) -> RunResult:
        """Reads the whole output of a run that was not streamed."""
        return RunResult(text=stdout.strip(), raw_stdout=stdout, raw_stderr="", exit_code=0)

    def post_validate_json(self, result: RunResult, req: RunRequest) -> None:
        """Fills ``parsed`` and ``parse_error`` from the text when a schema was asked for. ``parse_output`` may call it."""
        if req.json_schema and result.exit_code == 0:
            result.parsed, result.parse_error = parse_json_response(result.text or "", req.json_schema)

    def parse_events(self, stdout: str, req: RunRequest) -> list[dict[str, Any]]:
        """The provider's own records in the output, untouched; asked for only when they are wanted."""
        return []

    def parse_stream_event(self, line: str, req: RunRequest) -> StreamEvent | None:
        """Reads one line of a streaming run; None = the line says nothing."""
        return StreamEvent(type="delta", text=line + "\n") if line else None

    def interactive_argv(self, workspace: str) -> list[str]:
        """The command line of the agent at a terminal."""
        return [self.binary]

    def passthrough_argv(self, args: list[str]) -> list[str]:
        """The command line for arguments that a user gave."""
        return [self.binary, *args]

    def auth_paths(self) -> list[str]:
        """Files in which the agent keeps its login."""
        return []


_adapter: AgentAdapter | None = None


def get_adapter(ref: str | None = None) -> AgentAdapter:
    """The one adapter of this process, made at the first call from ``ref`` or ``$AICODEBOX_ADAPTER``.

    Raises RuntimeError when there is no such adapter, and whatever importing its module raises.
    """
    global _adapter
    if _adapter is None:
        ref = ref or os.environ.get("AICODEBOX_ADAPTER", "")
        module, colon, name = ref.partition(":")
        if not (module and colon and name):
            raise RuntimeError(f"AICODEBOX_ADAPTER must be package.module:Class, it is {ref!r}")
        found = getattr(importlib.import_module(module), name, None)
        if found is None:
            raise RuntimeError(f"the module {module} has no {name}")
        adapter = found()
        if not isinstance(adapter, AgentAdapter):
            raise RuntimeError(f"{ref} is no aicodebox.adapters.base.AgentAdapter")
        _adapter = adapter
    return _adapter


def reset_adapter_cache() -> None:
    """Forgets the adapter, so that the next ``get_adapter`` makes a new one. For tests."""
    global _adapter
    _adapter = None
