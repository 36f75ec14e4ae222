"""Bad targets, replacements and patches that meet, and what the user reads."""

from __future__ import annotations

import pytest

from tests.config.bad_configs import FILE, MODULE, UNDEFINED, UNREADABLE, assert_told
from tests.conftest import Workspace

# What is wrong, and all that the user reads (see assert_told).
TABLE = {
    # --- targets ---
    "unknown class": (
        '@config.replace_class("Nrom")\nclass A: ...',
        f"@3 upstream {MODULE} has no class 'Nrom'\n  Did you mean 'Norm'?",
    ),
    "unknown class, none near": (
        '@config.replace_class("Zebra")\nclass A: ...',
        f"@3 upstream {MODULE} has no class 'Zebra'",
    ),
    "unknown class, other case": (
        '@config.replace_class("norm")\nclass A: ...',
        f"@3 upstream {MODULE} has no class 'norm'\n  Did you mean 'Norm'?",
    ),
    "unknown function": (
        '@config.replace_function("rotat")\ndef f(x): ...',
        f"@3 upstream {MODULE} has no function 'rotat'\n  Did you mean 'rotate'?",
    ),
    "unknown class of a method": (
        '@config.override_method("Nrom.forward")\ndef f(self): ...',
        f"@3 upstream {MODULE} has no class 'Nrom'\n  Did you mean 'Norm'?",
    ),
    "unknown class of an __init__": (
        '@config.modify_init("Nrom")\ndef f(original_init, self):\n    original_init(self)',
        f"@3 upstream {MODULE} has no class 'Nrom'\n  Did you mean 'Norm'?",
    ),
    "unknown target of an external": (
        'config.patches.append(create_patch_from_external("rotat", "fast", "turn"))',
        f"@3 upstream {MODULE} has no class or function 'rotat'\n  Did you mean 'rotate'?",
    ),
    "method slip": (
        '@config.override_method("Norm.foward")\ndef f(self): ...',
        "@3 upstream class 'Norm' has no method 'foward'\n"
        "  Did you mean 'forward'? To add 'foward' anyway, pass add=True.",
    ),
    "setter of a property that has none": (
        '@config.override_method("Norm.width.setter")\ndef f(self, value): ...',
        "@3 upstream 'Norm.width' has no setter\n  Override the property itself, or add an ordinary method.",
    ),
    "no accessor": (
        '@config.override_method("Norm.forward.inner")\ndef f(self): ...',
        "@3 'Norm.forward.inner' is not a target\n"
        "  Write 'Class.method', or 'Class.name.setter' for a property's setter.",
    ),
    "method that is no name": (
        '@config.override_method("Norm.for ward")\ndef f(self): ...',
        "@3 'Norm.for ward' is not a target\n  Write 'Class.method', or 'Class.name.setter' for a property's setter.",
    ),
    "method without a class": (
        '@config.override_method("forward")\ndef f(self): ...',
        "@3 override_method: 'forward' names no method\n"
        "  Write 'Class.forward', or use replace_class or replace_function.",
    ),
    "class where a method belongs": (
        '@config.override_method("Norm")\ndef f(self): ...',
        "@3 override_method: 'Norm' names no method\n"
        "  Write 'Norm.forward' for one method, or use replace_class or replace_function.",
    ),
    "class replaced as a function": (
        '@config.replace_function("Norm")\ndef f(x): ...',
        f"@3 'Norm' is a class in upstream {MODULE}\n  Use replace_class.",
    ),
    "function replaced as a class": (
        '@config.replace_class("rotate")\nclass A: ...',
        f"@3 'rotate' is a function in upstream {MODULE}\n  Use replace_function.",
    ),
    "method of a function": (
        '@config.override_method("rotate.forward")\ndef f(self): ...',
        f"@3 'rotate' is a function in upstream {MODULE}\n  Use replace_function.",
    ),
    "method replaced as a class": (
        '@config.replace_class("Norm.forward")\nclass A: ...',
        "@3 'Norm.forward' names a method\n  Use override_method.",
    ),
    "method replaced as a function": (
        '@config.replace_function("Norm.forward")\ndef f(self): ...',
        "@3 'Norm.forward' names a method\n  Use override_method.",
    ),
    "__init__ named as a method": (
        '@config.modify_init("Norm.__init__")\ndef f(original_init, self):\n    original_init(self)',
        "@3 'Norm.__init__' names a method\n  Write 'Norm'.",
    ),
    "name that upstream imports": (
        '@config.replace_function("ACT")\ndef f(x): ...',
        f"@3 upstream {MODULE} does not define 'ACT', it imports it: from ...activations import ACT\n"
        "  Patch the module that defines it, or drop the import and add a helper of that name.",
    ),
    "name that upstream imports in a try": (
        '@config.replace_function("kernel")\ndef f(x): ...',
        f"@3 upstream {MODULE} does not define 'kernel', it imports it: from fast import kernel\n"
        "  Patch the module that defines it, or drop the import and add a helper of that name.",
    ),
    "name that upstream assigns": (
        '@config.replace_class("LIMIT")\nclass A: ...',
        f"@3 'LIMIT' is assigned in upstream {MODULE}, line 11: neither class nor function\n"
        "  Exclude it and bind the name in a post-import block.",
    ),
    "empty target": (
        '@config.replace_class("")\nclass A: ...',
        "@3 target must be a non-empty string, not ''",
    ),
    "decorator without a target": (
        "@config.replace_function\ndef f(x): ...",
        '@3 replace_function: no target is named\n  Write @config.replace_function("Name") with upstream\'s name.',
    ),
    "decorator that decorates nothing": (
        'config.replace_class("Norm")',
        "@3 replace_class 'Norm' has no replacement\n  Use it as a decorator, or pass replacement=.",
    ),
    "replacement that is None": (
        'config.replace_class("Norm", None)',
        "@3 replace_class 'Norm' has no replacement\n  Use it as a decorator, or pass replacement=.",
    ),
    # --- replacements ---
    "function for a class": (
        '@config.replace_class("Norm")\ndef f(x): ...',
        "@3 'Norm' is a class, but its replacement 'f' is a function",
    ),
    "class for a function": (
        '@config.replace_function("rotate")\nclass A: ...',
        "@3 'rotate' is a function, but its replacement 'A' is a class",
    ),
    "class for a method": (
        '@config.override_method("Norm.forward")\nclass A: ...',
        "@3 'Norm.forward' is a method, but its replacement 'A' is a class",
    ),
    "class for an __init__": (
        '@config.modify_init("Norm")\nclass A: ...',
        "@3 'Norm.__init__' is a method, but its replacement 'A' is a class",
    ),
    "lambda": (
        'config.replace_function("rotate", lambda x, y: x)',
        "@3 cannot read the source of a lambda\n  Write it as a function with def.",
    ),
    "lambda as a helper": (
        "config.add_helper(lambda x: x)",
        "@3 cannot read the source of a lambda\n  Write it as a function with def.",
    ),
    "builtin function": (
        'config.replace_function("rotate", max)',
        f"@3 cannot read the source of 'max'\n{UNREADABLE}",
    ),
    "builtin class": (
        'config.replace_class("Norm", dict)',
        f"@3 cannot read the source of 'dict'\n{UNREADABLE}",
    ),
    "made by exec": (
        'exec("def f(x): ...")\nconfig.replace_function("rotate", f)',
        f"@4 cannot read the source of 'f'\n{UNREADABLE}",
    ),
    "made by type": (
        'config.replace_class("Norm", type("A", (), {}))',
        f"@3 cannot read the source of 'A'\n{UNREADABLE}",
    ),
    "text": (
        'config.replace_class("Norm", "FastNorm")',
        "@3 cannot read the source of 'FastNorm': it is neither a class nor a function\n"
        "  Pass the class or function itself, or use create_patch_from_external to import it.",
    ),
    "third-party object that is not installed": (
        'import nowhere\nconfig.replace_class("Norm", nowhere.FastNorm)',
        "@3 the config cannot be loaded: ModuleNotFoundError: No module named 'nowhere'\n"
        "  It was imported for real because it copies the source of nowhere.FastNorm.",
    ),
    "closure": (
        'def make(k):\n    def f(x, y):\n        return k\n    return f\nconfig.replace_function("rotate", make(2))',
        "@7 'make.<locals>.f' uses 'k' of the function that encloses it\n"
        "  Its source alone would lack them: define it at the top level of the config.",
    ),
    "relative import that leads out": (
        '@config.replace_function("rotate")\ndef f(x, y):\n    from ......far import near\n    return near',
        "@5 relative import 'from ......far import near' leads out of package 'proj.models.toy.generated'",
    ),
    "undefined name in a function": (
        '@config.replace_function("rotate")\ndef f(x, y):\n    return missing(x)',
        f"""@5 PG204 function_replacement rotate: nothing defines 'missing' in toy.py, line 48
{UNDEFINED}
       46 | # ======================================================================
       47 | def rotate(x, y):
  >    48 |     return missing(x)
       49 |""",
    ),
    "undefined name under noqa in a method": (
        '@config.override_method("Norm.forward")\ndef f(self, x):\n    return missing(x)  # noqa: F821',
        f"""@5 PG204 method_override Norm.forward: nothing defines 'missing' in toy.py, line 36
{UNDEFINED}
       34 |
       35 |     def forward(self, x):
  >    36 |         return missing(x)  # noqa: F821
       37 |""",
    ),
    "undefined name in a helper": (
        "@config.add_helper\ndef f(x):\n    return missing(x)",
        f"""@5 PG204 helper f: nothing defines 'missing' in toy.py, line 31
{UNDEFINED}
       29 | # ======================================================================
       30 | def f(x):
  >    31 |     return missing(x)
       32 |""",
    ),
    "undefined name in a post-import block": (
        'config.add_post_import_block("SCALE = missing")',
        f"""@3 PG204 post-import block: nothing defines 'missing' in toy.py, line 23
{UNDEFINED}
       21 |     kernel = None
       22 |
  >    23 | SCALE = missing
       24 |""",
    ),
    "name of the config alone": (
        'SCALE = 2\n@config.replace_function("rotate")\ndef f(x, y):\n    return SCALE',
        f"""@6 PG204 function_replacement rotate: nothing defines 'SCALE' in toy.py, line 48
{UNDEFINED}
       46 | # ======================================================================
       47 | def rotate(x, y):
  >    48 |     return SCALE
       49 |""",
    ),
    "undefined name, used twice": (
        '@config.replace_function("rotate")\ndef f(x, y):\n    return missing(x, missing)',
        f"""@5 PG204 function_replacement rotate: nothing defines 'missing' in toy.py, line 48
{UNDEFINED}
       46 | # ======================================================================
       47 | def rotate(x, y):
  >    48 |     return missing(x, missing)
       49 |""",
    ),
    "parameter in an annotation, where it is not bound": (
        '@config.replace_function("rotate")\ndef f(x, y: x.Tensor):\n    return x',
        f"""@3 PG204 function_replacement rotate: nothing defines 'x' in toy.py, line 47
{UNDEFINED}
       45 | # [PATCHED FUNCTION] rotate
       46 | # ======================================================================
  >    47 | def rotate(x, y: x.Tensor):
       48 |     return x""",
    ),
    # --- modify_init ---
    "__init__ without the original's call": (
        '@config.modify_init("Norm")\ndef f(original_init, self, size):\n    self.size = size',
        "@4 modify_init: 'f' never calls 'original_init', so upstream's __init__ would not run\n"
        "  Call it, or override the method with override_method.",
    ),
    "__init__ with too few parameters": (
        '@config.modify_init("Norm")\ndef f(original_init):\n    original_init()',
        "@4 modify_init: 'f' must take original_init and self first\n"
        "  Write def f(original_init, self, ...): original_init(self, ...).",
    ),
    "__init__ that assigns the original": (
        '@config.modify_init("Norm")\ndef f(original_init, self):\n    original_init = f\n    original_init(self)',
        "@4 modify_init: 'f' assigns its parameter 'original_init'\n  Use another name for the new value.",
    ),
    "__init__ that a decorator makes": (
        '@config.modify_init("Output")\ndef f(original_init, self):\n    original_init(self)',
        "@3 modify_init: the __init__ of 'Output' is made by its decorator @dataclass\n"
        "  Use override_method on __post_init__.",
    ),
    # --- patches that meet ---
    "class twice": (
        '@config.replace_class("Norm")\nclass A: ...\n@config.replace_class("Norm")\nclass B: ...',
        f"@5 'Norm' is patched twice, first at {FILE}:3\n  One target takes one patch: put both changes into it.",
    ),
    "method twice": (
        '@config.override_method("Norm.forward")\ndef f(self): ...\n'
        '@config.override_method("Norm.forward")\ndef g(self): ...',
        f"@5 'Norm.forward' is patched twice, first at {FILE}:3\n"
        "  One target takes one patch: put both changes into it.",
    ),
    "__init__ twice": (
        '@config.modify_init("Norm")\ndef f(original_init, self):\n    original_init(self)\n'
        '@config.override_method("Norm.__init__")\ndef g(self): ...',
        f"@6 'Norm.__init__' is patched twice, first at {FILE}:3\n"
        "  One target takes one patch: put both changes into it.",
    ),
    "method of a replaced class": (
        '@config.replace_class("Norm")\nclass A: ...\n@config.override_method("Norm.forward")\ndef f(self): ...',
        f"@5 'Norm.forward' is patched, but 'Norm' is replaced at {FILE}:3\n  Put the method into the replacement.",
    ),
    "class of a patched method": (
        '@config.override_method("Norm.forward")\ndef f(self): ...\n@config.replace_class("Norm")\nclass A: ...',
        f"@5 'Norm' is replaced, but 'Norm.forward' is patched at {FILE}:3\n  Put the method into the replacement.",
    ),
    "patch on an excluded class": (
        'config.exclude_from_output("Norm")\n@config.override_method("Norm.forward")\ndef f(self): ...',
        "@4 'Norm.forward' is patched, but 'Norm' is excluded from the output\n  Remove the patch or the exclusion.",
    ),
}


@pytest.mark.parametrize(("config", "message"), TABLE.values(), ids=TABLE)
def test_bad_declarations(work: Workspace, config: str, message: str) -> None:
    assert_told(work, config, message)
