"""What an adapter imports."""

from aicodebox.adapters.base import (
    AgentAdapter,
    ProcHook,
    RunRequest,
    RunResult,
    StreamEvent,
    get_adapter,
    parse_json_response,
    reset_adapter_cache,
    strip_json_fences,
)

__all__ = [
    "AgentAdapter",
    "ProcHook",
    "RunRequest",
    "RunResult",
    "StreamEvent",
    "get_adapter",
    "parse_json_response",
    "reset_adapter_cache",
    "strip_json_fences",
]
