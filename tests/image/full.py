"""The full image: every tool of docs/container.md is there, or is said to be missing."""
from __future__ import annotations

import images
from engine import ROOT, Engine

FULL = "aicodebox-full"

TOOLS = """go gopls dlv golangci-lint staticcheck gofumpt pytest ruff black mypy pyright uv poetry node eslint prettier tsc pnpm yarn
gh terraform kubectl helm gcc g++ make cmake gdb valgrind clang-format strace rg fd bat eza jq tree htop tmux vim nano shellcheck shfmt
http sqlite3 psql mysql redis-cli""".split()


def the_full_image(engine: Engine) -> None:
    words = ["--file", str(ROOT / "Dockerfile.full"), "--build-arg", f"BOX={images.BOX}",
             "--build-arg", f"VERSION={images.version()}", "--build-arg", "ALLOW_UNAVAILABLE=1"]
    images.build(engine, FULL, ROOT, words, timeout=3600)
    images.sizes(engine, FULL)
    script = f"for tool in {' '.join(TOOLS)}; do command -v $tool >/dev/null || echo $tool; done"
    missing = engine.run("run", "--rm", "--entrypoint", "bash", FULL, "-c", script).stdout.split()
    for tool in missing:
        print(f"SKIP image.full.{tool}: its maker's repository is not reached from here", flush=True)
    # What Debian's packages and the registries of Python and Node have must be there everywhere.
    assert not set(missing) - {"gh", "terraform", "kubectl", "helm", "eza", "golangci-lint", "staticcheck", "gofumpt", "gopls",
                               "dlv", "shfmt"}, missing
    code = engine.run("run", "--rm", FULL, "-c", "exit 7", check=False).returncode
    assert code == 7, "it is not a box any more"
