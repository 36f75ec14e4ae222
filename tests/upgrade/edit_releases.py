"""An upstream module in two releases, a config that edits it, and what becomes of both."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.upgrade.results import ConfigVerdict, Finding, PatchVerdict, UpgradeReport
from patchgen_core.upgrade.upgrading import upgrade
from patchgen_core.upgrade.writing.applying import Applied, apply
from tests.conftest import CONFIG, Workspace, generated
from tests.upgrade.upgraded import Upgrading

OLD = """
import math
from .parts import attention


def rotate(x, angle):
    return x * math.cos(angle)


class Attention:
    def __init__(self, config):
        self.config = config
        self.o_proj = Linear(config.size)
        self.q_proj = Linear(config.size)

    def project(self, x):
        return x

    def forward(self, hidden_states, mask=None, **kwargs):
        query = self.q_proj(hidden_states)
        query = rotate(query, 1)
        if mask is not None:
            query = query + mask
        scores, weights = attention(query, mask, scaling=self.scaling, **kwargs)
        scores = scores.reshape(-1)
        output = self.o_proj(scores)
        return output, weights
"""


def changed(*pairs: tuple[str, str], text: str = OLD) -> str:
    """Upstream's text with pieces of it changed."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


@dataclass
class EditUpgrade:
    """A project of one config with edits, and the release that it is upgraded to."""

    upgrading: Upgrading
    report: UpgradeReport

    @property
    def config(self) -> ConfigVerdict:
        """What is said of its one config."""
        (config,) = self.report.configs
        return config

    @property
    def patch(self) -> PatchVerdict:
        """What is said of its one patch."""
        (patch,) = self.config.patches
        return patch

    @property
    def finding(self) -> Finding:
        """What is said of the patch's target."""
        return self.patch.findings[0]

    @property
    def text(self) -> str:
        """The config's file."""
        return (self.upgrading.work.models / CONFIG).read_text()

    @property
    def code(self) -> str:
        """The generated file."""
        return generated(self.upgrading.work).read_text()

    def apply(self, **options: bool) -> Applied:
        """What ``upgrade --apply`` does."""
        return apply(self.upgrading.work.project, self.report, self.upgrading.release, allow_dirty=True, **options)


def upgrade_edits(work: Workspace, config: str, new: str, old: str = OLD) -> EditUpgrade:
    """What a release does to a config with edits, whose files are generated against the old one."""
    upgrading = Upgrading(work, old, new)
    work.config(textwrap.dedent(config))
    upgrading.generate()
    report = upgrade(select_configs(work.project, package="acme"), upgrading.release, upgrading.releases)
    return EditUpgrade(upgrading, report)
