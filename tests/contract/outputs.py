"""Models with outputs."""

from tests.conftest import Workspace
from tests.contract.support import found

OUTPUTS = """
from dataclasses import dataclass
from acme.auto import AutoModel
from acme.outputs import BaseModelOutputWithPast, ModelOutput, RoutedOutputWithPast
from acme.capturing import capture_outputs


@dataclass
class MoeModelOutputWithPast(ModelOutput):
    last_hidden_state: object = None
    past_key_values: object = None
    router_logits: object = None


@dataclass
class MoeOutputWithLogProbs(MoeModelOutputWithPast):
    log_probs: object = None
"""
ELSEWHERE = """
from acme.generic import ModelOutput


class BaseModelOutput(ModelOutput):
    last_hidden_state: object = None
    hidden_states: object = None
    attentions: object = None


class BaseModelOutputWithPast(BaseModelOutput):
    past_key_values: object = None


class RoutedOutput(BaseModelOutputWithPast):
    router_logits: object = None


class RoutedOutputWithPast(RoutedOutput):
    aux_loss: object = None
"""
MOE_MODEL = """

class MoeModel:
    def forward(self, x):
        y = self.layers(x)
        return MoeModelOutputWithPast(last_hidden_state=y, past_key_values=y.cache, router_logits=y.router_logits)
"""


def write(work: Workspace, upstream: str) -> None:
    """Write upstream's module and the one that its outputs come from."""
    work.upstream(ELSEWHERE, "acme.outputs")
    work.upstream(OUTPUTS + upstream)


def patched(work: Workspace, upstream: str, target: str, body: str) -> list[str]:
    """The findings over a method that is overridden with a body."""
    write(work, upstream)
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    work.config(f'@config.override_method("{target}")\ndef patched(self, x):\n{lines}')
    return [message.removeprefix(f"PG205 '{target}' constructs ") for message in found(work, "PG205")]
