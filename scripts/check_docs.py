"""Checks the documentation: links lead somewhere, every page is in the index, the README stays short.

Also that no Rust test is switched off by `#[ignore]`: a test that cannot run here says `SKIP name: reason`.
"""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README_LINES = 250
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings have."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE):
        text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


def broken_links(page: Path) -> list[str]:
    found = []
    for target in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            found.append(f"{page.relative_to(ROOT)}: {target} does not exist")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            found.append(f"{page.relative_to(ROOT)}: {target}: no such heading")
    return found


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).exists()]


def main() -> int:
    pages = tracked("*.md")
    problems = [problem for page in pages for problem in broken_links(page)]
    index = (ROOT / "docs" / "README.md").read_text()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = page.relative_to(ROOT / "docs").as_posix()
        if name != "README.md" and f"({name})" not in index:
            problems.append(f"docs/README.md does not link to {name}")
    if (lines := len((ROOT / "README.md").read_text().splitlines())) > README_LINES:
        problems.append(f"README.md has {lines} lines, more than {README_LINES}")
    for source in tracked("*.rs"):
        if re.search(r"^\s*#\[ignore", source.read_text(), re.MULTILINE):
            problems.append(f"{source.relative_to(ROOT)}: #[ignore]; print `SKIP name: reason` and return instead")
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
