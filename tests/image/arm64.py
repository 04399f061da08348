"""The program for arm64: compiled by Debian's cross compiler, and at work in an emulator. What it is made for need not be here."""
from __future__ import annotations

import images
from engine import CACHE, ROOT, Engine

TARGET = "aarch64-unknown-linux-gnu"
CROSS = f"aicodebox-test/rust-arm64:{images.SUITE}"
LIMIT = 1800
"""Seconds to compile everything once; later runs find it in .cache/image/arm64."""

COMPILER = ("dpkg --add-architecture arm64 && apt-get update -qq && apt-get install -y -qq --no-install-recommends "
            "gcc-aarch64-linux-gnu libc6-dev-arm64-cross libstd-rust-dev:arm64 qemu-user")


def the_program_for_arm64(engine: Engine) -> None:
    if not images.exists(engine, CROSS):
        text = f"FROM {images.rust(engine, images.base(engine))}\nRUN {COMPILER}\n"
        engine.run("build", "--quiet", "--network", "host", "--tag", CROSS, "-", input=text, timeout=900)
    (CACHE / "arm64").mkdir(parents=True, exist_ok=True)
    mounts = ["--volume", f"{CACHE}/arm64:/target"]
    for name in ("Cargo.toml", "Cargo.lock", "crates"):
        mounts += ["--volume", f"{ROOT}/{name}:/src/{name}:ro"]
    env = {"CARGO_TARGET_DIR": "/target", "CARGO_HOME": "/target/cargo", "CARGO_PROFILE_DEV_DEBUG": "0",
           "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": "aarch64-linux-gnu-gcc", "CC_aarch64_unknown_linux_gnu": "aarch64-linux-gnu-gcc"}
    variables = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]

    def inside(*words: str) -> str:
        return engine.run("run", "--rm", "--network", "host", "--workdir", "/src", *mounts, *variables, CROSS, *words, timeout=LIMIT).stdout

    inside("cargo", "build", "--quiet", "--locked", "--target", TARGET, "--package", "aicodebox", "--bin", "aicodebox")
    program = f"/target/{TARGET}/debug/aicodebox"
    emulated = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", program)
    assert inside(*emulated, "--version") == f"aicodebox {images.version()}\n"
    assert "AICODEBOX_WORKSPACE" in inside(*emulated, "config")
