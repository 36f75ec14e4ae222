"""What ``patchgen rule`` and ``docs/rules.md`` say about the rules.

python -m patchgen_core.checks.contract.pages > docs/rules.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from patchgen_core.checks.contract.rule import Example, Rule
from patchgen_core.checks.contract.run import EVERY_RULE

_INTRODUCTION = """# Contract rules

The drift check proves that a file is what its config makes. The contract rules look for what would break when it
runs. They compare the generated module's syntax tree with upstream's and with the config, and import nothing, so they
also check a module for hardware that this machine lacks. The item `contract` of `pytest --patchgen` runs them, and
`patchgen check` runs them after the drift check. An error makes a run red; a warning does not.

Every finding names the line of the config, the line of the generated module and what to do. `patchgen rule PG202`
explains one rule.

Choose rules in `[tool.patchgen]`, or with `--select` and `--ignore` of `patchgen check`, by their codes or the
beginnings of codes:

```toml rules=settings
[tool.patchgen]
search_root = "acme/models"
package_prefix = "acme.models"
select = ["ALL"]
ignore = ["PG213"]
kernels = ["acme.kernels"]

[tool.patchgen.per_config_ignore]
"acme.models.*_npu_patch_gen_config" = ["PG217"]
```

The patterns of `per_config_ignore` match a config's dotted name, or its path from the project's root. `kernels` names
the modules, or packages of modules, that register kernels for op slots (PG206).

If a config breaks a rule on purpose, allow it there, with the reason. The third argument limits the allowance to one
class with its methods, one method or one function. `patchgen check -v` shows what is allowed. An allowance that
matches no finding is an error (PG200).

```python rules=allow
config.allow("PG201", "the serving engine is the only caller", "Qwen3Attention.forward")
```

PG203 and PG204 stop a generation, so that `patchgen` never writes a module that cannot run. Only `config.allow` lets
such names through. A finding that says "upstream's own" is about upstream's code, which the config does not touch, and
is always a warning.

The codes that begin with PG3 belong to the item `parity`. Source text cannot show them, so the models run, and
`patchgen check` does not find them. All of the above applies to them as well. Allow them by the name of the patch's
target, of the slot (PG301) or of the base model (PG303). Idle allowances are reported when all of a config's parity
items have run (PG300).

"""


def rules_page() -> str:
    """All of ``docs/rules.md``."""
    rows = [f"| [{r.code}](#{_anchor(r)}) | {r.name} | {r.severity} |" for r in EVERY_RULE]
    table = ["| code | name | severity |", "| --- | --- | --- |", *rows, ""]
    return _INTRODUCTION + "\n".join([*table, *(rule_page(rule, marked=True) for rule in EVERY_RULE)])


def rule_page(rule: Rule, marked: bool = False) -> str:
    """What there is to say about one rule, as Markdown; ``marked`` says at each block which example it is of."""
    lines = [f"## {_title(rule)}", "", *_wrapped(rule.reason), ""]
    lines += [*_example(rule, "failing", rule.failing, None), *_example(rule, "passing", rule.passing, rule.failing)]
    text = "\n".join(lines)
    return text if marked else re.sub(r"^(```\w+) rule=.*$", r"\1", text, flags=re.MULTILINE)


def rule_data(rule: Rule) -> dict[str, Any]:
    """A rule as JSON types."""
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "reason": rule.reason,
        "failing": _example_data(rule.failing),
        "passing": _example_data(rule.passing),
    }


def _example_data(example: Example) -> dict[str, Any]:
    return {
        "config": example.text.strip("\n"),
        "upstream": example.module or example.upstream.strip("\n"),
        "upstream_before": example.old.strip("\n") or None,
        "files": {path: text.strip("\n") for path, text in example.files.items()},
        "settings": example.settings.strip("\n") or None,
    }


def _title(rule: Rule) -> str:
    return f"{rule.code}: {rule.name} ({rule.severity})"


def _anchor(rule: Rule) -> str:
    """What Markdown viewers call the heading of a rule."""
    return "".join(c for c in _title(rule).lower().replace(" ", "-") if c.isalnum() or c == "-")


def _example(rule: Rule, which: str, example: Example, before: Example | None) -> Iterator[str]:
    """An example, without what the one before it has shown already."""
    mark = f"rule={rule.code}.{which}"
    if example.old and (before is None or example.old != before.old):
        yield from _fence("Upstream, when the file was generated:", example.old, f"{mark}.old")
    if example.upstream and (before is None or example.upstream != before.upstream):
        yield from _fence("Upstream:" if not example.old else "Upstream now:", example.upstream, f"{mark}.upstream")
    for path, text in example.files.items():
        if before is None or before.files.get(path) != text:
            where = "Beside upstream's module" if path.startswith("upstream/") else "In the project"
            yield from _fence(f"{where}, `{path.removeprefix('upstream/')}`:", text, f"{mark}.files.{path}")
    if example.settings and (before is None or example.settings != before.settings):
        yield from _fence("In `[tool.patchgen]`:", example.settings, f"{mark}.settings", "toml")
    config = f"This config of `{example.module}`" if example.module else "This config"
    yield from _fence(f"{config} fails:" if which == "failing" else "This one passes:", example.text, f"{mark}.text")


def _fence(title: str, text: str, mark: str, language: str = "python") -> list[str]:
    body = text.strip("\n").replace("\n\n\n", "\n\n")
    return [title, "", f"```{language} {mark}", body, "```", ""]


def _wrapped(text: str, width: int = 116) -> Iterator[str]:
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = ""
        line = f"{line} {word}".lstrip()
    yield line


if __name__ == "__main__":
    print(rules_page(), end="")
