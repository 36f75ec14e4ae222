"""What another release of upstream does to a project, as Markdown for the text of a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgen_core.errors import Problem, display_path
from patchgen_core.report.markdown import cell, code, details, diff_fence, escape, fence, table_head, table_row
from patchgen_core.report.upgrade.causes import TITLE, list_causes
from patchgen_core.report.upgrade.steps import Step
from patchgen_core.report.upgrade.texts import (
    Part,
    applied_summary,
    describe_config,
    list_changes,
    origins,
    patches_summary,
    risk_counts,
)
from patchgen_core.report.upgrade.texts import (
    versions as compared,
)
from patchgen_core.report.words import quantity
from patchgen_core.upgrade.results import ConfigVerdict, UpgradeReport
from patchgen_core.upgrade.writing.applying import Applied
from patchgen_core.upgrade.writing.gating import GateRun

LIMIT = 60_000
"""The most characters. GitHub takes 65,536 as a pull request's text, to which a workflow adds what the gate says."""
_REMARK = 400
_WHOLE = 0.6
"""How much of it goes to the first configs with their diffs, before others are told without theirs."""
_MOST_ROWS = 100
_MOST_PLACES = 30
_LONGEST = 300


@dataclass(frozen=True)
class _MarkdownBlock:
    """A part of the text: whole, and in short for where that is too long."""

    whole: str
    short: str


def upgrade_markdown(
    report: UpgradeReport, steps: Sequence[Step], more: Sequence[str] = (), limit: int = LIMIT
) -> str:
    """The report as Markdown: a summary, what is to do, a table, and each config that is not safe, folded away.

    Paragraphs of ``more`` follow the summary. Over ``limit`` characters diffs go first, those of the least risk before
    others; then configs.
    """
    title = f"### {escape(compared(report))}"
    summary = f"{escape(risk_counts(report)).capitalize()}. {escape(origins(report))}".rstrip()
    blocks = [_unabridged([title, "", summary])]
    blocks += [_unabridged([paragraph]) for paragraph in more]
    parts = (_problems(report.failed), _steps(steps), _causes(report), _table(report))
    blocks += [_unabridged(lines) for lines in parts if lines]
    for config in report.configs:
        if config.risk != "safe":
            blocks.append(_MarkdownBlock(*("\n".join(_config(config, is_whole)) for is_whole in (True, False))))
    blocks += map(_unabridged, _other_configs(report))
    return _fit_limit(blocks, limit)


def _unabridged(lines: Sequence[str]) -> _MarkdownBlock:
    text = "\n".join(lines)
    return _MarkdownBlock(text, text)


def _fit_limit(blocks: Sequence[_MarkdownBlock], limit: int) -> str:
    """As many blocks as there is room for: the first ones whole, and others in short."""
    if sum(len(block.whole) + 2 for block in blocks) <= limit:
        return "\n\n".join(block.whole for block in blocks) + "\n"
    room = limit - _REMARK
    texts: list[str] = []
    for block in blocks:
        is_early = limit - room + len(block.whole) <= limit * _WHOLE
        text = block.whole if is_early else block.short
        if len(text) + 2 > room:
            break
        texts.append(text)
        room -= len(text) + 2
    for number, text in enumerate(texts):
        longer = len(blocks[number].whole) - len(text)
        if longer <= room:
            texts[number] = blocks[number].whole
            room -= longer
    shortened = sum(text != block.whole for text, block in zip(texts, blocks))
    omitted = len(blocks) - len(texts)
    losses = [f"{shortened} without diffs"] * bool(shortened) + [f"{omitted} left out"] * bool(omitted)
    remark = (
        f"This text is shortened to fit GitHub: {' and '.join(losses)}. The whole text is in the report of the run."
    )
    return "\n\n".join([*texts, f"> {remark}"]) + "\n"


