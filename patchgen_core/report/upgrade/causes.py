"""Which of upstream's commits are behind what an upgrade finds, for those who make or report them."""

from __future__ import annotations

from dataclasses import dataclass

from patchgen_core.report.words import quantity
from patchgen_core.upgrade.results import RISKS, ConfigVerdict, Finding, Risk, UpgradeReport, UpstreamCommit
from patchgen_core.upgrade.verdicts.comparing import worst

TITLE = "Upstream's changes behind that"
_MOST_TARGETS = 6


@dataclass(frozen=True)
class Cause:
    """A commit of upstream's, and the targets of the patches that it is about, each once, or what configs name.

    Attributes:
        risk: the worst of what is found because of it.
    """

    commit: UpstreamCommit
    risk: Risk
    targets: tuple[str, ...]

    def __str__(self) -> str:
        verb = "breaks" if self.risk == "must change" else "concerns"
        more = len(self.targets) - _MOST_TARGETS
        names = ", ".join(self.targets[:_MOST_TARGETS]) + (f" and {more} more" if more > 0 else "")
        return f"{self.commit}, in code that {verb} {quantity(len(self.targets), 'target')}: {names}"


def list_causes(report: UpgradeReport) -> list[Cause]:
    """The commits that findings name: those that break something first, then by how many targets they are about."""
    risks: dict[UpstreamCommit, list[Risk]] = {}
    targets: dict[UpstreamCommit, dict[str, None]] = {}
    for config in report.configs:
        for target, finding in _findings(config):
            for commit in finding.commits:
                risks.setdefault(commit, []).append(finding.risk)
                targets.setdefault(commit, {})[target] = None
    causes = [Cause(commit, worst(risks[commit]), tuple(targets[commit])) for commit in risks]
    return sorted(causes, key=lambda cause: (RISKS.index(cause.risk), -len(cause.targets)))


def _findings(config: ConfigVerdict) -> list[tuple[str, Finding]]:
    """The findings of a config, each with the target of its patch, or what it is about."""
    own = [(patch.target, finding) for patch in config.patches for finding in patch.findings]
    return [*own, *((finding.about, finding) for finding in config.findings)]
