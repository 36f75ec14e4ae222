"""What an upgrade finds out: plain data, which every front end prints, sends or saves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from patchgen_core.errors import Location, Problem
from patchgen_core.upstream.versions import Origin

Kind = Literal[
    "unchanged",
    "cosmetic",
    "changed",
    "changed elsewhere",
    "place changed",
    "place moved",
    "place ambiguous",
    "place gone",
    "signature changed",
    "decorators changed",
    "moved",
    "gone",
    "now upstream",
    "new code",
    "added",
]
"""What happened to a piece of upstream between two releases.

``unchanged``: the same text. ``cosmetic``: other text, the same syntax tree. ``changed``: other statements.
``signature changed`` and ``decorators changed``: those, whatever else changed. ``moved``: it has another name, or
stands elsewhere. ``gone``: nothing like it is there. ``now upstream``: the new release does what the patch did.
``new code``: code that the patch's reason may apply to. ``added``: the patch adds it; neither release has it.

Of an edit: ``changed elsewhere`` than at its place; ``place changed``: there; ``place moved``: the same code with
other names, or in another function; ``place ambiguous``: it is there more often; ``place gone``: it is not there.
"""

Risk = Literal["safe", "review", "must change"]
"""What to do about it: nothing but generate anew, look at it, or change the config."""

RISKS: tuple[Risk, ...] = ("must change", "review", "safe")
"""From the worst on."""


@dataclass(frozen=True)
class UpstreamCommit:
    """A change in upstream's history: its short hash, date and subject, and the pull request that it was, if known."""

    commit: str
    date: str
    subject: str
    pull_request: int | None = None

    def __str__(self) -> str:
        number = f"#{self.pull_request} " if self.pull_request is not None else ""
        return f"{number}{self.subject} ({self.commit}, {self.date})"


@dataclass(frozen=True)
class Finding:
    """A piece of upstream that a patch, or a config as a whole, is about or relies on, and what happened to it.

    Attributes:
        about: what it is called in the old release, or in the new one where only that has it: ``Qwen3MLP.forward``,
            ``Qwen3Config.rope_theta``, ``transformers.cache_utils.Cache``.
        relation: what it is to the patch: ``target``, ``caller``, ``output``, ``base``, ``import``, ``field``,
            ``used``, ``alike`` (new code), ``anchor`` (a helper follows it), ``helper`` (upstream has its name),
            ``excluded``, ``dropped``, ``module``.
        detail: what exactly, in one sentence without its full stop; empty where the kind says all.
        diff: a unified diff of upstream's own change; empty for none.
        rebase: what the call of the config that names it has to say instead; None where that is for a person.
        commits: upstream's commits that did it, the newest first; empty where no history was asked.
    """

    kind: Kind
    about: str
    relation: str
    detail: str = ""
    risk: Risk = "safe"
    diff: str = ""
    rebase: Rebase | None = None
    commits: tuple[UpstreamCommit, ...] = ()

    def __str__(self) -> str:
        what = self.about if self.relation == "target" else f"{self.relation} {self.about}"
        return f"{what} {self.kind}: {self.detail}" if self.detail else f"{what} {self.kind}"


@dataclass(frozen=True)
class Conflict:
    """A place where both sides changed the same and neither follows from the other.

    Attributes:
        line, merged_line: 1-based lines of the replacement's and of the merged text where ours stands.
        reason: why it cannot be decided, in one sentence without its full stop.
        base, ours, theirs: what each has there, at column 0; empty where one has nothing.
        indent: what stands before the statements of the block; empty where lines of ours show it.
    """

    line: int
    reason: str
    base: str
    ours: str
    theirs: str
    merged_line: int = 0
    indent: str = ""


