"""Configs against several releases: what works where, and the release that breaks a patch first."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.matrix import compatibility
from patchgen_core.upgrade.matrix.matrix import make_matrix
from patchgen_core.upgrade.matrix.release_columns import WantedReleases, expand, find_columns
from patchgen_core.upgrade.matrix.results import MatrixReport, MatrixRow, PatchRow
from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.upstream.releases import Releases, release_folder
from tests.conftest import CONFIG, PREAMBLE, Workspace, generated
from tests.upstream.shop import BIASED, HEAD, HISTORY, NORM, PATCHES, REST, keep, open_project, open_shop, write_wheel
from tools.ray_cluster import start_cluster

EDIT = """
@config.edit_method("Norm.forward", at="y = y * 2")
def norm_forward(y):
    y = y + 1
    ...
"""
EDITED = (
    "        x = x + 1\n        y = y * 2\n        return x + y\n",
    "        x = x + 2\n        y = y * 2\n        return x + y\n",
    "        x = x + 1\n        y = y - 1\n        y = y * 2\n        return x + y\n",
    "        return x + y\n",
)
"""A function; changed elsewhere than at an edit's place; with another value of a name there; and without the place."""
PINNED = PREAMBLE.replace('_gpu.py")', '_gpu.py", transformers_version="1.0")')


