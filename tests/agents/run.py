"""make test-agents: drives the real agent CLIs, on a mock model, through the HTTP API of a real server.

usage: run.py [--agents codex,pi] [--only plain,stop] [--keep]

Prints one line per scenario and `N passed, N failed` at the end.
"""
from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scripts"))

import install  # noqa: E402
from agents import AGENTS, Agent  # noqa: E402
from box import Box, build, free_port  # noqa: E402
import beside  # noqa: E402, F401 - more scenarios
from scenarios import ALONE, SCENARIOS, Stage, Verified  # noqa: E402
from wire import Wire  # noqa: E402

AT_ONCE = 3
"""Scenarios that play at the same time: a run uses about one core while its agent starts."""

FIRST_GROUP = 61_000
"""Supplementary groups from here mark the processes of a server; nothing on a machine has them."""


class Mock:
    """The mock model, and before it a proxy that keeps every request as it came."""

    def __init__(self, folder: Path):
        self.node = install.node_bin() / "node"
        self.program = install.package("@copilotkit/aimock", "aimock") / "@copilotkit" / "aimock" / "dist" / "cli.js"
        self.wire = Wire(folder / "requests.jsonl")
        self.wire.log.touch()
        self.log = folder / "mock.log"
        # A port that was free a moment ago may be taken by now: then it is started once more, on others.
        if not any(self._start() for _ in range(3)):
            sys.exit(f"the mock model did not start:\n{self.log.read_text(errors='replace')[-2000:]}")

    def _start(self) -> bool:
        mock, proxy = free_port(), free_port()
        commands = ([self.node, self.program, "-p", mock, "-f", HERE / "mock" / "fixtures.json"],
                    [sys.executable, HERE / "mock" / "rawproxy.py", proxy, mock, self.wire.log])
        # Else a fixture for the second turn of a conversation is taken for any other, too.
        env = {**os.environ, "AIMOCK_STRICT_TURN_INDEX": "1"}
        with self.log.open("ab") as log:
            self.processes = [subprocess.Popen(list(map(str, command)), env=env, stdin=subprocess.DEVNULL, stdout=log,
                                               stderr=subprocess.STDOUT) for command in commands]
        self.address = f"http://127.0.0.1:{proxy}"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and all(process.poll() is None for process in self.processes):
            try:
                with urllib.request.urlopen(f"{self.address}/__aimock/journal", timeout=5):
                    return True
            except OSError:
                time.sleep(0.1)
        self.stop()
        return False

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


