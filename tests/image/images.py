"""Builds the images: the bases that stand in for those of a registry, the box, and the examples on it."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from engine import CACHE, ROOT, Engine, NoEngine, install

BOX = "aicodebox"
SUITE = "forky"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
BUNDLE_VARIABLES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "CARGO_HTTP_CAINFO", "PIP_CERT", "REQUESTS_CA_BUNDLE")

FROM_SOURCE = 5400
"""Seconds to compile with optimisation across all crates, where others work as well; alone, two cores take a third of it."""


def version() -> str:
    """The version of Cargo.toml."""
    return re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]


def exists(engine: Engine, image: str) -> bool:
    return engine.run("image", "inspect", image, check=False).returncode == 0


def base(engine: Engine) -> str:
    """The image that the box is built on: what AICODEBOX_BASE_IMAGE names, else one made from Debian's packages."""
    if named := os.environ.get("AICODEBOX_BASE_IMAGE"):
        return named
    image = f"aicodebox-test/debian:{SUITE}"
    if exists(engine, image):
        return image
    install("mmdebstrap", "mmdebstrap")
    print(f"making {image}", file=sys.stderr, flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    archive = CACHE / "base.tar"
    # A mirror may be a copy of some weeks ago, which is good enough for a test.
    done = subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates",
         "--aptopt=Acquire::Check-Valid-Until \"false\"",
         f"--customize-hook=copy-in {BUNDLE} /etc/ssl/certs", SUITE, str(archive), mirror()],
        stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoEngine(f"no base image can be made: {done.stderr.strip()[-300:]}")
    bundle = " ".join(f"{name}={BUNDLE}" for name in BUNDLE_VARIABLES)
    engine.run("import", "--change", f"ENV {bundle}", str(archive), image, timeout=300)
    archive.unlink()
    return image


def can_build(engine: Engine, on: str) -> None:
    """Makes sure that containers start here and reach packages; an engine alone may be allowed to do neither."""
    done = engine.run("run", "--rm", "--network", "host", on, "apt-get", "update", "-qq", "--error-on=any", check=False, timeout=300)
    if done.returncode != 0:
        raise NoEngine(f"a container does not start, or reaches no packages: {done.stderr.strip()[-300:]}")


def mirror() -> str:
    """The Debian mirror that this machine uses."""
    sources = Path("/etc/apt")
    for file in [*sources.glob("sources.list.d/*.sources"), *sources.glob("**/*.list")]:
        if found := re.search(r"^(?:URIs:|deb(?: \[.*?\])?)\s+(\S+/debian/?)(?=\s|$)", file.read_text(), re.MULTILINE):
            return found[1]
    raise NoEngine("this machine's apt has no Debian mirror")


def rust(engine: Engine, on: str) -> str:
    """The image that compiles: what AICODEBOX_RUST_IMAGE names, else Debian's Rust on `on`."""
    if named := os.environ.get("AICODEBOX_RUST_IMAGE"):
        return named
    image = f"aicodebox-test/rust:{SUITE}"
    if not exists(engine, image):
        text = f"FROM {on}\nRUN apt-get update -qq && apt-get install -y -qq --no-install-recommends cargo rustc gcc libc6-dev\n"
        engine.run("build", "--quiet", "--network", "host", "--tag", image, "-", input=text, timeout=900)
    return image


def box(engine: Engine, program: Path | None) -> None:
    """Builds the box with this program, stripped; without one it is compiled in the image, as it is shipped."""
    on = base(engine)
    can_build(engine, on)
    words = ["--build-arg", f"BASE_IMAGE={on}", "--build-arg", f"VERSION={version()}"]
    if program is None:
        words += ["--build-arg", f"RUST_IMAGE={rust(engine, on)}"]
    else:
        prebuilt = CACHE / "prebuilt"
        prebuilt.mkdir(parents=True, exist_ok=True)
        subprocess.run(["strip", "-o", str(prebuilt / "aicodebox"), str(program)], check=True)
        words += ["--build-arg", "PROGRAM=prebuilt"]
    build(engine, BOX, ROOT, words, timeout=FROM_SOURCE if program is None else 1800)


def build(engine: Engine, image: str, context: Path, words: list[str], timeout: float = 1800) -> None:
    """Builds an image and says how long it took and how large it is."""
    start = time.monotonic()
    engine.run("build", "--network", "host", "--tag", image, *words, str(context), timeout=timeout)
    seconds = time.monotonic() - start
    size = int(engine.run("image", "inspect", "--format", "{{.Size}}", image).stdout)
    print(f"built  {image:24} {seconds:6.1f} s {size / 1e6:7.0f} MB", flush=True)


def sizes(engine: Engine, image: str) -> None:
    """The layers of an image, for the documents."""
    for size, made in reversed(layers(engine, image)):
        if size > 1 << 20:
            print(f"{size / 1e6:7.1f} MB  {made.split('#', 1)[0][-90:].strip()}", flush=True)


def layers(engine: Engine, image: str) -> list[tuple[int, str]]:
    """Size in bytes and maker of each layer, the newest first."""
    lines = engine.run("history", "--no-trunc", "--human=false", "--format", "{{.Size}}\t{{.CreatedBy}}", image).stdout
    return [(int(size), made) for size, made in (line.split("\t", 1) for line in lines.splitlines())]
