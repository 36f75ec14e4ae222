"""Bad exclusions, helpers, imports, blocks and external names, and what the user reads."""

from __future__ import annotations

import pytest

from tests.config.bad_configs import FILE, IN_TOY, MODULE, NAME_MAP, STILL_USED, assert_told
from tests.conftest import Workspace

# What is wrong, and all that the user reads (see assert_told).
TABLE = {
    # --- exclude_from_output ---
    "unknown name to exclude": (
        'config.exclude_from_output("Norm1")',
        "@3 exclude_from_output: upstream defines no 'Norm1'\n  Did you mean 'Norm'?",
    ),
    "import to exclude": (
        'config.exclude_from_output("ACT")',
        "@3 exclude_from_output: upstream defines no 'ACT'\n  Upstream imports it: use drop_import_names.",
    ),
    "unknown method to exclude": (
        'config.exclude_from_output("Norm.foward")',
        "@3 exclude_from_output: upstream defines no 'Norm.foward'\n  Did you mean 'forward'?",
    ),
    "excluded method that is patched": (
        'config.exclude_from_output("Norm.forward")\n@config.override_method("Norm.forward")\ndef f(self, x): ...',
        "@4 'Norm.forward' is patched, but 'Norm.forward' is excluded from the output\n"
        "  Remove the patch or the exclusion.",
    ),
    "list of names to exclude": (
        'config.exclude_from_output(["Norm"])',
        "@3 exclude_from_output: a name must be a non-empty string, not ['Norm']",
    ),
    "excluded name that upstream uses": (
        'config.exclude_from_output("LIMIT")',
        f"""@3 PG203 exclude_from_output takes 'LIMIT' out, but upstream's 'use' still uses it in toy.py, line 51
{STILL_USED}
       49 |
       50 | def use():
  >    51 |     return Norm(1), LIMIT
       52 |""",
    ),
    "excluded name that a patch uses": (
        'config.exclude_from_output("LIMIT", "use")\n@config.replace_function("rotate")\ndef f(x):\n    return LIMIT',
        f"""@4 PG203 exclude_from_output takes 'LIMIT' out, but function_replacement rotate still uses it {IN_TOY} 51
{STILL_USED}
       49 | # ======================================================================
       50 | def rotate(x):
  >    51 |     return LIMIT
       52 |""",
    ),
    # --- drop_import_names ---
    "unknown name to drop": (
        'config.drop_import_names("ACTS")',
        "@3 drop_import_names: upstream does not know 'ACTS'\n  Did you mean 'ACT'?",
    ),
    "dropped import that upstream uses": (
        'config.drop_import_names("ACT")',
        f"""@3 PG203 drop_import_names takes 'ACT' out, but upstream's 'Norm.forward' still uses it in toy.py, line 34
{STILL_USED}
       32 |
       33 |     def forward(self, x):
  >    34 |         return ACT(x)
       35 |""",
    ),
    "dropped import that a patch uses": (
        'config.drop_import_names("kernel")\n@config.replace_function("rotate")\ndef f(x):\n    return kernel',
        f"""@4 PG203 drop_import_names takes 'kernel' out, but function_replacement rotate still uses it {IN_TOY} 47
{STILL_USED}
       45 | # ======================================================================
       46 | def rotate(x):
  >    47 |     return kernel
       48 |""",
    ),
    # --- helpers ---
    "helper after an unknown name": (
        '@config.add_helper_after("Nrom")\ndef f(x): ...',
        f"@3 add_helper_after: upstream {MODULE} has no 'Nrom'\n  Did you mean 'Norm'?",
    ),
    "helper after a method": (
        '@config.add_helper_after("Norm.forward")\ndef f(x): ...',
        "@3 add_helper_after: 'Norm.forward' names a method\n  Write 'Norm': additions follow classes and functions.",
    ),
    "block after an unknown name": (
        'config.add_block_after("Nrom", "x = 1")',
        f"@3 add_block_after: upstream {MODULE} has no 'Nrom'\n  Did you mean 'Norm'?",
    ),
    "block after a definition that is no Python": (
        'config.add_block_after("Norm", "x = = 1")',
        "@3 add_block_after: not valid Python: invalid syntax\n  x = = 1",
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
        "  Replace the class, or pass add=True if a method of that name should hide it.",
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
}


@pytest.mark.parametrize(("config", "message"), TABLE.values(), ids=TABLE)
def test_bad_declarations(work: Workspace, config: str, message: str) -> None:
    assert_told(work, config, message)
