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
import uuid
from pathlib import Path

from box import end_with_parent

ROOT = Path(__file__).resolve().parents[2]
# Resolved, for an engine starts no container below a symbolic link.
CACHE = (ROOT / ".cache" / "image").resolve()
MARK = "aicodebox-test"
START_SECONDS = 60
STOP_SECONDS = 20
INSTALL_SECONDS = 300


class NoEngine(Exception):
    """Why there is no engine here."""


class Ended(Exception):
    """The tests are to end, and no more commands begin."""


class Engine:
    """Runs docker commands. Use as a context manager: at its end no container of these tests is left."""

    def __init__(self) -> None:
        self.env = {**os.environ, "DOCKER_BUILDKIT": "1"}
        self.daemon: subprocess.Popen | None = None
        self.client = "docker"
        self.label = f"{MARK}={uuid.uuid4().hex[:12]}"
        """What every container of these tests is marked with."""
        self._at_work: set[subprocess.Popen] = set()
        self._ended = False

    def __enter__(self) -> "Engine":
        try:
            if not self._answers():
                self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        if self.daemon is not None:
            self.daemon.terminate()
            try:
                self.daemon.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
            # Which it leaves mounted.
            subprocess.run(["umount", "--quiet", self.folder / "run" / "netns" / "default"], check=False, capture_output=True)
            shutil.rmtree(self.folder, ignore_errors=True)

    def end(self) -> None:
        """Ends the commands that are at work, lets no more begin, and removes the containers: the cases then fail at once."""
        self._ended = True
        for command in list(self._at_work):
            command.terminate()
        try:
            self._remove(self.label)
        except FileNotFoundError:
            pass  # No client, so no containers.
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"containers may be left: {error}", file=sys.stderr, flush=True)

    def run(self, *words: str, check: bool = True, timeout: float = 120, **options) -> subprocess.CompletedProcess:
        """`docker WORDS…`, its output as text. What it printed is shown when it fails and `check` is on."""
        if words[0] == "run":
            words = ("run", "--label", self.label, *words[1:])
        done = None if self._ended else self._docker(*words, timeout=timeout, **options)
        if done is None or self._ended:
            raise Ended(f"docker {words[0]}")
        if check and done.returncode != 0:
            raise RuntimeError(f"docker {' '.join(words)[:300]} exited {done.returncode}:\n"
                               f"{(done.stdout or '')[-1500:]}\n{(done.stderr or '')[-3000:]}")
        return done

    def _remove(self, label: str) -> None:
        """Containers that are marked so, then the volumes and networks that they used."""
        for kind, how in (("container", ["--force", "--volumes"]), ("volume", ["--force"]), ("network", [])):
            words = ["--all"] if kind == "container" else []
            if left := self._docker(kind, "ls", "--quiet", "--filter", f"label={label}", *words, timeout=10).stdout.split():
                self._docker(kind, "rm", *how, *left, timeout=30)

    def _docker(self, *words: str, timeout: float, input: str | None = None) -> subprocess.CompletedProcess:
        pipe = subprocess.PIPE
        with subprocess.Popen([self.client, *words], env=self.env, stdin=subprocess.DEVNULL if input is None else pipe,
                              stdout=pipe, stderr=pipe, text=True, errors="replace") as command:
            self._at_work.add(command)
            try:
                out, err = command.communicate(input, timeout)
            except BaseException:
                command.kill()
                raise
            finally:
                self._at_work.discard(command)
        return subprocess.CompletedProcess(command.args, command.returncode, out, err)

    def _answers(self) -> bool:
        """Whether there is an engine that builds.

        Since version 23 a client needs a plugin for that, which it may lack; that of Debian 12 has it built in.
        """
        for self.client in ("docker", "/usr/bin/docker"):
            try:
                if self.run("info", check=False, timeout=20).returncode == 0 and self.run(
                        "build", "--quiet", "-", input="FROM scratch\nLABEL probe=\n", check=False, timeout=60).returncode == 0:
                    return True
            except (OSError, subprocess.TimeoutExpired):
                continue
        return False

    def _start(self) -> None:
        if os.geteuid() != 0:
            raise NoEngine("none answers, and to start one takes root")
        if install("dockerd", "docker.io") and self._answers():
            # Where services are started when they are installed.
            return
        # A socket's path has a short limit.
        self.folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
        socket = f"unix://{self.folder}/docker.sock"
        self.env["DOCKER_HOST"] = socket
        CACHE.mkdir(parents=True, exist_ok=True)
        log = self.folder / "log"
        with log.open("wb") as out:
            # In a session of its own, for a signal to our group must leave it to us for a while; and it does not outlive us.
            self.daemon = subprocess.Popen(
                ["dockerd", "--data-root", str(CACHE / "engine"), "--exec-root", str(self.folder / "run"),
                 "--pidfile", str(self.folder / "pid"), "--host", socket],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=end_with_parent)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                words = log.read_text(errors="replace").splitlines()[-3:]
                raise NoEngine("dockerd does not start, or no client here builds with it: " + " / ".join(words)[-400:])
            time.sleep(0.2)
        # What a run that was killed has left.
        self._remove(MARK)


def install(program: str, package: str) -> bool:
    """Makes sure that `program` is there, and says whether it had to be installed."""
    if shutil.which(program):
        return False
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NoEngine(f"{program} is not installed and cannot be: that takes root and apt")
    print(f"installing {package}", file=sys.stderr, flush=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", package]):
        try:
            done = subprocess.run(["apt-get", *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            raise NoEngine(f"apt-get {words[0]} takes more than {INSTALL_SECONDS} s") from None
    if done.returncode != 0 or not shutil.which(program):
        raise NoEngine(f"{package} cannot be installed: {done.stderr.strip()[-300:]}")
    return True
