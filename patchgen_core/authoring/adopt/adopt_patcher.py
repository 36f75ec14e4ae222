"""From a monkey patch to a patch config: run it, see what it changes, write what declares the same."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen_core.authoring.adopt.config_text import AdoptedConfig
from patchgen_core.authoring.adopt.contract_findings import examine
from patchgen_core.authoring.adopt.patcher_run import PatcherRequest, PatcherRun
from patchgen_core.authoring.new_file import check_free
from patchgen_core.authoring.type_imports.complete import complete_new_config
from patchgen_core.build.normalize import RawText, normalize
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.files import write_files
from patchgen_core.project.project import CONFIG_SUFFIX, Project
from patchgen_core.syntax.source import read_source
from patchgen_core.upstream.custom_code import BASE_MODULE, find_incomplete_starts
from patchgen_core.upstream.module import UpstreamModule, find_upstream, installed_version
from patchgen_core.workers.worker import Worker, WorkerDied

_HANDLER = "patchgen_core.authoring.adopt.run_patcher:run_patcher"
_TIME_LIMIT = 600.0


@dataclass(frozen=True)
class AdoptResult:
    """A config that was written, or would be, for the module ``upstream``.

    Attributes:
        changes: what it patches, each ``target = replacement``.
        findings: what the patcher does and no config of this module can do, or does not; each with what to do.
        notes: what the patcher said, and differences that are no fault.
        patcher: as ``package.module:function``.
    """

    path: Path
    text: str
    changes: tuple[str, ...]
    findings: tuple[Problem, ...]
    notes: tuple[str, ...]
    upstream: str
    patcher: str


def adopt(
    project: Project,
    model: str,
    patcher: str = "",
    output: Path | None = None,
    *,
    arguments: Mapping[str, Any] | None = None,
    imports: Sequence[str] = (),
    inline: bool = False,
    force: bool = False,
) -> AdoptResult:
    """Write a patch config that does what a monkey patch does.

    The patcher runs on upstream's module in a process of its own, and all that it changes is found by comparing. The
    config is generated once, and what the contract rules find in the replacements, which was so under the monkey
    patch as well, is allowed in the config and told in the notes.

    Args:
        model: a model type, such as ``llama``, or upstream's modeling module.
        patcher: ``liger``; another patch type that is registered for the model type; ``package.module:function``; or
            empty, for what importing ``imports`` patches, and for Liger's where there are none.
        output: the config's file; by default ``<model>/<model>_gpu_patch_gen_config.py`` below the search root.
        arguments: keyword arguments for the patcher.
        imports: modules to import first, whose decorators register patchers, or that patch when they are imported.
        inline: copy the code of the patcher's own modules into the config, instead of importing it.
        force: write over a file that is there already.

    Raises:
        PatchgenError: there is no such model or patcher, the patcher fails, nothing that it changes can be
            declared, or the file is there already.
    """
    patcher = patcher or ("" if imports else "liger")
    if output is not None:
        check_free(Path(output), force)
    if "." in model:
        find_upstream(model, project.import_roots)
    run = _run_apart(project, PatcherRequest(model, patcher, tuple(imports), dict(arguments or {}), inline))
    name = run.upstream.rpartition(".")[2].removeprefix("modeling_")
    path = Path(os.path.abspath(output or project.search_root / name / f"{name}_gpu{CONFIG_SUFFIX}"))
    check_free(path, force)
    upstream = find_upstream(run.upstream, project.import_roots)
    about = _about(project, path, upstream, run, _command(model, patcher, arguments, imports, inline))
    target_file = f"patched_modeling_{path.name.removesuffix(CONFIG_SUFFIX)}.py"
    source = read_source(upstream.path)
    config = AdoptedConfig(run, source, target_file)
    if not config.changes:
        raise _nothing(run, config)
    if run.upstream.startswith("transformers."):
        base = find_upstream(BASE_MODULE, project.import_roots)
        config.keep_initial_values(find_incomplete_starts(source, read_source(base.path)))
    write_files([(path, config.text(about))])
    allowances, wrong, notes = examine(project, path)
    text = normalize([RawText(path, config.text(about, allowances))], project)[0].text
    text = complete_new_config(project, path, text)
    write_files([(path, text)])
    findings, all_notes = (*config.findings, *wrong), (*config.notes, *notes)
    return AdoptResult(path, text, tuple(config.changes), findings, all_notes, run.upstream, run.patcher)


def _nothing(run: PatcherRun, config: AdoptedConfig) -> PatchgenError:
    reasons = " ".join(f"{finding.message}." for finding in config.findings)
    message = f"{run.patcher} changes nothing in '{run.upstream}' that a config could declare"
    return PatchgenError(message, hint=reasons or "Do its arguments switch everything off?")


def _command(
    model: str, patcher: str, arguments: Mapping[str, Any] | None, imports: Sequence[str], inline: bool
) -> str:
    words = ["patchgen", "adopt", model, *(["--from", patcher] if patcher else [])]
    words += [word for name in imports for word in ("--import", name)]
    words += ["--inline"] * inline
    words += ["--kwargs", *(f"{name}={value}" for name, value in arguments.items())] if arguments else []
    return " ".join(map(shlex.quote, words))


def _about(project: Project, path: Path, upstream: UpstreamModule, run: PatcherRun, command: str) -> list[str]:
    package = run.patcher.partition(":")[0].partition(".")[0]
    versions = [f"{upstream.distribution} {upstream.version}"]
    if (own := installed_version(package)) and package != upstream.distribution:
        versions.append(f"{package} {own}")
    origin = f"Written by '{command}' with {' and '.join(versions)}; from now on a config like any other."
    return [origin, "", f"    patchgen {project.module_name(path)} --diff"]


def _run_apart(project: Project, request: PatcherRequest) -> PatcherRun:
    try:
        json.dumps(dict(request.arguments))
    except TypeError as error:
        raise PatchgenError(f"the patcher's arguments cannot be passed on: {error}") from None
    try:
        with Worker(_HANDLER, _TIME_LIMIT, project.import_roots) as worker:
            run: PatcherRun = worker.ask(request)
            return run
    except OSError as error:
        raise PatchgenError(f"no process for the patcher can be started: {error.strerror}") from None
    except WorkerDied as error:
        output = "\n".join(error.output.strip().splitlines()[-10:])
        raise PatchgenError(f"running the patcher returned nothing: {error.how}", excerpt=output) from None
