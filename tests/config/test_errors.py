"""Bad input, and what the user reads: the file and line, the wrong name, the nearest right one, what to do."""

from __future__ import annotations

import re
import textwrap

import pytest

from tests.conftest import Workspace

UPSTREAM = """
from torch import nn

from ...activations import ACT

try:
    from fast import kernel
except ImportError:
    kernel = None

LIMIT = 3


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return ACT(x)

    @property
    def width(self):
        return self.size


@dataclass
class Output:
    loss: float = None


def rotate(x, y):
    return x + y


def use():
    return Norm(1), LIMIT
"""
MODULE = "acme.models.toy.modeling_toy"
HEAD = f'from patchgen import PatchConfig, create_patch_from_external\nconfig = PatchConfig("{MODULE}", "toy.py")\n'
FILE = "toy/toy_gpu_patch_gen_config.py"
IN_TOY = "in toy.py, line"
UNDEFINED = "  Import it with config.add_import, copy it with config.add_helper, or assign it in a post-import block."
UNREADABLE = "  Its definition is not in a Python file, or a decorator hides it."
STILL_USED = "  Patch or exclude what uses it, or bind the name yourself."
NAME_MAP = '  It maps class prefixes, such as {"Qwen3VL": "Qwen3VLMoe"}.'

# What is wrong: the config below HEAD (so it starts on line 3), and all that the user reads.
# "@N" at the start of a line stands for the config's file and line N.
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
        "  Did you mean 'forward'? To add 'foward' all the same, pass add=True.",
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
        f"""@3 PG204 function_replacement rotate: nothing defines 'missing' in toy.py, line 48
       46 | # ======================================================================
       47 | def rotate(x, y):
  >    48 |     return missing(x)
       49 |
{UNDEFINED}""",
    ),
    "undefined name under noqa in a method": (
        '@config.override_method("Norm.forward")\ndef f(self, x):\n    return missing(x)  # noqa: F821',
        f"""@3 PG204 method_override Norm.forward: nothing defines 'missing' in toy.py, line 36
       34 |
       35 |     def forward(self, x):
  >    36 |         return missing(x)  # noqa: F821
       37 |
{UNDEFINED}""",
    ),
    "undefined name in a helper": (
        "@config.add_helper\ndef f(x):\n    return missing(x)",
        f"""@3 PG204 helper f: nothing defines 'missing' in toy.py, line 31
       29 | # ======================================================================
       30 | def f(x):
  >    31 |     return missing(x)
       32 |
{UNDEFINED}""",
    ),
    "undefined name in a post-import block": (
        'config.add_post_import_block("SCALE = missing")',
        f"""@3 PG204 post-import block: nothing defines 'missing' in toy.py, line 23
       21 |     kernel = None
       22 |
  >    23 | SCALE = missing
       24 |
{UNDEFINED}""",
    ),
    "name of the config alone": (
        'SCALE = 2\n@config.replace_function("rotate")\ndef f(x, y):\n    return SCALE',
        f"""@4 PG204 function_replacement rotate: nothing defines 'SCALE' in toy.py, line 48
       46 | # ======================================================================
       47 | def rotate(x, y):
  >    48 |     return SCALE
       49 |
{UNDEFINED}""",
    ),
    "undefined name, used twice": (
        '@config.replace_function("rotate")\ndef f(x, y):\n    return missing(x, missing)',
        f"""@3 PG204 function_replacement rotate: nothing defines 'missing' in toy.py, line 48
       46 | # ======================================================================
       47 | def rotate(x, y):
  >    48 |     return missing(x, missing)
       49 |
{UNDEFINED}""",
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
    # --- exclude_from_output ---
    "unknown name to exclude": (
        'config.exclude_from_output("Norm1")',
        "@3 exclude_from_output: upstream defines no 'Norm1'\n  Did you mean 'Norm'?",
    ),
    "import to exclude": (
        'config.exclude_from_output("ACT")',
        "@3 exclude_from_output: upstream defines no 'ACT'\n  Upstream imports it: use drop_import_names.",
    ),
    "method to exclude": (
        'config.exclude_from_output("Norm.forward")',
        "@3 exclude_from_output: upstream defines no 'Norm.forward'\n"
        "  Only whole classes, functions and constants can be excluded.",
    ),
    "list of names to exclude": (
        'config.exclude_from_output(["Norm"])',
        "@3 exclude_from_output: a name must be a non-empty string, not ['Norm']",
    ),
    "excluded name that upstream uses": (
        'config.exclude_from_output("LIMIT")',
        f"""@3 PG203 exclude_from_output takes 'LIMIT' out, but upstream's 'use' still uses it in toy.py, line 51
       49 |
       50 | def use():
  >    51 |     return Norm(1), LIMIT
       52 |
{STILL_USED}""",
    ),
    "excluded name that a patch uses": (
        'config.exclude_from_output("LIMIT", "use")\n@config.replace_function("rotate")\ndef f(x):\n    return LIMIT',
        f"""@4 PG203 exclude_from_output takes 'LIMIT' out, but function_replacement rotate still uses it {IN_TOY} 51
       49 | # ======================================================================
       50 | def rotate(x):
  >    51 |     return LIMIT
       52 |
{STILL_USED}""",
    ),
    # --- drop_import_names ---
    "unknown name to drop": (
        'config.drop_import_names("ACTS")',
        "@3 drop_import_names: upstream does not know 'ACTS'\n  Did you mean 'ACT'?",
    ),
    "dropped import that upstream uses": (
        'config.drop_import_names("ACT")',
        f"""@3 PG203 drop_import_names takes 'ACT' out, but upstream's 'Norm.forward' still uses it in toy.py, line 34
       32 |
       33 |     def forward(self, x):
  >    34 |         return ACT(x)
       35 |
{STILL_USED}""",
    ),
    "dropped import that a patch uses": (
        'config.drop_import_names("kernel")\n@config.replace_function("rotate")\ndef f(x):\n    return kernel',
        f"""@4 PG203 drop_import_names takes 'kernel' out, but function_replacement rotate still uses it {IN_TOY} 47
       45 | # ======================================================================
       46 | def rotate(x):
  >    47 |     return kernel
       48 |
{STILL_USED}""",
    ),
    # --- helpers ---
    "helper after an unknown name": (
        '@config.add_helper_after("Nrom")\ndef f(x): ...',
        f"@3 add_helper_after: upstream {MODULE} has no 'Nrom'\n  Did you mean 'Norm'?",
    ),
    "helper after a method": (
        '@config.add_helper_after("Norm.forward")\ndef f(x): ...',
        "@3 add_helper_after: 'Norm.forward' names a method\n  Write 'Norm': helpers follow classes and functions.",
    ),
    "helper after an excluded name": (
        'config.exclude_from_output("use")\n@config.add_helper_after("use")\ndef f(x): ...',
        "@4 add_helper_after: this config excludes 'use'",
    ),
    "helper with the name of a definition": (
        "@config.add_helper\ndef rotate(x): ...",
        "@3 PG207 helper 'rotate' has the name of an upstream definition\n"
        "  Rename it, or replace upstream's with replace_class or replace_function.",
    ),
    "helper with the name of an import": (
        "@config.add_helper\ndef ACT(x): ...",
        "@3 PG207 helper 'ACT' has the name of an upstream import\n"
        "  Rename it, or add config.drop_import_names('ACT').",
    ),
    "helper with the name of a constant": (
        "@config.add_helper\ndef LIMIT(x): ...",
        "@3 PG207 helper 'LIMIT' has the name of an upstream constant\n"
        "  Rename it, or add config.exclude_from_output('LIMIT').",
    ),
    "two helpers of one name": (
        "@config.add_helper\ndef f(x): ...\n@config.add_helper\ndef f(y): ...",
        f"@5 two helpers are called 'f', the first at {FILE}:3\n  Rename one.",
    ),
    "helper with the name of an added import": (
        'config.add_import("fast", names=["f"])\n@config.add_helper\ndef f(x): ...',
        f"@4 helper 'f' has the name of the import added at {FILE}:3\n  Rename it, or import under an alias.",
    ),
    "junk among the helpers": (
        "config.helpers.append(3)",
        "@3 cannot read the source of 3: it is neither a class nor a function\n"
        "  Pass the class or function itself, or use create_patch_from_external to import it.",
    ),
    # --- add_import ---
    "import of an upstream definition's name": (
        'config.add_import("fast", names=["Norm"])',
        "@3 PG207 add_import: upstream's own definition of 'Norm' would hide the import\n"
        "  Use create_patch_from_external to replace it.",
    ),
    "import of an upstream constant's name": (
        'config.add_import("fast", names=["LIMIT"])',
        "@3 PG207 add_import: upstream's own assignment of 'LIMIT' would hide the import\n"
        "  Add config.exclude_from_output('LIMIT'), or import it under an alias.",
    ),
    "import of an upstream import's name": (
        'config.add_import("fast", names=["ACT"])',
        "@3 PG207 add_import: upstream imports 'ACT' from elsewhere: from ...activations import ACT\n"
        "  Add config.drop_import_names('ACT'), or import it under an alias.",
    ),
    "one name from two modules": (
        'config.add_import("fast", names=["turn"])\nconfig.add_import("slow", names=["turn"])',
        "@4 add_import: 'turn' is imported from 'fast' and from 'slow'\n  Import one of them under an alias.",
    ),
    "names that are a string": (
        'config.add_import("fast", names="turn")',
        "@3 add_import: names is the string 'turn'\n  Pass a list: names=['turn'].",
    ),
    "from-import without names": (
        'config.add_import("fast", is_from_import=True)',
        "@3 add_import: no names to import from 'fast'\n"
        "  Pass names=[...], or is_from_import=False to import the module itself.",
    ),
    "names of a plain import": (
        'config.add_import("fast", names=["turn"], is_from_import=False)',
        "@3 add_import: 'import fast' takes no names\n  Leave out names, or is_from_import=False.",
    ),
    "alias of two names": (
        'config.add_import("fast", names=["a", "b"], alias="c")',
        "@3 add_import: names and alias do not go together for 'fast'\n"
        "  An alias goes with one name, or with is_from_import=False and no names.",
    ),
    "relative import": (
        'config.add_import(".fast", names=["turn"])',
        "@3 add_import: '.fast' is relative\n  Name the module absolutely.",
    ),
    "module that is no name": (
        'config.add_import("fast norm", names=["turn"])',
        "@3 add_import: 'fast norm' is not a module name",
    ),
    "name that is none": (
        'config.add_import("fast", names=["turn left"])',
        "@3 add_import: 'turn left' is not a name to import",
    ),
    "junk among the imports": (
        'config.additional_imports.append("import fast")',
        "@2 config.additional_imports holds str 'import fast'\n  It holds what add_import makes.",
    ),
    # --- post-import blocks ---
    "block that is no Python": (
        'config.add_post_import_block("x = 1\\nif x\\n    y = 2")',
        "@3 add_post_import_block: not valid Python: expected ':'\n  if x",
    ),
    "block that is no Python, in the list": (
        'config.post_import_blocks.append("x =")',
        "@3 add_post_import_block: not valid Python: invalid syntax\n  x =",
    ),
    "block that returns": (
        'config.add_post_import_block("x = 1\\nreturn x")',
        "@3 add_post_import_block: not valid Python: 'return' outside function\n  return x",
    ),
    "block with a name that upstream defines below": (
        'config.add_post_import_block("def rotate(x): ...")',
        "@3 PG207 add_post_import_block: upstream's own 'rotate' in its line 32 would hide the block's\n"
        "  Replace upstream's with a patch, or add config.exclude_from_output('rotate').",
    ),
    "method where upstream has a class attribute": (
        '@config.override_method("Output.loss")\ndef loss(self): ...',
        "@3 'Output.loss' is a class attribute in upstream's line 29, not a method\n"
        "  Replace the class, or pass add=True if a method of that name is meant to hide it.",
    ),
    "__init__ without the original": (
        '@config.modify_init("Norm")\ndef f(self, size):\n    self.size = size',
        "@4 modify_init: 'f' must take original_init and self first\n"
        "  Write def f(original_init, self, ...): original_init(self, ...).",
    ),
    "empty block": ('config.add_post_import_block("")', "@3 code must be a non-empty string, not ''"),
    "junk among the blocks": (
        "config.post_import_blocks.append(3)",
        "@2 config.post_import_blocks holds int 3\n  It holds source text.",
    ),
    # --- name_map ---
    "name_map with a space": (
        'config.replace_function("rotate", name_map={"Qwen 3": "Qwen"})',
        f"@3 name_map: 'Qwen 3' is not a Python name\n{NAME_MAP}",
    ),
    "name_map with a keyword": (
        'config.replace_function("rotate", name_map={"Qwen": "class"})',
        f"@3 name_map: 'class' is not a Python name\n{NAME_MAP}",
    ),
    "name_map with a number": (
        'config.replace_function("rotate", name_map={1: "Qwen"})',
        f"@3 name_map: 1 is not a Python name\n{NAME_MAP}",
    ),
    "name_map that is none": (
        'config.replace_function("rotate", name_map="Qwen")',
        f"@3 name_map: 'Qwen' is not a mapping\n{NAME_MAP}",
    ),
    # --- create_patch_from_external ---
    "external method": (
        'config.patches.append(create_patch_from_external("Norm.forward", "fast", "f"))',
        "@3 create_patch_from_external: 'Norm.forward' is a method; only classes and functions can be imported\n"
        "  Override it with a method that calls the external function.",
    ),
    "external from a relative module": (
        'config.patches.append(create_patch_from_external("Norm", ".fast", "Norm"))',
        "@3 create_patch_from_external: cannot import 'Norm' from '.fast'\n"
        "  Name an absolute module and one name inside it.",
    ),
    "external of a dotted name": (
        'config.patches.append(create_patch_from_external("Norm", "fast", "norm.Norm"))',
        "@3 create_patch_from_external: cannot import 'norm.Norm' from 'fast'\n"
        "  Name an absolute module and one name inside it.",
    ),
    "external of a keyword": (
        'config.patches.append(create_patch_from_external("Norm", "fast", "class"))',
        "@3 create_patch_from_external: cannot import 'class' from 'fast'\n"
        "  Name an absolute module and one name inside it.",
    ),
    "external from what is no module": (
        'config.patches.append(create_patch_from_external("Norm", "fast norm", "Norm"))',
        "@3 create_patch_from_external: cannot import 'Norm' from 'fast norm'\n"
        "  Name an absolute module and one name inside it.",
    ),
    "junk among the patches": (
        'config.patches.append("Norm")',
        "@2 config.patches holds str 'Norm'\n  It holds what the decorators and create_patch_from_external make.",
    ),
    # --- the config as a whole ---
    "description that is no text": (
        '@config.replace_function("rotate", description=3)\ndef f(x): ...',
        "@3 description must be a string, not 3",
    ),
    "no list of patches": ("config.patches = None", "@2 config.patches must be a list, not None"),
    "several at once": (
        '@config.replace_class("Nrom")\nclass A: ...\nconfig.exclude_from_output("us")\n'
        "@config.add_helper\ndef rotate(x): ...",
        f"@3 upstream {MODULE} has no class 'Nrom'\n  Did you mean 'Norm'?\n"
        "@5 exclude_from_output: upstream defines no 'us'\n  Did you mean 'use'?\n"
        "@6 PG207 helper 'rotate' has the name of an upstream definition\n"
        "  Rename it, or replace upstream's with replace_class or replace_function.",
    ),
}


