"""A gateway with the stub agent behind it, for clients that want to talk to one."""
from __future__ import annotations

import functools
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOKEN = "a-token-of-the-tests"
MODEL = "stub-a"


@functools.cache
def binary() -> Path:
    """The program: $AICODEBOX_BINARY, or a build of what is here."""
    if given := os.environ.get("AICODEBOX_BINARY"):
        return Path(given)
    subprocess.run(["cargo", "build", "--quiet", "--locked", "-p", "aicodebox"], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "aicodebox"


class Gateway:
    """Runs from `with` to the end of its block. `env` is for the gateway; `client_env` is what clients read."""

    def __init__(self, env: dict[str, str] | None = None):
        self.env = env or {}

    def __enter__(self) -> Gateway:
        self.directory = tempfile.TemporaryDirectory(prefix="aicodebox-clients-")
        base = Path(self.directory.name)
        for name in ("home", "workspace"):
            (base / name).mkdir()
        self.stub_log = base / "stub.jsonl"
        self.stub_log.touch()
        stub = {"STUB_PYTHON": sys.executable, "STUB_AGENT": str(HERE / "judges" / "stub_agent.py"), "STUB_LOG": str(self.stub_log)}
        self.child = subprocess.Popen(
            [binary(), "serve"],
            env={
                "PATH": os.environ["PATH"], "HOME": str(base / "home"), "LOG_FORMAT": "json",
                "AICODEBOX_ADAPTER": str(HERE / "stub.toml"), "AICODEBOX_WORKSPACE": str(base / "workspace"),
                "AICODEBOX_API_MODE": "1", "AICODEBOX_API_MODE_HOST": "127.0.0.1", "AICODEBOX_API_MODE_PORT": "0",
                "AICODEBOX_API_MODE_TOKEN": TOKEN, "AICODEBOX_API_MODE_STRICT_MODELS": "1",
                "AICODEBOX_MCP_MODE": "1", "AICODEBOX_MCP_MODE_TOKEN": TOKEN,
                **stub, **self.env,
            },
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.address = self._listening()
        self.client_env = {"GW_BASE": f"http://{self.address}/v1", "GW_KEY": TOKEN, "GW_MODEL": MODEL,
                           "GW_MCP": f"http://{self.address}/mcp", "GW_OPENAPI": f"http://{self.address}/openapi.json", **stub}
        return self

    def __exit__(self, *_exception) -> None:
        self.child.terminate()
        try:
            self.child.wait(15)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.directory.cleanup()

    def _listening(self) -> str:
        """The address, from the log, which is read to its end so that the gateway never waits for us."""
        addresses: queue.Queue[str | None] = queue.Queue()
        lines: list[str] = []

        def follow() -> None:
            for line in self.child.stderr:
                lines.append(line)
                del lines[:-50]
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if record.get("message") == "listening":
                    addresses.put(record["address"])
            addresses.put(None)

        threading.Thread(target=follow, daemon=True).start()
        address = addresses.get(timeout=30)
        if address is None:
            raise SystemExit("the gateway did not start:\n" + "".join(lines))
        return address
