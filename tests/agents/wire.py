"""What an agent sent to the model: one request, read the same way in the four APIs that the agents speak."""
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


def texts(value) -> str:
    """All texts below a value, joined."""
    match value:
        case str():
            return value
        case list():
            return "\n".join(filter(None, map(texts, value)))
        case dict():
            return "\n".join(filter(None, (texts(value[key]) for key in ("text", "content", "parts") if key in value)))
    return ""


@dataclass(frozen=True)
class Request:
    path: str
    body: dict
    raw: str

    @property
    def _turns(self) -> list[dict]:
        found = self.body.get("messages") or self.body.get("contents") or self.body.get("input") or []
        return [turn for turn in found if isinstance(turn, dict)]

    @property
    def model(self) -> str:
        named = self.body.get("model")
        return named or self.path.rsplit("/", 1)[-1].split(":")[0]

    @property
    def system(self) -> str:
        """Instructions of every kind: of the system, of the developer."""
        turns = [turn for turn in self._turns if turn.get("role") in ("system", "developer")]
        return texts([self.body.get("instructions"), self.body.get("system"), self.body.get("systemInstruction"), turns])

    @property
    def user(self) -> str:
        return texts([turn for turn in self._turns if turn.get("role") == "user"])

    @property
    def tools(self) -> set[str]:
        names = set()
        for tool in self.body.get("tools") or []:
            inner = tool.get("functionDeclarations") or [tool.get("function") or tool]
            names |= {one.get("name") or one.get("type") for one in inner}
        return names

    @property
    def effort(self) -> str | None:
        nested = self.body.get("reasoning") or self.body.get("output_config") or {}
        return self.body.get("reasoning_effort") or nested.get("effort")

    @property
    def images(self) -> bool:
        return any(mark in self.raw for mark in ("data:image/", "inlineData", '"type":"image"', '"type": "image"'))


class Wire:
    """The log of the proxy before the mock."""

    def __init__(self, log: Path):
        self.log = log

    def requests(self, token: str) -> list[Request]:
        """The requests to a model in which `token` stands, in order; those with tools only, where there are any.

        An agent may ask on the side, for a title of the session say; what it asks for the user carries its tools.
        """
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            if token in line:
                entry = json.loads(line)
                try:
                    body = json.loads(entry["body"])
                except ValueError:
                    continue
                if not entry["path"].split("?")[0].endswith(("count_tokens", ":countTokens")):
                    found.append(Request(entry["path"].split("?")[0], body, entry["body"]))
        return [request for request in found if request.tools] or found
