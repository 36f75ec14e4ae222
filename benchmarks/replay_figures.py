"""How many patches of the replay came to what: a file of counts, and the tables that docs/upgrading.md has of it.

    python -m benchmarks.replay_figures

prints the tables. The benchmark writes the files with ``--figures``: one of long steps, over several releases at once,
and one of the steps from each minor release to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.replay_judge import Judged

FIGURES = Path(__file__).with_name("replay_figures.txt")
MINOR_FIGURES = Path(__file__).with_name("replay_minor_figures.txt")
HEAD = """\
# The replay's figures: `python -m benchmarks.replay --figures FILE` writes them.
# walk | release | kind of patch | what upstream changed | outcome | judged by | patches"""
OUTCOMES = ("right", "conflict", "wrong", "not judged")
GROUPS = {
    "step": "project, and the release that it came to",
    "project": "project, over all of its steps",
    "kind": "kind of patch",
    "change": "upstream's change",
    "by": "judged by",
}
"""What tables have their rows by, and what these are called."""
TABLES = {FIGURES: ("step", "kind", "change", "by"), MINOR_FIGURES: ("project", "change")}
"""The tables that docs/upgrading.md has of each file."""
LABELS = {
    "none": "nothing",
    "layout": "layout or docstring",
    "gone": "renamed or gone",
    "not there": "it has no such target: added, or inherited",
    "people": "people, who wrote the same code",
    "rules": "generating and the contract rules",
    "together": "**together**",
}
"""What rows are called, where that is not what is counted."""
FORMS = ("replacements", "edits")


@dataclass(frozen=True, order=True)
class Figure:
    """How many patches of a walk came to the same at a release.

    Attributes:
        by: ``people`` who wrote the same code, ``parity``, or ``rules`` for generating and the contract rules.
    """

    walk: str
    release: str
    kind: str
    change: str
    outcome: str
    by: str
    count: int

    @property
    def form(self) -> str:
        """Whether the walk is one of replacements or of edits."""
        return self.walk.rpartition("-")[2]

    @property
    def project(self) -> str:
        """The project, whatever its form and release."""
        return self.walk.rpartition("-")[0]

    @property
    def step(self) -> str:
        """The project and the release that it came to, whatever its form."""
        return f"{self.project}, {self.release}"


def read_figures(path: Path) -> list[Figure]:
    """The counts of a file; none where there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return [Figure(*row[:-1], int(row[-1])) for row in rows]  # type: ignore[arg-type]


def write_figures(path: Path, judged: Iterable[tuple[str, str, Judged]]) -> None:
    """Write the counts of steps, by their walk's name and release, into a file, which keeps those of other steps."""
    counts = Counter(
        (walk, release, entry.kind, entry.record.change, entry.outcome, entry.by) for walk, release, entry in judged
    )
    fresh = {(walk, release) for walk, release, *_ in counts}
    figures = [figure for figure in read_figures(path) if (figure.walk, figure.release) not in fresh]
    figures += [Figure(*key, count) for key, count in counts.items()]
    lines = [HEAD, *(" | ".join(map(str, astuple(figure))) for figure in sorted(figures))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def tabulate_outcomes(figures: Iterable[Figure], group: str) -> list[str]:
    """A Markdown table of what each form's patches came to, by one of `GROUPS`."""
    figures = list(figures)
    keys = sorted({getattr(figure, group) for figure in figures})
    titles = [f"{form}: {' / '.join(OUTCOMES)}" for form in FORMS]
    lines = [f"| {GROUPS[group]} | {' | '.join(titles)} |", "| --- | --- | --- |"]
    for key in [*keys, "together"]:
        cells = []
        for form in FORMS:
            chosen = [f for f in figures if f.form == form and key in (getattr(f, group), "together")]
            sums = Counter[str]()
            for figure in chosen:
                sums[figure.outcome] += figure.count
            cells.append(" / ".join(f"{sums[outcome]:,}" for outcome in OUTCOMES) if chosen else "-")
        lines.append(f"| {LABELS.get(key, key)} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    for path, groups in TABLES.items():
        for group in groups:
            print("\n".join(tabulate_outcomes(read_figures(path), group)), end="\n\n")
