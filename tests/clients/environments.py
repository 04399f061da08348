"""Installs the clients below .cache/clients, in the versions of versions.json: an environment for each of Python, one
folder for Node. What is there already is left alone."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "agents"))
import install as agents  # Node comes from where the agents' tests have it  # noqa: E402

CACHE = HERE.parents[1] / ".cache" / "clients"
VERSIONS = json.loads((HERE / "versions.json").read_text())


def _once(folder: Path, wanted: str, install) -> None:
    stamp = folder / ".wanted"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    print(f"installing {folder.name}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    install()
    stamp.write_text(wanted)


def _uv() -> str:
    # Plain pip tries versions of such client sets for minutes.
    folder = CACHE / "uv"

    def install() -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check",
                        f"uv=={VERSIONS['uv']}"], check=True)

    _once(folder, VERSIONS["uv"], install)
    return str(folder / "bin" / "uv")


def python(name: str) -> Path:
    """The `bin` of an environment with that client."""
    folder, packages = CACHE / name, VERSIONS["python"][name]

    def install() -> None:
        subprocess.run([_uv(), "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
        subprocess.run([_uv(), "pip", "install", "--quiet", *packages], check=True,
                       env={**os.environ, "VIRTUAL_ENV": str(folder)})

    _once(folder, json.dumps(packages), install)
    return folder / "bin"


def node() -> tuple[Path, Path]:
    """Node, and a folder whose `node_modules` has the clients."""
    folder, packages, binaries = CACHE / "node", VERSIONS["node"], agents.node_bin()

    def install() -> None:
        wanted = [f"{name}@{version}" for name, version in packages.items()]
        subprocess.run([binaries / "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
                        "--prefix", folder, *wanted], check=True,
                       env={**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"})

    _once(folder, json.dumps(packages), install)
    return binaries / "node", folder