@pytest.fixture
def shop(work: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    open_shop(tmp_path / "wheels", monkeypatch)
    keep(open_project(work), tmp_path / "wheels")
    return tmp_path / "wheels"


def matrix(
    work: Workspace, words: Sequence[str], *, offline: bool = False, bisect: bool = True, cluster: str = ""
) -> MatrixReport:
    return of(work, WantedReleases(tuple(words)), offline=offline, bisect=bisect, cluster=cluster)


def of(
    work: Workspace, wanted: WantedReleases, *, offline: bool = False, bisect: bool = True, cluster: str = ""
) -> MatrixReport:
    project = work.project
    selection = select_configs(project, package="acme")
    releases = Releases(release_folder(project), "acme", offline=offline)
    columns = find_columns(releases, wanted, lambda _: None)
    return make_matrix(selection, columns, releases, bisect=bisect, cluster=cluster)


def states(row: MatrixRow | PatchRow) -> list[str]:
    return [cell.state for cell in row.cells]


def only(report: MatrixReport) -> MatrixRow:
    (row,) = report.rows
    return row


def error(releases: Releases, *words: str) -> str:
    with pytest.raises(PatchgenError) as caught:
        find_columns(releases, WantedReleases(words), lambda _: None)
    return str(caught.value)


def contract_errors(work: Workspace) -> Sequence[Problem]:
    """What contract rules find in the config, generated from what is installed."""
    outcome, sources = work.outcome(), SourceCache()
    assert outcome.artifact is not None
    return Contracts(work.project, sources).examine(outcome.artifact, outcome.path).errors


@pytest.mark.slow
def test_a_cluster_says_the_same_as_this_machine(work: Workspace, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = matrix(work, ["0.9", "1.0", "1.6"])
    assert here.tried
    with start_cluster(2) as cluster:
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        assert matrix(work, ["0.9", "1.0", "1.6"], cluster="ray") == here


def test_states_of_patches_and_config(work: Workspace, shop: Path) -> None:
    report = matrix(work, ["0.9", "1.0", "1.1", "1.2.1", "1.3", "1.5", "1.6"], bisect=False)
    row = only(report)
    norm, head = row.patches
    assert (norm.target, head.target, row.base) == ("Norm.forward", "Head.forward", "1.0")
    assert states(norm) == ["absent", "ok", "ok", "cosmetic", "changed", "breaks", "breaks"]
    assert states(row) == states(norm)
    assert states(head) == ["absent", "ok", "ok", "ok", "ok", "ok", "breaks"]
    assert report.exit_code == 1


def test_an_edit_is_ok_where_upstream_changed_elsewhere(work: Workspace, tmp_path: Path) -> None:
    texts = [f"class Norm:\n    def forward(self, x, y):\n{body}" for body in EDITED]
    folders = [tmp_path / version for version in ("1.0", "1.1", "1.2", "1.3")]
    for folder, text in zip(folders, texts):
        wheel = write_wheel(tmp_path, folder.name, (text,))
        shutil.unpack_archive(wheel, folder, "zip")
    work.upstream(texts[0])
    work.config(EDIT)
    assert fix(check(Selection(work.project))).exit_code == 0
    (patch,) = only(of(work, WantedReleases((), sources=tuple(folders)), offline=True)).patches
    assert states(patch) == ["ok", "ok", "changed", "breaks"]
    assert "used y changed" in patch.cells[2].reasons[0]


@pytest.mark.slow
def test_reasons_name_what_upstream_changed_and_what_fails(work: Workspace, shop: Path) -> None:
    norm, head = only(matrix(work, ["1.3", "1.6"], bisect=False)).patches
    assert norm.cells[0].reasons[0].startswith("changed")
    (problem,) = norm.cells[1].problems
    assert "has no class 'Norm'" in problem.message
    assert problem.location == norm.location
    (problem,) = head.cells[1].problems
    assert problem.code == "PG201"  # told although the config does not generate there
    assert "bias" in problem.message


@pytest.mark.slow
def test_each_patch_is_told_where_several_are_wrong_in_other_ways(work: Workspace, shop: Path) -> None:
    """Generating stops at the missing class, and would find the missing name only without that patch."""
    work.config(PATCHES.replace("return x + 2", "return x + offset"))
    work.upstream("\n\n".join((NORM, HEAD, REST, "offset = 2\n")))
    head = only(matrix(work, ["1.0", "1.5"], bisect=False)).patches[1]
    assert states(head) == ["ok", "breaks"]
    assert "nothing defines 'offset'" in head.reasons[0]


def test_first_broken_is_bisected_for_each_patch(work: Workspace, shop: Path) -> None:
    report = matrix(work, ["1.0", "2.0"])
    row = only(report)
    norm, head = row.patches
    assert (norm.last_working, norm.first_broken, norm.is_exact) == ("1.4", "1.5", True)
    assert (head.last_working, head.first_broken, head.is_exact) == ("1.5", "1.6", True)
    assert "has no class 'Norm'" in norm.reasons[0]
    assert head.reasons[0].startswith("PG201 'Head.forward'")
    assert (row.last_working, row.first_broken) == ("1.4", "1.5")
    assert row.reasons == ()
    assert set(report.tried) < set(HISTORY)
    assert len(report.tried) <= 5


@pytest.mark.slow
def test_base_between_the_columns_is_where_the_search_starts(work: Workspace, shop: Path) -> None:
    report = matrix(work, ["0.9", "2.0"])
    row = only(report)
    assert states(row) == ["absent", "breaks"]
    assert (row.last_broken, row.first_working) == ("0.9", "1.0")
    assert (row.last_working, row.first_broken) == ("1.4", "1.5")
    assert report.versions == ("0.9", "2.0")
    assert "1.0" in report.tried


@pytest.mark.slow
def test_config_for_a_new_release_breaks_in_old_ones(work: Workspace, shop: Path) -> None:
    body = "class Body:\n    def __init__(self):\n        self.head = Head()\n\n    def forward(self, x):\n"
    history = {
        version: (*parts, f"{body}        return self.head({'x, 1' if BIASED in parts else 'x'})\n")
        for version, parts in HISTORY.items()
        if parts is not None
    }
    for version, parts in history.items():
        write_wheel(release_folder(work.project) / "acme" / version, version, parts)
    shutil.rmtree(work.site)
    work.site.mkdir()
    work.upstream("\n\n".join(history["2.0"]), version="2.0")
    work.config('@config.override_method("Head.forward")\ndef forward(self, x, bias):\n    return x * bias\n')
    work.patchgen("--all")
    row = only(matrix(work, ["1.0", "1.8", "2.0"]))
    (head,) = row.patches
    assert states(head) == ["breaks", "ok", "ok"]
    assert (head.last_broken, head.first_working, head.first_broken) == ("1.5", "1.6", "")
    assert "bias" in head.reasons[0]


@pytest.mark.slow
def test_no_release_between_is_looked_at_without_bisecting(work: Workspace, shop: Path) -> None:
    report = matrix(work, ["1.0", "2.0"], bisect=False)
    norm, _ = only(report).patches
    assert (norm.last_working, norm.first_broken, norm.is_exact) == ("1.0", "2.0", False)
    assert report.tried == ()
    norm, _ = only(matrix(work, ["1.4", "1.5"], bisect=False)).patches
    assert norm.is_exact  # pip knows of none between them


def test_offline_search_uses_what_is_at_hand(work: Workspace, shop: Path) -> None:
    kept = release_folder(work.project) / "acme"
    for version in HISTORY.keys() - {"1.0", "1.3", "1.7", "2.0"}:
        shutil.rmtree(kept / version)
    norm, head = only(matrix(work, ["1.0", "2.0"], offline=True)).patches
    assert (norm.last_working, norm.first_broken, norm.is_exact) == ("1.3", "1.7", False)
    assert (head.last_working, head.first_broken) == ("1.3", "1.7")


@pytest.mark.slow
def test_release_that_cannot_be_had_is_passed_over(work: Workspace, shop: Path) -> None:
    shutil.rmtree(release_folder(work.project) / "acme/1.4")
    (shop / "acme-1.4-py3-none-any.whl").write_bytes(b"no wheel")
    norm, _ = only(matrix(work, ["1.0", "2.0"])).patches
    assert (norm.last_working, norm.first_broken, norm.is_exact) == ("1.3", "1.5", False)


@pytest.mark.slow
def test_columns_are_sorted_and_each_there_once(work: Workspace, shop: Path) -> None:
    report = matrix(work, ["2.0", "1.0", "latest", "1.0.0", "1.2.0"], bisect=False)
    assert report.versions == ("1.0", "1.2.0", "2.0")


@pytest.mark.slow
def test_range_has_the_newest_of_each_minor_release(work: Workspace, shop: Path) -> None:
    releases = Releases(release_folder(work.project), "acme")
    assert expand(releases, "1.1..1.4") == ("1.1", "1.2.1", "1.3", "1.4")
    assert expand(releases, "..1.0") == ("0.9", "1.0")
    assert expand(releases, "1.7..latest") == expand(releases, "1.7..") == ("1.7", "1.8", "2.0")
    offline = Releases(release_folder(work.project), "acme", offline=True)
    assert expand(offline, "1.8..") == ("1.8", "2.0")  # and not the release candidate that the cache has
    assert "there is no release of acme in '1.4..1.1'" in error(releases, "1.4..1.1")


@pytest.mark.slow
def test_every_version_that_does_not_exist_is_named(work: Workspace, shop: Path) -> None:
    said = error(Releases(release_folder(work.project), "acme"), "1.55", "newest", "1.0", "3.0")
    assert all(word in said for word in ("1.55", "1.8", "'newest' is not a version", "3.0", "2.0"))


@pytest.mark.slow
def test_prerelease_is_a_column_when_it_is_named(work: Workspace, shop: Path) -> None:
    row = only(matrix(work, ["1.3", "1.4rc1", "1.4"], bisect=False))
    assert states(row) == ["changed", "breaks", "changed"]
    assert (row.first_broken, row.first_working) == ("1.4rc1", "")


@pytest.mark.slow
def test_wheel_and_folder_of_a_known_version_have_columns_of_their_own(
    work: Workspace, shop: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "checkout"
    shutil.copytree(work.site, folder)
    (folder / "acme/models/toy/modeling_toy.py").write_text("\n\n".join((HEAD, REST)))
    wheel = write_wheel(tmp_path / "own", "2.1.dev0", (NORM, HEAD, REST))
    report = of(work, WantedReleases(("1.0",), (wheel,), (folder,)), bisect=False)
    assert report.versions == ("1.0", "1.0 (folder)", "2.1.dev0")
    assert states(only(report)) == ["ok", "breaks", "ok"]


def test_pin_is_no_reason_to_break(work: Workspace, shop: Path) -> None:
    work.config(PATCHES, preamble=PINNED)
    assert states(only(matrix(work, ["1.0", "1.3"], bisect=False))) == ["ok", "changed"]


def test_error_that_the_base_has_as_well_does_not_count(work: Workspace, shop: Path) -> None:
    work.config(
        PATCHES + '\n@config.override_method("Norm.extra", add=True)\ndef extra(self):\n    return missing(self)\n'
    )
    row = only(matrix(work, ["1.0", "1.1"], bisect=False))
    assert states(row) == ["breaks", "breaks"]  # nothing is generated at all
    work.config(
        PATCHES.replace("def head_forward(self, x):\n    return x", "def head_forward(self, y):\n    return y")
    )
    (problem,) = contract_errors(work)
    assert problem.code == "PG201"
    row = only(matrix(work, ["1.0", "1.1"], bisect=False))
    assert states(row) == ["ok", "ok"]


@pytest.mark.slow
def test_checked_in_files_are_the_base_when_the_release_is_not_to_be_had(work: Workspace, shop: Path) -> None:
    work.patchgen("--all", "--diff")
    shutil.rmtree(work.site)
    work.site.mkdir()
    shutil.rmtree(release_folder(work.project) / "acme/1.0")
    (shop / "acme-1.0-py3-none-any.whl").unlink()
    row = only(matrix(work, ["1.1", "1.2.1", "1.3"], bisect=False))
    assert row.base == "1.0"
    assert [cell.state in ("ok", "cosmetic") for cell in row.patches[0].cells] == [True, True, False]
    assert "compared with the checked-in files" in row.notes[0]


def test_without_generated_file_the_installed_release_is_the_base(work: Workspace, shop: Path) -> None:
    generated(work).unlink()
    row = only(matrix(work, ["1.0", "1.3"], bisect=False))
    assert (row.base, states(row)) == ("1.0", ["ok", "changed"])


def test_config_that_does_not_load_hides_no_other(work: Workspace, shop: Path) -> None:
    work.config("import nonsense_that_is_not_there.at.all\nraise SystemExit\n", "other/other_gpu_patch_gen_config.py")
    report = matrix(work, ["1.0", "1.1"], bisect=False)
    assert states(only(report)) == ["ok", "ok"]
    assert report.exit_code == 2
    assert len(report.failed) == 1


def test_config_of_another_package_is_skipped(work: Workspace, shop: Path) -> None:
    work.upstream("class Norm: ...\n", "other.models.toy")
    work.config(
        "", "other/other_gpu_patch_gen_config.py", PREAMBLE.replace("acme.models.toy.modeling_toy", "other.models.toy")
    )
    report = matrix(work, ["1.0"], bisect=False)
    assert [row.path for row in report.rows] == [str(work.models / CONFIG)]
    assert "its upstream is other" in report.skipped[0]


@pytest.mark.slow
def test_processes_find_what_one_finds(work: Workspace, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work.config(PATCHES, preamble=PINNED)
    here = matrix(work, ["0.9..2.0"])
    assert "ok" in states(only(here))
    monkeypatch.setattr(compatibility, "WORTH_IT", 0)
    monkeypatch.setattr(compatibility, "count_cpus", lambda: 2)
    assert matrix(work, ["0.9..2.0"]) == here
