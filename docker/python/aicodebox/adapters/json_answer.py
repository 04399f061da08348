"""Finds the JSON in the text of a model's answer."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

log = logging.getLogger("aicodebox.adapters")

_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL | re.IGNORECASE)
_CLOSING = {"{": "}", "[": "]"}


def strip_json_fences(text: str) -> str:
    """Removes a code fence that opens or closes the text, and the space around it."""
    body = text.strip()
    if body.startswith("```"):
        body = body[3:]
        if body[:4].lower() == "json":
            body = body[4:]
    return body.removesuffix("```").strip()


def parse_json_response(text: str, schema: dict | None = None) -> tuple[Any, str | None]:
    """Decodes an answer: ``(value, None)``, or ``(None, what is wrong)``.

    Tried in this order: the whole text, the text without its fences, the fenced blocks from the last to the
    first, the first balanced object, the first balanced array. With a schema, the first that also validates wins;
    where the ``jsonschema`` package is missing the schema is not checked here (the gateway checks it anyway).
    """
    problem = _validator(schema)
    not_json = not_valid = None
    for candidate in _candidates(text or ""):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError) as error:
            not_json = not_json or f"the answer is not valid JSON: {error}"
            continue
        wrong = problem(value)
        if wrong is None:
            return value, None
        not_valid = not_valid or f"the answer does not match the schema: {wrong}"
    return None, not_valid or not_json


def _candidates(text: str) -> Iterator[str]:
    yield text
    yield strip_json_fences(text)
    yield from (block.strip() for block in reversed(_FENCED.findall(text)))
    for opening in _CLOSING:
        block = _first_balanced(text, opening)
        if block is not None:
            yield block


def _first_balanced(text: str, opening: str) -> str | None:
    """From the first ``opening`` to the bracket that closes it; brackets inside JSON strings do not count."""
    start = text.find(opening)
    if start < 0:
        return None
    depth = 0
    quoted = escaped = False
    for index in range(start, len(text)):
        char = text[index]
        if escaped:
            escaped = False
        elif quoted:
            escaped = char == "\\"
            quoted = char != '"'
        elif char == '"':
            quoted = True
        elif char == opening:
            depth += 1
        elif char == _CLOSING[opening]:
            depth -= 1
            if depth == 0:
                return text[start : index + 1]
    return None


def _validator(schema: dict | None):
    """A function that says what is wrong with a value, or ``None``."""
    if schema is None:
        return lambda value: None
    try:
        import jsonschema
    except ImportError:
        log.debug("the jsonschema package is not installed; the schema is left to the gateway")
        return lambda value: None

    def problem(value: Any) -> str | None:
        try:
            jsonschema.validate(value, schema)
        except jsonschema.ValidationError as error:
            return error.message
        except jsonschema.SchemaError as error:
            return f"the schema itself is invalid: {error.message}"
        return None

    return problem
