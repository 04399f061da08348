"""The types of a run under the name by which adapters of the first versions import them."""

from aicodebox.adapters.base import RunRequest, RunResult, StreamEvent

__all__ = ["RunRequest", "RunResult", "StreamEvent"]