def expected(text: str) -> str:
    return re.sub(r"^@(\d+)", rf"{FILE}:\1:", text, flags=re.MULTILINE)


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))


@pytest.fixture(autouse=True)
def _upstream(work: Workspace) -> None:
    work.upstream(UPSTREAM)


@pytest.mark.parametrize(("config", "message"), TABLE.values(), ids=TABLE)
def test_bad_declarations(work: Workspace, config: str, message: str) -> None:
    work.config(config + "\n", preamble=HEAD)
    assert trimmed(work.errors()) == expected(message)


WHOLE = {
    "other version": (
        f'"{MODULE}", "a.py", transformers_version="2.0"',
        "@2 this config is for acme 2.0, but 1.0 is what there is\n"
        "  Install that version, or adapt the config and its transformers_version.",
    ),
    "unknown module": (
        '"acme.models.toy.modeling_toi", "a.py"',
        "@2 upstream has no module 'acme.models.toy.modeling_toi'\n  Did you mean 'acme.models.toy.modeling_toy'?",
    ),
    "unknown package": ('"acem.models.toy", "a.py"', "@2 upstream package 'acem' is not installed"),
    "relative module": ('".models.toy", "a.py"', "@2 '.models.toy' is not a module name\n  Name it absolutely."),
    "path for a module": (
        '"acme/models/toy.py", "a.py"',
        "@2 'acme/models/toy.py' is not a module name\n"
        "  Write its dotted name, such as 'transformers.models.qwen3.modeling_qwen3'.",
    ),
    "empty module": ('"", "a.py"', "@2 source_module must be a non-empty string, not ''"),
    "module that is no text": ('None, "a.py"', "@2 source_module must be a non-empty string, not None"),
    "empty target file": (f'"{MODULE}", ""', "@2 target_file must be a non-empty string, not ''"),
    **{
        f"target file {name}": (
            f'"{MODULE}", {name!r}',
            f"@2 target_file '{name}' is not a .py file inside the output folder\n"
            "  Give a plain file name, such as 'patched_modeling_qwen3_gpu.py'.",
        )
        for name in ("../a.py", "b/../../a.py", "/abs/a.py", "..\\a.py", "C:\\a.py", "C:a.py", "a", "a.txt", ".py")
    },
}


