"""The line protocol, kept away from the adapter's own input and output."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

#: The longest answer in bytes; the gateway gives up on a longer line.
MAX_ANSWER = 96 << 20


class Channel:
    """Owns descriptors of its own; 0 is /dev/null afterwards and 1 is standard error.

    Also the processes that a hook starts inherit 0 and 1: neither their output nor a ``print`` can break a line,
    and nothing can read the gateway's calls away.
    """

    def __init__(self) -> None:
        self._calls = os.fdopen(os.dup(0), "rb")
        self._answers = os.fdopen(os.dup(1), "wb", buffering=0)
        self._writing = threading.Lock()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        sys.stdout = sys.stderr

    def calls(self) -> Iterator[Any]:
        """Every call until the gateway closes its end; None for a line that is not JSON."""
        for line in self._calls:
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                yield None

    def answer(self, answer: dict[str, Any]) -> None:
        """Sends one line. Raises ValueError for what JSON cannot say, before anything is written."""
        # A lone surrogate has no UTF-8; a question mark is better than no answer.
        line = dumps(answer).encode("utf-8", "replace") + b"\n"
        if len(line) > MAX_ANSWER:
            raise ValueError(f"the hook gave {len(line)} bytes, {MAX_ANSWER} is the most")
        with self._writing:
            rest = memoryview(line)
            while rest:
                rest = rest[self._answers.write(rest) :]


def dumps(value: Any) -> str:
    """Strict JSON on one line; an object that JSON does not know becomes its ``str``."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
