"""One container, spoken to from outside."""
from __future__ import annotations

import http.client
import json
import os
import pty
import select
import subprocess
import time
import uuid
from dataclasses import dataclass

from engine import Engine

LIMIT = 60
"""Seconds that a test waits for what must come."""


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    headers: dict[str, str]
    """By their names in small letters."""

    @property
    def json(self) -> dict:
        return json.loads(self.text)


class Container:
    """A container that runs in the background; removed at the end of the `with`."""

    def __init__(self, engine: Engine, image: str, *options: str, args: tuple[str, ...] = (), token: str = ""):
        self.engine, self.name, self.token = engine, f"aicodebox-test-{uuid.uuid4().hex[:12]}", token
        engine.run("run", "--detach", "--name", self.name, *options, image, *args)

    def __enter__(self) -> "Container":
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.run("rm", "--force", "--volumes", self.name, check=False)

    def inspect(self, what: str) -> str:
        return self.engine.run("inspect", "--format", what, self.name).stdout.strip()

    def logs(self) -> str:
        done = self.engine.run("logs", self.name)
        return done.stdout + done.stderr

    def exec(self, *words: str, user: str = "aicode") -> str:
        done = self.engine.run("exec", "--user", user, self.name, *words)
        return done.stdout + done.stderr

    def stop(self) -> tuple[int, float]:
        """`docker stop` with its own 10 s; the exit code and the seconds that it took."""
        start = time.monotonic()
        self.engine.run("stop", self.name)
        return int(self.inspect("{{.State.ExitCode}}")), time.monotonic() - start

    def wait_for(self, text: str) -> str:
        """Waits until the log has this text, and gives the log."""
        return eventually(f"the log has {text!r}", lambda: text in (log := self.logs()) and log, self.logs)

    def wait_for_file(self, path: str) -> str:
        def read() -> str | None:
            done = self.engine.run("exec", self.name, "cat", path, check=False)
            return done.stdout if done.returncode == 0 and done.stdout else None
        return eventually(f"{path} is there", read, self.logs)

    def wait_until_up(self, port: int = 8080) -> "Container":
        def up() -> bool:
            if self.inspect("{{.State.Running}}") == "false":
                raise AssertionError(f"it ended:\n{self.logs()[-2000:]}")
            try:
                return self.request("GET", "/livez", port=port).status in (200, 401, 404)
            except OSError:
                return False
        eventually("it answers", up, self.logs)
        return self

    def request(self, method: str, path: str, body: dict | None = None, port: int = 8080, timeout: float = 120,
                headers: dict[str, str] | None = None) -> Answer:
        address = self.inspect("{{.NetworkSettings.IPAddress}}") or "127.0.0.1"
        connection = http.client.HTTPConnection(address, port, timeout=timeout)
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {**sent, **(headers or {})})
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, answer.read().decode(errors="replace"), names)
        finally:
            connection.close()

    def run(self, prompt: str, **fields) -> dict:
        """`POST /run`, which must be answered with 200."""
        answer = self.request("POST", "/run", {"prompt": prompt, **fields})
        assert answer.status == 200, f"{answer.status}: {answer.text}\n{self.logs()[-2000:]}"
        return answer.json


class Terminal:
    """`docker run --interactive --tty` at a pseudo-terminal of its own."""

    def __init__(self, engine: Engine, image: str, *options: str, args: tuple[str, ...] = ()):
        self.engine, self.name, self.screen = engine, f"aicodebox-test-{uuid.uuid4().hex[:12]}", ""
        self.keyboard, end = pty.openpty()
        self.process = subprocess.Popen(
            [engine.client, "run", "--rm", "--interactive", "--tty", "--label", engine.label, "--name", self.name, *options, image, *args],
            env=engine.env, stdin=end, stdout=end, stderr=end, start_new_session=True)
        os.close(end)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.run("rm", "--force", self.name, check=False)
        self.process.kill()
        self.process.wait()
        os.close(self.keyboard)

    def press(self, keys: str) -> None:
        os.write(self.keyboard, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        subprocess.run(["stty", "rows", str(rows), "columns", str(columns)], stdin=self.keyboard, check=True)
        # The client reads the size when its own terminal tells it to; it has none that could.
        os.kill(self.process.pid, 28)

    def wait_for(self, text: str, pressing: str = "") -> None:
        """Waits until the text is on the screen, pressing these keys again and again."""
        def seen() -> bool:
            ended = self.process.poll() is not None
            if pressing:
                self.press(pressing)
            while select.select([self.keyboard], [], [], 0.05)[0]:
                try:
                    self.screen += os.read(self.keyboard, 65536).decode(errors="replace")
                except OSError:
                    break
            assert text in self.screen or not ended, f"it ended without {text!r} on the screen:\n{self.screen[-2000:]}"
            return text in self.screen
        eventually(f"{text!r} is on the screen", seen, lambda: self.screen)

    def code(self) -> int:
        return self.process.wait(LIMIT)


def eventually(what: str, ask, more=lambda: ""):
    """Asks until there is an answer, and gives that."""
    deadline = time.monotonic() + LIMIT
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"it never happened that {what}\n{more()[-2000:]}"
        time.sleep(0.05)
    return answer
