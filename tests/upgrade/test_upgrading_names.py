"""What a release does to the names of upstream's that a config says beside its patches."""

from __future__ import annotations

from tests.conftest import Workspace
from tests.upgrade.edit_releases import OLD, EditUpgrade, changed, upgrade_edits

DECORATED = changed(
    ("import math\n", "import math\nfrom .hub import fast, slow, kernel\n"),
    ("def rotate", '@kernel("rotate")\ndef rotate'),
    ("    def project", "    @fast\n    @slow\n    def project"),
)
TURN = """
@config.edit_function("rotate")
def turn(angle):
    angle = angle * 2
    ...
"""
MORE = """
@config.add_helper_after("rotate")
def turned(x):
    return x


config.add_block_after("rotate", "TURNS = 1")
"""


def names(upgraded: EditUpgrade) -> list[str]:
    """What is said of the names of the config."""
    return [str(finding) for finding in upgraded.config.findings]


def test_a_decorator_that_upstream_calls_otherwise_is_named_anew(work: Workspace) -> None:
    config = f'# Ours is fused.\nconfig.drop_decorators("rotate", "kernel")  # of the hub\n{TURN}'
    new = DECORATED.replace("kernel", "kernel_forward")
    upgraded = upgrade_edits(work, config, new, DECORATED)
    assert names(upgraded) == ["dropped @kernel of rotate moved: upstream renamed it to 'kernel_forward'"]
    applied = upgraded.apply()
    assert ([rebase.noun for rebase in applied.merged], applied.left, applied.problems) == (["name"], (), ())
    assert '# Ours is fused.\nconfig.drop_decorators("rotate", "kernel_forward")  # of the hub\n' in upgraded.text
    assert "\n@kernel" not in upgraded.code


def test_a_decorator_that_edits_of_several_targets_drop_is_named_anew_once(work: Workspace) -> None:
    config = """
    from patchgen import Edits

    plain = Edits()
    plain.drop_decorators("kernel")
    plain.replace_code("math.cos(angle)", "math.cos(-angle)")
    config.edit_function("rotate", edit=plain)
    config.edit_function("turn", edit=plain)
    """
    turn = '\n\n@kernel("turn")\ndef turn(x, angle):\n    return x * math.cos(angle)\n'
    new = f"{DECORATED}{turn}".replace("kernel", "kernel_forward")
    upgraded = upgrade_edits(work, config, new, f"{DECORATED}{turn}")
    applied = upgraded.apply()
    assert (len(applied.merged), applied.left, applied.problems) == (1, (), ())
    assert 'plain.drop_decorators("kernel_forward")' in upgraded.text


def test_shared_edits_stay_where_one_target_alone_has_another_decorator(work: Workspace) -> None:
    config = """
    from patchgen import Edits

    plain = Edits()
    plain.drop_decorators("kernel")
    plain.replace_code("math.cos(angle)", "math.cos(-angle)")
    config.edit_function("rotate", edit=plain)
    config.edit_function("turn", edit=plain)
    """
    old = f'{DECORATED}\n\n@kernel("turn")\ndef turn(x, angle):\n    return x * math.cos(angle)\n'
    upgraded = upgrade_edits(work, config, old.replace('@kernel("rotate")', '@kernel_forward("rotate")'), old)
    before = upgraded.text
    [(_, reason)] = upgraded.apply().left
    assert "'turn' has no decorator 'kernel_forward'" in reason
    assert upgraded.text == before


def test_names_that_upstream_has_no_more_are_taken_out(work: Workspace) -> None:
    config = """config.drop_decorators("Attention.project", "fast", "slow")
# Unused here.
config.drop_import_names("slow")
config.exclude_from_output(
    "EPSILON",
    "rotate",
)
"""
    old = f"{DECORATED}\n\nEPSILON = 1\n"
    new = old.replace("    @slow\n", "").replace("fast, slow, kernel", "fast, kernel").replace("\n\nEPSILON = 1\n", "")
    calls = ("query = rotate(query, 1)", "query = query * 1")
    upgraded = upgrade_edits(work, config, changed(calls, text=new), changed(calls, text=old))
    applied = upgraded.apply()
    assert (len(applied.merged), applied.left, applied.problems) == (3, (), ())
    assert 'config.drop_decorators("Attention.project", "fast")\nconfig.exclude_from_output(' in upgraded.text
    assert "EPSILON" not in upgraded.text
    assert '"rotate"' in upgraded.text


