"""Builds and starts an aicodebox server on a free loopback port, and speaks HTTP to it. Python's standard library only."""
from __future__ import annotations

import ctypes
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 20
STOP_SECONDS = 12
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def build() -> Path:
    """Builds the debug binary (unless it is up to date) and gives its path."""
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--package", "aicodebox", "--bin", "aicodebox"],
                   cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "aicodebox"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def is_alive(proc: Path) -> bool:
    """Whether any thread of a process lives; a process whose first thread is a zombie can still work."""
    states = [(task / "stat").read_text().rsplit(")", 1)[1].split()[0] for task in (proc / "task").iterdir()]
    return any(state not in "ZX" for state in states)


def end_with_parent() -> None:
    """Called in a child before it becomes the server: whoever started it may be killed, and can then stop nothing."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str
    seconds: float

    @property
    def json(self) -> dict:
        """The body as an object; an empty one when it is not JSON."""
        try:
            body = json.loads(self.text)
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}


class Box:
    """One server with a home, a workspace root and a state folder of its own below `folder`."""

    def __init__(self, program: Path, folder: Path, env: dict[str, str], groups: list[int] | None = None):
        self.program, self.folder, self.port = program, folder, free_port()
        self.log, self.workspace, self.groups = folder / "server.log", folder / "workspace", groups or []
        for name in ("home", "workspace", "state"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        clean = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "LANG": "C.UTF-8", "TERM": "dumb",
                 "AICODEBOX_API_MODE": "1", "AICODEBOX_API_MODE_HOST": "127.0.0.1",
                 "AICODEBOX_API_MODE_PORT": str(self.port), "AICODEBOX_WORKSPACE": str(self.workspace),
                 "AICODEBOX_STATE_DIR": str(folder / "state")}
        self.env = {**clean, **env}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([str(program), "serve"], env=self.env, cwd=folder,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            extra_groups=groups, preexec_fn=end_with_parent)
        self._wait_until_up()

    def _wait_until_up(self) -> None:
        if self.env["AICODEBOX_API_MODE"] == "0":
            return
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.request("GET", "/healthz", timeout=5).status == 200:
                    return
            except OSError:
                time.sleep(0.01)
        self.stop()
        sys.exit(f"the server did not start:\n{self.log.read_text(errors='replace')[-2000:]}")

    def request(self, method: str, path: str, body: dict | None = None, timeout: float = 120) -> Answer:
        start = time.monotonic()
        with self._ask(method, path, body, timeout) as answer:
            text = answer.read().decode(errors="replace")
            return Answer(answer.status, dict(answer.getheaders()), text, time.monotonic() - start)

    def lines(self, method: str, path: str, body: dict | None = None) -> Iterator[str]:
        """The lines of an answer as they come, without the empty ones."""
        with self._ask(method, path, body, timeout=30) as answer:
            while line := answer.readline():
                if text := line.decode(errors="replace").strip():
                    yield text

    @contextmanager
    def _ask(self, method: str, path: str, body: dict | None, timeout: float) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            yield connection.getresponse()
        finally:
            connection.close()

    def run(self, timeout: float = 120, **body) -> Answer:
        """`POST /run`."""
        return self.request("POST", "/run", body, timeout)

    def agents(self) -> dict[int, str]:
        """Every process that came from this server and is not the server itself, with its command line.

        Found without the server's help: by a working folder, an environment or an argument that names this box's
        folder, or by its supplementary group, which no program can drop without privileges.
        """
        found, marks = {}, str(self.folder).encode()
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            proc = Path(f"/proc/{pid}")
            try:
                if not is_alive(proc) or os.path.samefile(proc / "exe", self.program):
                    continue
                command = (proc / "cmdline").read_bytes()
                groups = re.search(r"^Groups:(.*)$", (proc / "status").read_text(), re.MULTILINE)
                if (marks in os.readlink(os.fsencode(proc / "cwd")) or marks in command
                        or marks in (proc / "environ").read_bytes()
                        or set(map(int, groups[1].split())) & set(self.groups)):
                    found[pid] = command.replace(b"\0", b" ").decode(errors="replace")[:200]
            except OSError:
                continue
        return found

    def stop(self) -> int:
        """Sends SIGTERM and gives the exit code; SIGKILL when the server takes too long."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode
