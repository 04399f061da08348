"""The agent CLIs as data: where they are, what they need at home to use the mock, and where each differs.

`@MOCK@` in a text is the mock's address (scheme, host, port; no path).
"""
from __future__ import annotations

import json
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Agent:
    name: str
    package: str
    program: str
    """Its program, as a glob below `node_modules`."""
    files: dict[str, str]
    """What stands in its home before the first run."""
    env: dict[str, str]
    models: tuple[str, str]
    """The model of a run that names none, and another one; as a caller writes them."""
    key: str | None = None
    """The variable of `env` without which it is not signed in."""
    first_start: tuple[str, ...] = ()
    """Arguments of a first start in a new home, where several first starts at once get in each other's way."""
    retry_less: list[str] = field(default_factory=list)
    """Flags with which it gives up sooner on a provider that fails; the adapter's own limits do it where empty."""
    effort: str = "sent"
    """`sent` to the model, `dropped` with a notice, or `unseen` (the CLI takes it, but the mock's model has none)."""
    append: str = "system"
    """Where an appended system prompt arrives: `system` text or `prompt`."""
    tools: tuple[str, ...] = ()
    """Its words for a shell and for reading a file, when it can be held to a list of tools; else a list is refused."""
    shells: tuple[str, ...] = ()
    """What its shell is called in a request."""
    images: bool = False
    """Whether it takes images; else they are refused."""
    resumes_not_found: str = "session_not_found"
    escapes: tuple[tuple[str, str], ...] = ()
    """What its adapter puts into prompts, and what that stands for: undone before comparing."""
    start_seconds: float = 3
    """From the start of a run to its first tool, on a busy machine."""
    faults: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Error kinds that differ from those of `scenarios.FAULTS`."""


CODEX = Agent(
    name="codex",
    package="@openai/codex",
    program="@openai/codex-linux-*/vendor/*/bin/codex",
    files={".codex/config.toml": """
model = "mock-model"
model_provider = "mock"
[model_providers.mock]
name = "mock"
base_url = "@MOCK@/v1"
env_key = "MOCK_KEY"
wire_api = "responses"
"""},
    env={"MOCK_KEY": "sk-mock"},
    key="MOCK_KEY",
    models=("mock-model", "other-model"),
    retry_less=["-c", "model_providers.mock.request_max_retries=1", "-c", "model_providers.mock.stream_max_retries=1"],
    shells=("exec_command", "shell"),
    images=True,
)

CLAUDE = Agent(
    name="claude",
    package="@anthropic-ai/claude-code",
    program="@anthropic-ai/claude-code-linux-*/claude",
    files={},
    env={"ANTHROPIC_BASE_URL": "@MOCK@", "ANTHROPIC_API_KEY": "sk-mock"},
    key="ANTHROPIC_API_KEY",
    models=("claude-opus-5-5", "claude-sonnet-5-5"),
    tools=("Bash", "Read"),
    shells=("Bash",),
    escapes=((r"\@", "@"),),
    faults={"ERR400": ("content_filter", "bad_request")},
)

PI = Agent(
    name="pi",
    package="@earendil-works/pi-coding-agent",
    program=".bin/pi",
    files={".pi/agent/models.json": json.dumps({"providers": {"mock": {
        "baseUrl": "@MOCK@/v1", "api": "openai-completions", "apiKey": "sk-mock",
        "models": [{"id": name, "reasoning": True, "input": ["text", "image"],
                    "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 1}}
                   for name in ("mock-model", "other-model")]}}})},
    env={},
    models=("mock/mock-model", "mock/other-model"),
    tools=("bash", "read"),
    shells=("bash",),
    images=True,
)

GEMINI = Agent(
    name="gemini",
    package="@google/gemini-cli",
    program=".bin/gemini",
    # As in `examples/geminibox`. Without the second gemini forgets sessions: resumed in a later minute it leaves a second,
    # empty file of the session, and its clean-up at the next start takes that for a broken one and deletes them all.
    files={".gemini/settings.json": json.dumps({
        "security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"sessionRetention": {"enabled": False}}})},
    env={"GEMINI_API_KEY": "sk-mock", "GOOGLE_GEMINI_BASE_URL": "@MOCK@"},
    key="GEMINI_API_KEY",
    models=("gemini-2.5-flash", "gemini-2.5-pro"),
    effort="dropped",
    append="prompt",
    shells=("run_shell_command",),
    escapes=((r"\@", "@"),),
    start_seconds=8,
)

OPENCODE = Agent(
    name="opencode",
    package="opencode-ai",
    program="opencode-linux-*/bin/opencode",
    files={".config/opencode/opencode.json": json.dumps({
        "model": "mock/mock-model", "small_model": "mock/mock-model",
        "provider": {"mock": {
            "npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "@MOCK@/v1", "apiKey": "sk-mock"},
            "models": {name: {"name": name, "attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
                       for name in ("mock-model", "other-model")}}}})},
    # As in `examples/opencodebox`: its retries are reported nowhere else.
    env={"OPENCODE_PRINT_LOGS": "1", "OPENCODE_LOG_LEVEL": "ERROR"},
    # As its init hook: the second of two that make the database at the same time fails.
    first_start=("db", "path"),
    models=("mock/mock-model", "mock/other-model"),
    effort="unseen",
    append="prompt",
    tools=("bash", "read"),
    shells=("bash",),
    images=True,
    start_seconds=12,
)

AGENTS = {agent.name: agent for agent in (CODEX, CLAUDE, PI, GEMINI, OPENCODE)}
