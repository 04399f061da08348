"""Lets clients that others wrote talk to the gateway, with a stub agent behind it.

    python3 tests/clients/run.py [--quick] [NAME …]

Each client prints `PASS | …` or `FAIL | …` for each of its cases; the last line of all is `N passed, N failed`.
`--quick` takes those that `make test` runs. $AICODEBOX_BINARY names a program that has been built already.
"""
from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import environments
from gateway import HERE, Gateway, binary

# A run of one client may take this many seconds.
LIMIT = 300


@dataclass
class Client:
    """One client: its script, how many cases it has at least, and what the gateway needs for it."""
    script: str
    cases: int
    # The Python that it runs in; a script without one uses Node, or starts something that does.
    environment: str | None = None
    gateway: dict[str, str] = field(default_factory=dict)
    quick: bool = False
    # What of `client_env` the script takes as its arguments.
    arguments: tuple[str, ...] = ()


CLIENTS = {
    # One of its cases wants to see a 429 while a workspace is busy; chats of ours wait, so nothing may wait there.
    "openai-python": Client("judges/openai_py.py", 36, "openai", {"AICODEBOX_MAX_QUEUED_RUNS": "0"}, quick=True),
    "openai-spec": Client("judges/spec_validate.py", 8, "spec", quick=True),
    "llm-comply": Client("comply.py", 8, "comply", quick=True),
    "fastmcp": Client("judges/mcp_py.py", 13, "fastmcp", quick=True, arguments=("GW_MCP", "GW_KEY")),
    # The suite sends no token.
    "mcp-conformance": Client("conformance.py", 2, gateway={"AICODEBOX_MCP_MODE_TOKEN": ""}, quick=True),
    "mcp-inspector": Client("inspector.py", 3),
    "schemathesis": Client("schemathesis_run.py", 1, gateway={"AICODEBOX_API_MODE_STRICT_MODELS": "0", "AICODEBOX_CALLBACK_SECRET": "key"}),
    "openai-node": Client("openai_node.mjs", 9),
    "vercel": Client("vercel.mjs", 7),
    "litellm": Client("litellm_client.py", 6, "litellm"),
    "langchain": Client("langchain_client.py", 6, "langchain"),
    "instructor": Client("instructor_client.py", 3, "instructor"),
    "pydantic-ai": Client("pydantic_ai_client.py", 5, "pydantic-ai"),
    "docs": Client("docs.py", 10),
    "real-agents": Client("real_agents.py", 5, "openai"),
}


def run(name: str, client: Client) -> tuple[int, int]:
    """Runs a client; how many of its cases passed and failed."""
    with Gateway(client.gateway) as gateway:
        env = {**os.environ, **gateway.client_env, "AICODEBOX_BINARY": str(binary()), "PYTHONUNBUFFERED": "1", "NO_PROXY": "*"}
        script = HERE / client.script
        if client.environment:
            argv = [environments.python(client.environment) / "python", script]
        else:
            node, folder = environments.node()
            argv = [node, "--import", HERE / "resolve.mjs", script] if script.suffix == ".mjs" else [sys.executable, script]
            env |= {"NODE": str(node), "NODE_CLIENTS": str(folder)}
        argv += [gateway.client_env[name] for name in client.arguments]
        try:
            done = subprocess.run(argv, env=env, cwd=gateway.directory.name, stdin=subprocess.DEVNULL, timeout=LIMIT,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            output = done.stdout
        except subprocess.TimeoutExpired as expired:
            output = (expired.stdout or b"").decode(errors="replace") + f"\nFAIL | {name} | not done after {LIMIT} s"
    passed = len(re.findall(r"^PASS ", output, re.MULTILINE))
    failed = len(re.findall(r"^FAIL ", output, re.MULTILINE))
    # A client that stops in the middle has not passed what it did not try.
    failed += max(0, client.cases - passed - failed)
    print(f"{name}: {passed} passed, {failed} failed", flush=True)
    if failed:
        print(output, flush=True)
    return passed, failed


def main() -> int:
    quick = "--quick" in sys.argv[1:]
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    names = names or [name for name, client in CLIENTS.items() if client.quick or not quick]
    results = [run(name, CLIENTS[name]) for name in names]
    passed, failed = (sum(column) for column in zip(*results))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
