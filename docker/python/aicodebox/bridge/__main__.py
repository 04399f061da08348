"""Starts the bridge: see the package."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aicodebox
from aicodebox.adapters.base import get_adapter
from aicodebox.bridge.channel import Channel
from aicodebox.bridge.hooks import CallError, Hooks

#: Calls at once. One that hangs keeps its thread until the gateway replaces the process.
THREADS = 64


def main() -> None:
    """Serves until the gateway closes the pipe. Never returns."""
    environment = dict(os.environ)
    channel = Channel()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    ref = sys.argv[1] if len(sys.argv) > 1 else ""
    hooks = load(channel, ref, environment)
    if hooks is None:
        _end(1)
    serve(channel, hooks)
    _end(0)


def load(channel: Channel, ref: str, environment: dict[str, str]) -> Hooks | None:
    """Makes the adapter and tells the gateway about it, or why there is none."""
    try:
        adapter = get_adapter(ref)
        ready = {
            "name": adapter.name or type(adapter).__name__,
            "binary": adapter.binary,
            "models": [str(model) for model in adapter.available_models],
            "efforts": [str(effort) for effort in adapter.available_thinking_levels],
            "auth_paths": [os.fspath(path) for path in adapter.auth_paths()],
            "version": aicodebox.__version__,
        }
        channel.answer({"ready": ready})
    except BaseException as error:
        traceback.print_exc()
        message = str(error) if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}"
        channel.answer({"failed": message})
        return None
    return Hooks(adapter, environment)


def serve(channel: Channel, hooks: Hooks) -> None:
    """Gives every call a thread; what needs none is done at once."""
    # A hook that computes must not hold up the calls of other runs for the usual 5 ms at every turn.
    sys.setswitchinterval(0.0005)
    with_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="call")
    for call in channel.calls():
        if not isinstance(call, dict):
            channel.answer({"id": None, "error": {"type": "bad_call", "message": "a call is one JSON object on one line"}})
        elif call.get("do") == "ping":
            channel.answer({"id": call.get("id"), "ok": {}})
        elif call.get("do") == "close":
            hooks.close(call.get("run"))
        else:
            with_threads.submit(answer, channel, hooks, call)


def answer(channel: Channel, hooks: Hooks, call: dict[str, Any]) -> None:
    """Answers one call, whatever happens in it."""
    ident = call.get("id")
    try:
        channel.answer({"id": ident, "ok": hooks.call(call)})
    except CallError as error:
        channel.answer({"id": ident, "error": {"type": error.type, "message": str(error)}})
    except BaseException as error:
        message = f"{type(error).__name__}: {error}"
        channel.answer({"id": ident, "error": {"type": "raised", "message": message}})


def _end(code: int) -> None:
    # Not sys.exit: it would wait for threads whose hook hangs.
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
