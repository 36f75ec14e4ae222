"""What the items of a run of the gate are, by the paths and the checks that options name."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from patchgen_core.checks.gate import Gate, Item
from patchgen_core.checks.order import arrange, item_key, keep_past, read_past
from patchgen_core.checks.registry import CheckInfo, all_checks, choose_names
from patchgen_core.checks.result import CheckResult
from patchgen_core.cli.printing import show_progress
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.project.named_configs import find_named_configs, is_whole, path_of
from patchgen_core.project.project import Project, no_configs
from patchgen_core.report.gate.stream import Stream


def choose_checks(options: argparse.Namespace) -> list[CheckInfo]:
    """The checks that ``--checks`` names, or all; a PatchgenError where there is no such check."""
    checks = {check.name: check for check in all_checks()}
    names = tuple(checks) if options.checks is None else choose_names(checks, [options.checks])
    return [checks[name] for name in names]


def find_items(gate: Gate, home: Project, paths: Sequence[str]) -> list[Item]:
    """The items of a project, or of the configs that paths mean; a PatchgenError where there is none."""
    if not paths:
        configs = home.find_configs()
        if not configs:
            raise no_configs(home)
        return gate.items(configs, [home.base])
    items = [item for path in paths for item in _find_items_of(gate, home, path)]
    return list(dict.fromkeys(items)) + (gate.items([], [home.base]) if is_whole(home, paths) else [])


def _find_items_of(gate: Gate, home: Project, path: str) -> list[Item]:
    """All items of the configs that a path means; the one of a node id."""
    items = gate.items(find_named_configs(home, [path]))
    _, _, name = path.partition("::")
    chosen = [item for item in items if name in ("", item.name)]
    if not chosen:
        names = list(dict.fromkeys(item.name for item in items))
        hint = did_you_mean(name, names) or f"Its items: {', '.join(names)}."
        raise PatchgenError(f"there is no item '{name}' in '{path_of(path)}'", None, hint)
    return chosen


def run_items(
    gate: Gate,
    items: Sequence[Item],
    options: argparse.Namespace,
    stream: Stream | None = None,
    *,
    stops: bool = False,
) -> tuple[CheckResult, ...]:
    """Run items with a progress bar, and hand each result to a stream; with ``stops`` no more after a red one.

    What was red last time runs first, then what is cheap. The results are in the order of the items.
    """
    session = gate.session
    keyed = [(item_key(session, item.path, item.name), item) for item in items]
    results: list[CheckResult] = []
    done: set[str] = set()
    with show_progress(options) as progress:
        for result in gate.run(arrange(keyed, read_past(session)), stops=stops):
            results.append(result)
            if stream is not None:
                stream.result(result)
            done.add(result.item)
            if progress is not None:
                progress(len(done), len(items))
    keep_past(session, results)
    places = {gate.node_id(item): place for place, item in enumerate(items)}
    return tuple(sorted(results, key=lambda result: places[result.item]))