class Troupe:
    """The servers: one per agent for most scenarios, further ones where a scenario counts processes."""

    def __init__(self, program: Path, folder: Path, mock: Mock):
        self.program, self.folder, self.mock = program, folder, mock
        self.groups = itertools.count(FIRST_GROUP)
        self.boxes: list[Box] = []
        self.homes: dict[str, Path] = {}
        """What the first start of an agent left in a home, to be copied into every new one."""

    def new_box(self, agent: Agent, more: dict[str, str] | None = None) -> Box:
        number = next(self.groups)
        folder, env = self.settle(agent, number, self.mock.address)
        box = Box(self.program, folder, env | (more or {}), [number] if os.geteuid() == 0 else None)
        self.boxes.append(box)
        return box

    def first_start(self, agent: Agent) -> None:
        home = self.folder / f"{agent.name}-first"
        home.mkdir()
        env = {**agent.env, "PATH": os.environ["PATH"], "HOME": str(home)}
        subprocess.run([bin_of(agent) / agent.name, *agent.first_start], env=env, cwd=home, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, check=True, timeout=120)
        self.homes[agent.name] = home

    def settle(self, agent: Agent, number: int, address: str) -> tuple[Path, dict[str, str]]:
        """A folder with a home in which the agent finds the model at this address, and the environment for it."""
        folder = self.folder / f"{agent.name}-{number}"
        if agent.name in self.homes:
            shutil.copytree(self.homes[agent.name], folder / "home", symlinks=True)
        for name, text in agent.files.items():
            path = folder / "home" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("@MOCK@", address))
        env = {name: value.replace("@MOCK@", address) for name, value in agent.env.items()}
        return folder, env | {
            "PATH": f"{bin_of(agent)}:{install.node_bin()}:{os.environ['PATH']}",
            "AICODEBOX_ADAPTER": agent.name, "AICODEBOX_DEFAULT_MODEL": agent.models[0],
            "AICODEBOX_AVAILABLE_MODELS": ",".join(agent.models)}

    def verify(self, agent: Agent, address: str | None, without: str | None) -> Verified:
        """`aicodebox verify` with the model at this address (none = the mock's), and without this variable."""
        folder, env = self.settle(agent, next(self.groups), address or self.mock.address)
        env |= {"HOME": str(folder / "home"), "LANG": "C.UTF-8", "TERM": "dumb",
                "AICODEBOX_WORKSPACE": str(folder / "workspace"), "AICODEBOX_STATE_DIR": str(folder / "state")}
        for name in ("home", "workspace", "state"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        env.pop(without, None)
        start = time.monotonic()
        done = subprocess.run([self.program, "verify"], env=env, cwd=folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)
        return Verified(done.returncode, done.stdout + done.stderr, time.monotonic() - start)

    def stop(self) -> None:
        for box in self.boxes:
            box.stop()


def bin_of(agent: Agent) -> Path:
    """A folder with nothing but the agent's program, installed when it is not there."""
    modules = install.package(agent.package, agent.name)
    found = sorted(modules.glob(agent.program))
    if not found:
        raise install.InstallError(f"{agent.package} has no {agent.program}")
    folder = modules.parent / "bin"
    folder.mkdir(exist_ok=True)
    link = folder / agent.name
    if not link.is_symlink():
        link.symlink_to(found[0])
    return folder


def play(agent: Agent, name: str, box: Box, troupe: Troupe, again: bool = False) -> str | None:
    """Plays one scenario, `again` in another workspace; what went wrong, if something did."""
    place = f"{name}-again" if again else name
    stage = Stage(agent, box, troupe.mock.wire, place, lambda more=None: troupe.new_box(agent, more),
                  lambda address, without: troupe.verify(agent, address, without))
    start = time.monotonic()
    try:
        SCENARIOS[name](stage)
        wrong = None
    except AssertionError as error:
        wrong = str(error) or traceback.format_exc(limit=-1)
    except Exception:  # noqa: BLE001 - a scenario that breaks is a failed scenario, and the others go on
        wrong = traceback.format_exc(limit=-3)
    line = f"{'FAILED' if wrong else 'ok':6} {agent.name:9} {place:22} {time.monotonic() - start:5.1f} s"
    print(f"{line}\n    {wrong}" if wrong else line, flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", default=",".join(AGENTS), help="of: " + " ".join(AGENTS))
    parser.add_argument("--only", default=",".join(SCENARIOS), help="of: " + " ".join(SCENARIOS))
    parser.add_argument("--keep", action="store_true", help="keep the homes, workspaces and logs")
    options = parser.parse_args()
    agents = [AGENTS[name] for name in options.agents.split(",")]
    names = options.only.split(",")

    for agent in agents:
        bin_of(agent)
    program = build()
    # Not in the repository, which agents would look at; not below /tmp, where codex keeps no helper programs.
    folder = Path(tempfile.mkdtemp(prefix="aicodebox-agents-", dir="/var/tmp"))
    mock = Mock(folder)
    troupe = Troupe(program, folder, mock)
    try:
        for agent in filter(lambda agent: agent.first_start, agents):
            troupe.first_start(agent)
        boxes = {agent.name: troupe.new_box(agent) for agent in agents}
        failed, count = [], 0
        for at_once, chosen in ((1, [name for name in names if name in ALONE]),
                                (AT_ONCE, [name for name in names if name not in ALONE])):
            # Scenario by scenario, so that the agents take turns; the longest first.
            order = sorted(chosen, key=lambda name: name != "stop")
            tasks = [(agent, name) for name in order for agent in agents]
            with ThreadPoolExecutor(at_once) as pool:
                results = list(pool.map(lambda task: play(*task, boxes[task[0].name], troupe), tasks))
            count += len(tasks)
            failed += [task for task, wrong in zip(tasks, results, strict=True) if wrong is not None]
        if os.environ.get("CI"):
            # On a machine that others use too, a limit of time can be missed once: as in the profile `ci` of the tests.
            failed = [task for task in failed if play(*task, boxes[task[0].name], troupe, again=True) is not None]
    finally:
        troupe.stop()
        mock.stop()
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if options.keep:
        print(f"\nkept: {folder}")
    print(f"\n{count - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
