"""The stub agent behind a class in Python, to be compared with the same agent behind a file."""
import os

from aicodebox.adapters.base import AgentAdapter


class Stub(AgentAdapter):
    name = "stub"
    available_models = ["stub-model"]

    def build_argv(self, req):
        return [os.environ["STUB_AGENT"]]