@dataclass(frozen=True)
class Merged:
    """The result of merging two changes of one definition.

    Attributes:
        text: with conflicts, our text with all that could be merged, and ours where it could not.
        how: what it took: ``same`` (nothing of upstream's change was missing), ``lines``, or ``syntax``; ``kept``
            where ours stays since upstream deprecated the target, or only moved code of it between functions;
            ``decided`` by a person; ``deleted`` for an edit that upstream has made by itself by now.
        notes: what was assumed on the way, such as an argument that was renamed on both sides.
    """

    text: str
    how: Literal["same", "lines", "syntax", "kept", "decided", "deleted"]
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether there is no conflict."""
        return not self.conflicts


@dataclass(frozen=True)
class ArgumentChange:
    """Another text for an argument of the call that declares an edit.

    Attributes:
        location: the line that the call lies on.
        call: what is called; ``new_call`` is what is to be.
        name: the argument's; empty where the call alone changes.
        old, new: what it says.
    """

    location: Location
    call: str
    new_call: str
    name: str
    old: str
    new: str


@dataclass(frozen=True)
class StatementChange:
    """Other statements in the place of the one at a line of a config; none for one that goes: its comments, and the
    description that it gives, are then those of the one at ``heir``, if there is one."""

    location: Location
    texts: tuple[str, ...]
    heir: Location | None = None


@dataclass(frozen=True)
class NameChange:
    """Another name of something of upstream's that a call in a config has to say.

    Attributes:
        location: the line that the call lies on.
        call: what is called, such as ``drop_decorators``.
        old, new: what it says; the new one is empty where the call need not name it any more.
        target: the target that it names before; empty for none.
    """

    location: Location
    call: str
    old: str
    new: str
    target: str = ""


@dataclass(frozen=True)
class Rebase:
    """A replacement, an edit, or a name of upstream's, as it would be for the new release.

    Attributes:
        location: file and line of its ``def`` or ``class`` in the project; for code in quotes, of its call.
        ours: its text as it stands there, moved to column 0, with its own decorators; empty for code in quotes.
        diff: unified diff from ``ours`` to what it becomes.
        marked: the text with conflict markers; empty when there are none.
        needs: statements of imports that its file lacks for the merged text, such as
            ``from transformers.utils import can_return_tuple``.
        is_edit: whether it is an edit; ``arguments`` are then what its declaration has to say instead.
        statements: where all edits of a target were carried over as one, what takes the place of their declarations;
            the merged text is then that of the whole target.
        name: the name that a call of the config has to say instead; nothing else changes then.
        declaration: of an edit with a conflict, what declares it; empty where several targets share it.
    """

    location: Location
    ours: str
    merged: Merged
    diff: str
    marked: str = ""
    needs: tuple[str, ...] = ()
    is_edit: bool = False
    arguments: tuple[ArgumentChange, ...] = ()
    statements: tuple[StatementChange, ...] = ()
    name: NameChange | None = None
    declaration: str = ""

    @property
    def is_deletion(self) -> bool:
        """Whether it is an edit that goes since upstream has made it."""
        return self.merged.how == "deleted"

    @property
    def noun(self) -> str:
        """What reports call it."""
        return "name" if self.name is not None else "edit" if self.is_edit else "replacement"


@dataclass(frozen=True)
class PatchVerdict:
    """What a new release does to one patch.

    Attributes:
        kind: the patch's kind, as in the header of the generated file.
        verdict: what happened to the target; ``risk`` is the worst of all findings' risks.
        findings: what happened to the target, which comes first, and to what the patch relies on. What is unchanged
            is left out, but for the target.
        new_name: what the target is called now, if it moved.
        rebase: the replacement carried over; None where there is nothing to carry over.
        problems: why the patch cannot be applied to the new release, or breaks a contract there.
        used_at: of an edit that targets share, the call that names this target.
    """

    kind: str
    target: str
    description: str
    location: Location
    verdict: Kind
    risk: Risk
    findings: tuple[Finding, ...]
    new_name: str = ""
    rebase: Rebase | None = None
    problems: tuple[Problem, ...] = ()
    used_at: Location | None = None


@dataclass(frozen=True)
class ConfigVerdict:
    """What a new release does to one config.

    Attributes:
        config: what reports call the config; ``line`` is the 1-based one where it is declared.
        old, new: the versions that are compared; ``old`` is empty when it is not known.
        origin: where the old text is from.
        risk: the worst risk of patches, findings and problems.
        patches: worst first, then in upstream's order.
        findings: what concerns the config and no patch of it: helpers' anchors, excluded names, dropped imports,
            the module itself.
        problems: why nothing can be generated against the new release, or what breaks a contract there and did not
            before; those of patches are there as well.
        notes: what could not be found out, and why.
    """

    config: str
    path: str
    line: int
    module: str
    old: str
    new: str
    origin: Origin | None
    risk: Risk
    patches: tuple[PatchVerdict, ...] = ()
    findings: tuple[Finding, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rebases(self) -> tuple[Rebase, ...]:
        """What can be carried over of its patches, and of the names that it takes from upstream."""
        rebases = [*(patch.rebase for patch in self.patches), *(finding.rebase for finding in self.findings)]
        return tuple(rebase for rebase in rebases if rebase is not None)

    @property
    def summary(self) -> str:
        """How many patches have which verdict: ``3 unchanged, 1 changed``."""
        counts = Counter(patch.verdict for patch in self.patches)
        return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "no patch"


@dataclass(frozen=True)
class UpgradeReport:
    """What a new release does to a project.

    Attributes:
        new: upstream's version that the project is compared with; `origin` is where its text is from.
        configs: worst first, then by name.
        skipped: configs that are not about this distribution, or could not be loaded, each with the reason.
        failed: problems of configs that could not be loaded.
    """

    distribution: str
    new: str
    configs: tuple[ConfigVerdict, ...]
    skipped: tuple[str, ...] = ()
    failed: tuple[Problem, ...] = ()
    origin: Origin | None = None

    @property
    def exit_code(self) -> int:
        """0 when nothing must change, 1 when something must, 2 when a config cannot be loaded."""
        if self.failed:
            return 2
        return int(any(config.risk == "must change" for config in self.configs))

    def of_risk(self, risk: Risk) -> tuple[ConfigVerdict, ...]:
        """The configs of one risk."""
        return tuple(config for config in self.configs if config.risk == risk)

    @property
    def clean_merges(self) -> tuple[Rebase, ...]:
        """What can be carried over without a conflict and becomes another text, each place once."""
        rebases = (rebase for config in self.configs for rebase in config.rebases)
        return tuple(
            {rebase.location: rebase for rebase in rebases if rebase.merged.is_clean and rebase.diff}.values()
        )
