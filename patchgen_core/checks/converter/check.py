"""The check ``converter``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.converter.request import LoadingRequest
from patchgen_core.checks.model_process.check import ModelCheck, find_function, place_errors
from patchgen_core.checks.model_process.process import ModelProcess
from patchgen_core.checks.result import CheckResult
from patchgen_core.files import read_text

_FUNCTION = "patchgen_core.checks.converter.loading:check_request"
_FACTORY = r"create_\w*checkpoint_tensor_converter"
_PACKAGE = "__init__.py"
_REGISTRY = ("patchgen_core.registry", "MODELING_REGISTRY")
_DEVICES = {"_gpu": "cuda", "_cuda": "cuda", "_npu": "npu"}


class ConverterCheck(ModelCheck):
    """Checkpoints load into the generated classes, through the converter where there is one, and go back."""

    name = "converter"
    runs_in_workers = True
    follows_configs = False
    file = "checkpoint_tensor_converter.py"

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()

    def items(self, path: Path) -> Iterator[str]:
        """One item, if there is a converter beside the config or its package registers classes."""
        if (path.parent / self.file).is_file() or _registers(path.parent):
            yield self.name

    def compare(self, process: ModelProcess, artifact: Artifact, path: Path, item: str, fresh: bool) -> CheckResult:
        """Have the check done; its problems lie in the converter's file, where they say nothing else."""
        file, project, config = path.parent / self.file, process.project, artifact.plan.config
        locations = ((patch.target, patch.location or config.location) for patch in config.patches)
        request = LoadingRequest(
            module=project.module_name(artifact.path),
            path=str(artifact.path),
            text=artifact.text if fresh else None,
            upstream=artifact.plan.upstream.module,
            beside=project.module_name(file) if file.is_file() else "",
            package=project.module_name(path.parent / _PACKAGE) if _registers(path.parent) else "",
            device_type=next((kind for end, kind in _DEVICES.items() if artifact.path.stem.endswith(end)), ""),
            declared=config.location,
            patches=tuple(locations),
            toy_config=config.toy_config,
            toy_root=str(project.parity.toy_root or ""),
        )
        result = process.run(_FUNCTION, artifact.path.name, request)
        return place_errors(result, find_function(file, _FACTORY) if request.beside else config.location)


def _registers(folder: Path) -> bool:
    """Whether a package registers classes of models here; a project may have a registry of its own."""
    text = read_text(folder / _PACKAGE) or ""
    return all(word in text for word in _REGISTRY)
