"""Whether two versions of a project's generated modules compute the same: a training step of each model, bit by bit.

    python -m tools.same_bits OURS THEIRS RELEASE [PATTERN ...]

takes two folders of projects whose generated modules are for the same release of transformers, such as what the replay
made of VeOmni 0.1.11 at 5.9.0 and VeOmni 0.1.12 as it is, and parts of the names of generated files. Each model of a
module that both have is built from one toy configuration with one state, in a process for each folder, and runs one
batch forward and backward in float32.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.replay_gate import find_environment
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project

FILES = "*/generated/patched_modeling_*.py"
_MOST = 5
_SOURCE = re.compile(r"^#\s+Source: (\S+)", re.MULTILINE)


def compare_projects(ours: Path, theirs: Path, release: str, patterns: list[str]) -> Iterator[str]:
    """A line for each model, or for each module that cannot run, with how much of it has the same bits."""
    environment = find_environment(release)
    if environment is None:
        yield f"transformers {release} does not import here"
        return
    projects = [load_project(folder) for folder in (ours, theirs)]
    for file in sorted(projects[0].search_root.glob(FILES)):
        name = file.relative_to(projects[0].search_root)
        is_wanted = not patterns or any(pattern in file.name for pattern in patterns)
        if is_wanted and (projects[1].search_root / name).is_file():
            runs = [_run_apart(project, name, environment) for project in projects]
            yield from (f"{file.stem}: {line}" for line in _describe(*runs))


def _run_apart(project: Project, file: Path, environment: Mapping[str, str]) -> Any:
    """What a process in a project's folder computes: values by model, or why it does not."""
    with tempfile.TemporaryDirectory(prefix="patchgen-bits-") as temporary:
        answer = Path(temporary, "values.pt")
        command = [sys.executable, "-m", "tools.same_bits", "--run", str(file), str(answer)]
        done = subprocess.run(command, cwd=project.base, env=environment, capture_output=True, text=True, check=False)
        if not answer.is_file():
            return (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        return importlib.import_module("torch").load(answer)


def _describe(ours: Any, theirs: Any) -> list[str]:
    for whose, run in (("ours", ours), ("theirs", theirs)):
        if isinstance(run, str):
            return [f"{whose} does not run: {run}"]
    return [f"{head} {_compare(ours[head], theirs[head])}" for head in ours if head in theirs]


def _compare(ours: Any, theirs: Any) -> str:
    for whose, run in (("ours", ours), ("theirs", theirs)):
        if isinstance(run, str):
            return f"{whose} does not run: {run}"
    torch = importlib.import_module("torch")
    names = [name for name in {**ours, **theirs} if not ours.get(name) is theirs.get(name) is None]
    one_sided = [name for name in names if ours.get(name) is None or theirs.get(name) is None]
    unlike = [name for name in names if name not in one_sided and not torch.equal(ours[name], theirs[name])]
    text = f"{len(names) - len(unlike) - len(one_sided)} of {len(names)} values have the same bits"
    text += f"; one side alone has {', '.join(one_sided[:_MOST])}" if one_sided else ""
    details = [f"{name} {_measure(ours[name], theirs[name])}" for name in unlike[:_MOST]]
    return f"{text}; unlike are {len(unlike)}: {', '.join(details)}" if unlike else text


def _measure(ours: Any, theirs: Any) -> str:
    if ours.shape != theirs.shape:
        return f"of shape {[*ours.shape]} and {[*theirs.shape]}"
    return f"by {float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-30)):.1e} of the largest"


# --- in a process of its own -----------------------------------------------------------------------


def run_module(file: Path) -> dict[str, Any]:
    """What each model of a generated module of the project here computes, by its name; or why it does not."""
    project = load_project(Path.cwd())
    from patchgen_core.models.project_setup import run_setups

    setup = run_setups([project.setup] if project.setup else [])
    from patchgen_core.models.model_heads import find_heads

    module = ".".join((project.package_prefix, *file.with_suffix("").parts))
    source = _SOURCE.search((project.search_root / file).read_text(encoding="utf-8"))
    assert source is not None, f"{file} does not say what it is made from"
    generated, upstream = importlib.import_module(module), importlib.import_module(source[1])
    for value in vars(generated).values():
        if setup.slot_class_of(value) is not None:
            value.bind("eager")
    results: dict[str, Any] = {}
    for head in find_heads(generated, upstream):
        try:
            results[head.name] = _run_head(head, setup)
        except Exception as error:
            results[head.name] = f"{type(error).__name__}: {error}".partition("\n")[0]
    return results


def _run_head(head: Any, setup: Any) -> dict[str, Any]:
    import torch

    from patchgen_core.models.model_run import run_model
    from patchgen_core.models.modes import TRAINING
    from patchgen_core.models.references import Reference
    from patchgen_core.models.toy_config import toy_config_for
    from patchgen_core.models.toy_models import build_model, load_state

    reference = Reference(head, toy_config_for(head.upstream.config_class.model_type), (), "cpu")
    batches = [batch for batch in reference.batches.batches if batch.mode == TRAINING and not batch.changes]
    values: dict[str, Any] = {}
    with setup.run_time():
        model = build_model(head.generated, reference.config, torch.float32)
        load_state(model, reference.state)
        for batch in batches:
            run = run_model(model, replace(batch, inputs=setup.inputs_for(model, batch.inputs)))
            values |= {f"{batch.name}: {name}": value for name, value in run.values.items()}
    return values


def main(arguments: list[str]) -> int:
    """Compare, or be one of the processes that run."""
    if arguments[0] == "--run":
        importlib.import_module("torch").save(run_module(Path(arguments[1])), arguments[2])
        return 0
    ours, theirs, release, *patterns = arguments
    for line in compare_projects(Path(ours).resolve(), Path(theirs).resolve(), release, patterns):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
