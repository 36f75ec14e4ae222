"""The explanation of each rule as a file that an editor opens."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from patchgen_core.checks.contract.pages import rule_page
from patchgen_core.checks.contract.run import EVERY_RULE
from patchgen_core.errors import PatchgenError
from patchgen_core.files import write_files
from patchgen_core.project.cache_folder import prepare_folder

FOLDER = "rules"


@lru_cache(256)
def find_page(code: str, cache_folder: Path) -> Path | None:
    """The page of a rule, written into the project's cache the first time; None for no rule, or where it cannot be."""
    rule = next((rule for rule in EVERY_RULE if rule.code == code), None)
    if rule is None:
        return None
    path = cache_folder / FOLDER / f"{code}.md"
    try:
        prepare_folder(cache_folder)
        write_files([(path, rule_page(rule))])
    except PatchgenError:
        return None
    return path
