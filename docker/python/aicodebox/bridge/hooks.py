"""Turns calls of the gateway into calls of the adapter's hooks."""

from __future__ import annotations

import logging
import os
import threading
import traceback
from collections import OrderedDict
from typing import Any

from aicodebox.adapters.base import AgentAdapter, RunRequest
from aicodebox.bridge.channel import dumps

log = logging.getLogger("aicodebox.bridge")

#: Requests that are kept for a later call. A run whose request was forgotten sends it again.
MAX_RUNS = 4096
#: Records of one run beyond this are left out.
MAX_EVENT_CHARS = 32 << 20


class CallError(Exception):
    """An error that goes to the gateway as it is."""

    def __init__(self, type_: str, message: str) -> None:
        super().__init__(message)
        self.type = type_


class Hooks:
    """The adapter with the requests of its runs. Methods are called from many threads, those of one run in order."""

    def __init__(self, adapter: AgentAdapter, environment: dict[str, str]) -> None:
        self._adapter = adapter
        #: As the gateway gave it, before the adapter's module could change it.
        self._environment = environment
        self._requests: OrderedDict[int, RunRequest] = OrderedDict()
        self._lock = threading.Lock()

    def call(self, call: dict[str, Any]) -> dict[str, Any]:
        """Does one call and gives the ``ok`` part of its answer, or raises CallError."""
        do = {"plan": self._plan, "lines": self._lines, "parse": self._parse}.get(call.get("do"))
        if do is None:
            raise CallError("bad_call", f"unknown call {call.get('do')!r}")
        try:
            return do(self._request(call), call)
        except BaseException:
            if do == self._plan:
                self.close(call.get("run"))
            raise

    def close(self, run: Any) -> None:
        """Forgets the request of a run that is over."""
        with self._lock:
            self._requests.pop(run, None)

    def _hook(self, name: str, *args: Any) -> Any:
        try:
            return getattr(self._adapter, name)(*args)
        # BaseException: a hook that calls sys.exit ends its own run, not the bridge.
        except BaseException as error:
            raise _raised(name, error) from None

    def _request(self, call: dict[str, Any]) -> RunRequest:
        run = call.get("run")
        with self._lock:
            known = self._requests.get(run)
            if known is not None:
                return known
            fields = call.get("request")
            if not isinstance(fields, dict):
                raise CallError("unknown_run", f"no request is kept for run {run!r}")
            try:
                request = RunRequest(**fields)
            except TypeError as error:
                raise CallError("bad_call", f"request: {error}") from None
            self._requests[run] = request
            if len(self._requests) > MAX_RUNS:
                self._requests.popitem(last=False)
            return request

    def _plan(self, request: RunRequest, call: dict[str, Any]) -> dict[str, Any]:
        try:
            self._adapter.validate(request)
        except ValueError as error:
            raise CallError("refused", str(error)) from None
        except BaseException as error:
            raise _raised("validate", error) from None
        argv = _words(self._hook("build_argv", request))
        env = self._hook("build_env", request)
        if not isinstance(env, dict):
            raise CallError("raised", f"build_env must give a dict, it gave {type(env).__name__}")
        for name, value in env.items():
            if not (isinstance(name, str) and isinstance(value, str)):
                raise CallError("raised", f"build_env must give text, it gave {type(value).__name__} for {name!r}")
        base = self._environment
        return {
            "argv": argv,
            "set": {name: value for name, value in env.items() if base.get(name) != value},
            "unset": [name for name in base if name not in env],
        }

    def _lines(self, request: RunRequest, call: dict[str, Any]) -> dict[str, Any]:
        events = []
        for line in call.get("lines") or ():
            try:
                event = self._hook("parse_stream_event", line, request)
                if event is not None:
                    events.append({"type": str(event.type), "text": event.text or "", "data": event.data})
            except CallError as error:
                return {"events": events, "error": str(error)}
        return {"events": events}

    def _parse(self, request: RunRequest, call: dict[str, Any]) -> dict[str, Any]:
        # The line ends of a text stream, as subprocess gives them to a program that asks for text.
        stdout = (call.get("stdout") or "").replace("\r\n", "\n").replace("\r", "\n")
        result = self._hook("parse_output", stdout, request)
        if not hasattr(result, "text"):
            raise CallError("raised", f"parse_output must give a RunResult, it gave {type(result).__name__}")
        ok = {
            "text": str(result.text or ""),
            "session_id": str(result.session_id or ""),
            "parse_error": str(result.parse_error) if result.parse_error else None,
            "provider_error": str(result.provider_error) if result.provider_error else None,
            "usage": result.usage or None,
        }
        if result.parsed is not None:
            ok["parsed"] = result.parsed
        if request.event_mode == "full":
            ok["events"], ok["events_dropped"] = self._events(stdout, request)
        return ok

    def _events(self, stdout: str, request: RunRequest) -> tuple[list[tuple[str, str]], int]:
        """The provider's records as (type, JSON), and how many were left out.

        Records are an extra: a run does not fail because they cannot be read.
        """
        try:
            events = list(self._hook("parse_events", stdout, request) or ())
        except CallError:
            return [], 0
        records: list[tuple[str, str]] = []
        room = MAX_EVENT_CHARS
        for event in events:
            try:
                record = dumps(event) if isinstance(event, dict) else None
            except (ValueError, TypeError, RecursionError):
                record = None
            if record is None or len(record) > room:
                continue
            room -= len(record)
            records.append((str(event.get("type") or "unknown"), record))
        return records, len(events) - len(records)


def _words(argv: Any) -> list[str]:
    if not isinstance(argv, (list, tuple)) or not argv:
        raise CallError("raised", f"build_argv must give a list of words, it gave {argv!r:.200}")
    for word in argv:
        if not isinstance(word, (str, bytes, os.PathLike)):
            raise CallError("raised", f"build_argv must give text, it gave {word!r:.200}")
    return [os.fsdecode(word) for word in argv]


def _raised(hook: str, error: BaseException) -> CallError:
    log.error("%s raised:\n%s", hook, "".join(traceback.format_exception(error)))
    return CallError("raised", f"{hook} raised {type(error).__name__}: {error}")
