from aicodebox.adapters.base import AgentAdapter


class EchoAdapter(AgentAdapter):
    """Answers with the prompt: the prompt also comes on standard input, and the agent is cat."""

    name = "echo"
    binary = "cat"
    available_models = ["echo"]

    def build_argv(self, req):
        return [self.binary]
