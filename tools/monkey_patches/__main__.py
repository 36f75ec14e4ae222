"""What do the contract rules find in monkey patches that nobody here wrote? `python -m tools.monkey_patches --help`

Reads the modules of an unpacked package for statements that put one of its functions or classes in the place of one of
transformers' modeling code: ``LlamaAttention.forward = fast_forward``, ``setattr``, helpers named for patching. What
does not run with the given version of transformers, by the package's own version guards, is left out. For each place
that patches a modeling file a config is written with those replacements; where options choose between several, one
config for each. What they use beside upstream's names is imported from where the package has it. Nothing of the
package is run. Then the rules run over what the configs generate, and every finding is printed once, errors first.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.config.loading import Loader
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from tools.monkey_patches.names import Upstream, read_trees
from tools.monkey_patches.reading import read_patches
from tools.monkey_patches.writing import write_configs

_VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)
Found = tuple[str, str, Problem]


def examine(paths: Sequence[Path], folder: Path, upstream: Path, package: Path) -> Iterator[Found]:
    """The findings in each config: its folder, how much they matter and what they are; what does not generate too."""
    sys.path[:0] = [str(upstream), str(package)]
    project = Project(search_root=folder, package_prefix=folder.name, root=folder.parent)
    sources = SourceCache()
    contracts = Contracts(project, sources)
    for path in paths:
        try:
            (outcome,) = make_artifacts(Selection(project, [path]), loader=Loader(project, sources))
        except PatchgenError as error:
            yield from ((path.parent.name, "refused", problem) for problem in error.problems)
            continue
        if outcome.artifact is None:
            yield from ((path.parent.name, "refused", problem) for problem in outcome.problems)
            continue
        result = contracts.examine(outcome.artifact, path)
        for weight, problems in (("error", result.errors), ("warning", result.warnings)):
            yield from ((path.parent.name, weight, problem) for problem in problems)


def main(argv: Sequence[str] | None = None) -> int:
    """Print what is found in a package's patches; 0 whatever it is."""
    parser = argparse.ArgumentParser(prog="python -m tools.monkey_patches", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("package", type=Path, help="folder that a wheel of the package is unpacked in")
    parser.add_argument("--upstream", type=Path, required=True, help="folder with the transformers it is written for")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the configs")
    options = parser.parse_args(argv)
    folder, upstream = options.output.resolve() / "patches", options.upstream.resolve()
    version = _VERSION.search((upstream / "transformers" / "__init__.py").read_text(encoding="utf-8"))
    if version is None:
        parser.error(f"{upstream} has no transformers with a version")
    modeling = Upstream(upstream)
    reading, names = read_patches(read_trees(options.package), modeling, version[1])
    paths = write_configs(reading.patches, names, modeling, folder)
    findings: dict[tuple[str, str, str], Found] = {}
    for model, weight, problem in examine(paths, folder, upstream, options.package.resolve()):
        findings.setdefault(
            (model.rpartition("_")[0].rpartition("_")[0], weight, problem.title), (model, weight, problem)
        )
    for wanted in ("refused", "error", "warning"):
        for model, weight, problem in findings.values():
            if weight == wanted:
                print(f"{weight:<8} {model}: {problem.title}")
    counts = Counter((problem.code, weight) for _, weight, problem in findings.values())
    left_out = ", ".join(f"{count} {reason}" for reason, count in sorted(reading.left_out.items()))
    print(f"left out: {left_out or 'nothing'}")
    print(f"{len(reading.patches)} patches in {len(paths)} configs;", dict(sorted(counts.items(), key=str)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