def applied_markdown(applied: Applied, gate: GateRun | None = None) -> str:
    """What was applied as a paragraph of Markdown, what the gate says, and below it, folded away, the files."""
    lines = [escape(applied_summary(applied))]
    if gate is not None:
        lines += ["", f"The gate is {'red' if gate.exit_code else 'green'}:", ""]
        lines += [f"- {escape(line)}" for line in gate.lines]
    if applied.problems:
        lines += ["", *fence("\n".join(map(str, applied.problems)))]
    changes = [
        f"- {change.word} {code(change.place)}" + (f": {escape(change.remark)}" if change.remark else "")
        for change in list_changes(applied)
    ]
    return "\n".join([*lines, "", *details("what was written", changes)] if changes else lines)


# --- the parts -------------------------------------------------------------------------------------


def _steps(steps: Iterable[Step]) -> list[str]:
    lines: list[str] = []
    for step in steps:
        lines += [*([""] if lines else []), f"**{escape(step.what)}:**", ""]
        for location, text in step.places[:_MOST_PLACES]:
            lines.append(f"- [ ] {code(str(location))} {escape(_short(text))}")
        if len(step.places) > _MOST_PLACES:
            lines.append(f"- and {len(step.places) - _MOST_PLACES} more")
    return lines


def _causes(report: UpgradeReport) -> list[str]:
    causes = list_causes(report)
    lines = [f"- {escape(str(cause))}" for cause in causes[:_MOST_PLACES]]
    lines += [f"- and {len(causes) - _MOST_PLACES} more"] if len(causes) > _MOST_PLACES else []
    return [f"**{TITLE}:**", "", *lines] if lines else []


def _table(report: UpgradeReport) -> list[str]:
    rows = [config for config in report.configs if config.risk != "safe"]
    if not rows:
        return []
    lines = table_head(["risk", "config", "patches"])
    for config in rows[:_MOST_ROWS]:
        lines.append(table_row([config.risk, cell(config.config), patches_summary(config)]))
    if len(rows) > _MOST_ROWS:
        lines.append(table_row([f"and {len(rows) - _MOST_ROWS} more", "", ""]))
    return lines


def _other_configs(report: UpgradeReport) -> list[list[str]]:
    names = [f"- {code(config.config)}: {patches_summary(config)}" for config in report.of_risk("safe")]
    skipped = [f"- {escape(line)}" for line in report.skipped]
    folds = (("safe to regenerate", names), ("not compared", skipped))
    return [details(f"{title}: {quantity(len(lines), 'config')}", lines) for title, lines in folds if lines]


def _problems(problems: Iterable[Problem]) -> list[str]:
    text = "\n".join(map(str, problems))
    return fence(text) if text else []


def _config(config: ConfigVerdict, is_whole: bool) -> list[str]:
    """The text of one config, with each of upstream's diffs only once, or without any diff."""
    lines = [f"{code(display_path(config.path))}, from {code(config.module)}"]
    titles: set[str] = set()
    for part in describe_config(config):
        if part.kind == "diff" and (not is_whole or (part.about and part.code in titles)):
            continue
        if part.about:
            titles.add(part.code)
        lines += _spaced(_part(part, is_whole))
    return details(f"{config.risk}: {config.config} ({patches_summary(config)})", lines)


def _part(part: Part, is_whole: bool) -> list[str]:
    if part.patch is not None:
        patch = part.patch
        renamed = f" to {code(patch.new_name)}" if patch.new_name else ""
        return [f"**{code(patch.target)}** {patch.verdict}{renamed} ({patch.kind}, {code(str(patch.location))})"]
    if part.kind == "problems":
        return _problems(part.problems)
    if part.kind == "lines":
        return [f"- {escape(text) if word == 'note' else f'{word}: {escape(text)}'}" for word, text in part.lines]
    if part.kind == "conflict":
        return [f"{code(part.about)}: {escape(part.title)}", *(["", *fence(part.code)] if is_whole else [])]
    title = part.title[0].upper() + part.title[1:]
    if part.kind == "rest":
        return [f"{title}."]
    return [f"{title} {code(part.about)}:" if part.about else f"{title}:", "", *diff_fence(part.code)]


def _spaced(lines: Sequence[str]) -> list[str]:
    return ["", *lines] if lines else []


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