def test_an_import_to_drop_that_upstream_defined_itself_and_has_no_more_is_taken_out(work: Workspace) -> None:
    old = f"{DECORATED}\n\nclass Output:\n    pass\n"
    config = 'config.drop_decorators("Attention.project", "slow")\nconfig.drop_import_names("Output", "slow")\n'
    upgraded = upgrade_edits(work, config, DECORATED, old)
    (finding,) = upgraded.config.findings
    assert finding.detail == "upstream no longer defines it: drop_import_names need not name it"
    assert not upgraded.apply().problems
    assert 'config.drop_import_names("slow")\n' in upgraded.text


def test_places_of_helpers_and_blocks_follow_a_definition_that_has_another_name(work: Workspace) -> None:
    config = f'config.drop_decorators("rotate", "kernel")\n{MORE}'
    new = DECORATED.replace("rotate(", "turn_by(")
    upgraded = upgrade_edits(work, config, new, DECORATED)
    assert [finding.kind for finding in upgraded.config.findings] == ["moved", "moved", "moved"]
    upgraded.apply()
    for call in ('add_helper_after("turn_by")', 'add_block_after("turn_by"', 'drop_decorators("turn_by", "kernel")'):
        assert f"config.{call}" in upgraded.text


def test_a_decorator_is_not_taken_for_another_that_is_new(work: Workspace) -> None:
    config = 'config.drop_decorators("Attention.project", "slow")\n'
    upgraded = upgrade_edits(work, config, DECORATED.replace("@slow", "@fused_by_the_hub"), DECORATED)
    assert [finding.kind for finding in upgraded.config.findings] == ["gone"]
    assert not upgraded.apply().problems
    assert "drop_decorators" not in upgraded.text


IMPORTED = changed(
    ("import math\n", "import math\nimport json as js\nfrom typing import Optional\nfrom .parts import scale\n"),
)
LOST = changed(("import math\n", ""), ("math.cos(angle)", "angle"))
OWN = """
@config.edit_function("rotate")
def turn(x, angle):
    angle: Optional[float] = js.loads(math.floor(angle))
    ...


@config.add_helper
def turned(x):
    return math.ceil(x)
"""


def test_what_upstream_no_longer_imports_is_imported_by_the_config(work: Workspace) -> None:
    upgraded = upgrade_edits(work, OWN, LOST, IMPORTED)
    detail = "upstream no longer imports '{}', which the config's code uses".format
    assert sorted(names(upgraded)) == [
        f"import json gone: {detail('js')}",
        f"import math gone: {detail('math')}",
        f"import typing.Optional gone: {detail('Optional')}",
    ]
    assert (upgraded.patch.problems, upgraded.config.problems) == ((), ())
    applied = upgraded.apply()
    assert (applied.left, applied.problems) == ((), ())
    calls = ('"json", alias="js"', '"math"', '"typing", names=["Optional"]')
    assert all(f"\nconfig.add_import({call})\n" in upgraded.text for call in calls)
    assert all(f"\n{line}\n" in upgraded.code for line in ("import math", "import json as js"))


def test_a_name_that_upstream_has_moved_or_that_may_be_missing_is_left_to_a_person(work: Workspace) -> None:
    guarded = "try:\n    import json\nexcept ImportError:\n    pass\n"
    old = changed(("import math\n", f"import math\nfrom .parts import scale\n\n{guarded}"))
    config = OWN.partition("@config.add_helper")[0].replace("js.loads(math.floor(angle))", "scale(json, angle)")
    upgraded = upgrade_edits(work, config.replace("angle: Optional[float]", "angle"), OLD, old)
    assert names(upgraded) == []
    assert upgraded.config.risk == "must change"


def test_a_config_that_a_call_alone_does_not_make_gets_no_import(work: Workspace) -> None:
    made = "\n(config,) = (PatchConfig(config.source_module, config.target_file),)\n"
    upgraded = upgrade_edits(work, made + OWN, LOST, IMPORTED)
    text = upgraded.text
    applied = upgraded.apply()
    assert all("does not assign the config" in reason for _, reason in applied.left)
    assert (len(applied.left) > 0, upgraded.text) == (True, text)