@pytest.mark.parametrize(("arguments", "message"), WHOLE.values(), ids=WHOLE)
def test_bad_configs(work: Workspace, arguments: str, message: str) -> None:
    work.config("", preamble=f"from patchgen import PatchConfig\nconfig = PatchConfig({arguments})\n")
    assert work.errors() == expected(message)


@pytest.mark.parametrize(
    "value",
    [
        'config.replace_function("rotate", Call())',
        'config.replace_function("rotate", functools.partial(max, 1))',
        "config.add_helper(object())",
        "config.patches.append(Call)",
        "config.patches.append(Call())",
        "config.helpers.append(object())",
    ],
)
def test_messages_are_the_same_in_every_run(work: Workspace, value: str) -> None:
    work.config(f"import functools\nclass Call:\n    def __call__(self): ...\n{value}\n")
    assert not re.search(r"0x[0-9a-f]{6,}", work.errors())


def test_two_configs_that_write_one_file_name_each_other(work: Workspace) -> None:
    text = textwrap.dedent(
        f"""
        gpu = PatchConfig("{MODULE}", "toy.py")
        """
    )
    work.config(text, preamble=HEAD)
    outcomes = {result.outcome.label: result.outcome for result in work.check().results}
    name = "proj.models.toy.toy_gpu_patch_gen_config"
    hint = "Give one of them another target_file."
    assert [(p.message, p.location.line, p.hint) for p in outcomes[name].problems if p.location] == [
        (f"'toy.py' is also written by {name}:gpu", 2, hint)
    ]
    assert [(p.message, p.location.line, p.hint) for p in outcomes[f"{name}:gpu"].problems if p.location] == [
        (f"'toy.py' is also written by {name}", 4, hint)
    ]


def test_configs_of_two_folders_may_share_a_file_name(work: Workspace) -> None:
    work.config("", "one/a_patch_gen_config.py", preamble=HEAD)
    work.config("", "two/a_patch_gen_config.py", preamble=HEAD)
    assert [result.status for result in work.check().results] == ["drifted", "drifted"]


def test_upstream_that_is_no_python_is_an_error_of_its_own_file(work: Workspace) -> None:
    path = work.upstream("x = 1\ndef f(:\n")
    work.config("", preamble=HEAD)
    assert work.errors() == f"{path}:2: not valid Python: invalid syntax\n  def f(:"


def test_the_command_prints_what_the_library_says(work: Workspace) -> None:
    work.config('@config.replace_class("Nrom")\nclass A: ...\n', preamble=HEAD)
    done = work.patchgen("proj.models.toy.toy_gpu_patch_gen_config", "--no-color")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"upstream {MODULE} has no class 'Nrom'" in done.stderr
    assert "Did you mean 'Norm'?" in done.stderr
    assert "Traceback" not in done.stderr
