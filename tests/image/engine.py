"""A Docker engine for the tests: the one that answers, else one of Debian that is started here and stopped at the end.

Everything of it lies in .cache/image. As root on Debian what is missing is installed by apt.
"""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "image"
START_SECONDS = 60


class NoEngine(Exception):
    """Why there is no engine here."""


class Engine:
    """Runs docker commands. Use as a context manager."""

    def __init__(self) -> None:
        self.env = {**os.environ, "DOCKER_BUILDKIT": "1"}
        self.daemon: subprocess.Popen | None = None
        self.client = "docker"

    def __enter__(self) -> "Engine":
        if not self._answers():
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.daemon is not None:
            self.daemon.terminate()
            try:
                self.daemon.wait(30)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
            shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *words: str, check: bool = True, timeout: float = 120, **options) -> subprocess.CompletedProcess:
        """`docker WORDS…`, its output as text. What it printed is shown when it fails and `check` is on."""
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace", **options}
        done = subprocess.run([self.client, *words], env=self.env, timeout=timeout, **options)
        if check and done.returncode != 0:
            raise RuntimeError(f"docker {' '.join(words)[:300]} exited {done.returncode}:\n"
                               f"{(done.stdout or '')[-1500:]}\n{(done.stderr or '')[-3000:]}")
        return done

    def _answers(self) -> bool:
        try:
            return self.run("info", check=False, timeout=20).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def _start(self) -> None:
        install("dockerd", "docker.io")
        # Debian's client has BuildKit built in; a newer one without its plugin has not.
        self.client = "/usr/bin/docker"
        # A socket's path has a short limit.
        self.folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
        socket = f"unix://{self.folder}/docker.sock"
        self.env["DOCKER_HOST"] = socket
        CACHE.mkdir(parents=True, exist_ok=True)
        log = self.folder / "log"
        with log.open("wb") as out:
            # In our own group, so that whoever ends this check ends the engine too.
            self.daemon = subprocess.Popen(
                ["dockerd", "--data-root", str(CACHE / "engine"), "--exec-root", str(self.folder / "run"),
                 "--pidfile", str(self.folder / "pid"), "--host", socket],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                words = log.read_text(errors="replace").splitlines()[-3:]
                self.__exit__()
                raise NoEngine("dockerd does not start: " + " / ".join(words)[-400:])
            time.sleep(0.2)


def install(program: str, package: str) -> None:
    """Makes sure that `program` is there."""
    if shutil.which(program):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NoEngine(f"{program} is not installed and cannot be: that takes root and apt")
    print(f"installing {package}", file=sys.stderr, flush=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", package]):
        done = subprocess.run(["apt-get", *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0 or not shutil.which(program):
        raise NoEngine(f"{package} cannot be installed: {done.stderr.strip()[-300:]}")
