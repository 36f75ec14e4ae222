"""Parity of configs of Llama, in this process, with upstream's models shared by all tests."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import sys
import textwrap
from collections.abc import Mapping

from patchgen_core.build.results import Artifact
from patchgen_core.checks.parity.comparison import check_parity
from patchgen_core.checks.parity.patched import patched_code
from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.checks.result import CheckResult
from patchgen_core.config.declarations import Tolerance
from patchgen_core.files import write_files
from patchgen_core.models.model_setup import PATCHED, ModelSetup
from patchgen_core.models.references import References
from patchgen_core.project.parity_settings import STANDARD
from tests.conftest import CONFIG, Workspace

LLAMA = "transformers.models.llama.modeling_llama"
WHOLE = f"""
import torch
from patchgen import PatchConfig

config = PatchConfig("{LLAMA}", "patched_modeling_toy_gpu.py")
"""
PREAMBLE = f"""{WHOLE}
config.exclude_from_output(
    "LlamaForSequenceClassification", "LlamaForTokenClassification", "LlamaForQuestionAnswering"
)
"""
NORM = """
@config.override_method("LlamaRMSNorm.forward")
def norm_forward(self, hidden_states):
    input_dtype = hidden_states.dtype
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
    return self.weight * hidden_states.to(input_dtype)
"""
"""A patch that is upstream's text."""

_VISION_LANGUAGE = "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl"
QWEN2_5_VL = f"""
from __future__ import annotations

from patchgen import PatchConfig

config = PatchConfig("{_VISION_LANGUAGE}", "patched_modeling_toy_gpu.py")
"""
_REFERENCES = References()
_COUNT = itertools.count()


def make(work: Workspace, text: str, preamble: str = PREAMBLE) -> Artifact:
    """Write a config and what it makes."""
    work.config(text, preamble=preamble)
    outcome = work.outcome()
    assert outcome.artifact is not None, "\n".join(map(str, outcome.problems))
    write_files(outcome.artifact.files)
    return outcome.artifact


def compare(
    work: Workspace,
    text: str,
    implementation: str = PATCHED,
    preamble: str = PREAMBLE,
    dtypes: tuple[str, ...] = (),
    level: str = STANDARD,
    setup: ModelSetup | None = None,
    on_disk: str = "",
    tolerances: tuple[Tolerance, ...] = (),
    references: References = _REFERENCES,
) -> CheckResult:
    """What the check says of a config, before allowances count; of a text that is ``on_disk`` no more, if given."""
    artifact = make(work, text, preamble)
    name = f"played_{next(_COUNT)}"
    spec = importlib.util.spec_from_file_location(name, artifact.path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if on_disk:
        artifact.path.write_text(on_disk, encoding="utf-8")
    request = ParityRequest(
        module=name,
        path=str(artifact.path),
        upstream=artifact.plan.upstream.module,
        implementation=implementation,
        declared=artifact.plan.config.location,
        patches=patched_code(artifact, artifact.text),
        dtypes=dtypes or ("float32",),
        offered=(implementation,),
        level=level,
        tolerances=tolerances,
        text=artifact.text if on_disk else None,
    )
    return check_parity(module, importlib.import_module(request.upstream), request, references, setup)


def edited(target: str, edits: Mapping[str, str], module: str = _VISION_LANGUAGE) -> str:
    """A patch of a method, by default of Qwen2.5-VL: upstream's text with each piece replaced, which it has once."""
    class_name, _, method = target.partition(".")
    upstream = getattr(importlib.import_module(module), class_name)
    text = textwrap.dedent(inspect.getsource(inspect.unwrap(getattr(upstream, method))))
    for old, new in edits.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return f'@config.override_method("{target}")\n{text[text.index("def ") :]}'


def line_of(work: Workspace, text: str) -> int:
    """The line of the config that begins with a text; there is one."""
    lines = (work.models / CONFIG).read_text(encoding="utf-8").splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if line.startswith(text))
    return number
