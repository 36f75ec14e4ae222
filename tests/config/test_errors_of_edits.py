"""Bad edits, and what the user reads: the place, the name, the nearest right one, what to do."""

from __future__ import annotations

import pytest

from patchgen_core.errors import PatchgenError
from tests.codegen.editing import UPSTREAM
from tests.config.bad_configs import FILE, HEAD, MODULE, expected
from tests.conftest import Workspace

EDIT = "@config.edit_method('Layer.forward'"
AT = f"{EDIT}, at="

# What is wrong, and all that the user reads; the config starts on line 3.
TABLE = {
    # --- places ---
    "not there, others near": (
        f"{AT}'x = self.norms(x)')\ndef f(x): \n    ...",
        "@3 method_edit Layer.forward: upstream's 'Layer.forward' has no 'x = self.norms(x)'\n"
        "  Nearest: line 24: x = self.norm(x)",
    ),
    "not there, none near": (
        f"{AT}'for layer in layers:')\ndef f(x): \n    ...",
        "@3 method_edit Layer.forward: upstream's 'Layer.forward' has no 'for layer in layers:'\n"
        "  'Layer.forward' is in upstream's lines 17 to 39 of modeling_toy.py.",
    ),
    "not there in a class, none near": (
        "config.replace_code('Layer', 'for x in y:', 'pass')",
        "@3 code_replacement Layer: upstream's 'Layer' has no 'for x in y:'\n"
        "  'Layer' is in upstream's lines 6 to 39 of modeling_toy.py.",
    ),
    "there several times": (
        f"{AT}'x = ...')\ndef f(x): \n    ...",
        "@3 method_edit Layer.forward: 'x = ...' is there 3 times, in upstream's lines 24, 33 and 38\n"
        "  It must be there once: add what stands before or after it, or pass count=3.",
    ),
    "there less often": (
        f"{AT}'residual = x', count=2)\ndef f(x): \n    ...",
        "@3 method_edit Layer.forward: 'residual = x' is there once, in upstream's line 23\n"
        "  It must be there 2 times: add what stands before or after it, or pass count=1.",
    ),
    "an expression where a statement is wanted": (
        f"{AT}'self.norm(...)')\ndef f(x): \n    ...",
        "@3 method_edit Layer.forward: upstream's 'Layer.forward' has no 'self.norm(...)'\n"
        "  It is a part of line 24, 'x = self.norm(x)': write the statement, or use replace_code.",
    ),
    "no Python": (
        f"{AT}'x = = 1')\ndef f(x): \n    ...",
        "@3 method_edit Layer.forward: cannot look for 'x = = 1': it is not valid Python: invalid syntax",
    ),
    "a part of a statement": (
        f"{AT}'else:')\ndef f(x): \n    ...",
        "@3 method_edit Layer.forward: cannot look for 'else:': it is a part of a statement: start with the 'if', "
        "'try' or 'match' that it belongs to",
    ),
    "count that is none": (
        f"{AT}'x = 1', count=0)\ndef f(x): \n    ...",
        "@3 edit_method: count is a whole number, 1 or more, not 0",
    ),
    # --- targets ---
    "inherited": (
        "@config.edit_method('Empty.forward')\ndef f(x): \n    ...",
        "@3 upstream class 'Empty' has no method 'forward' of its own to edit\n"
        "  If it inherits it, use wrap_method or override_method.",
    ),
    "slip": (
        "@config.edit_method('Layer.foward')\ndef f(x): \n    ...",
        "@3 upstream class 'Layer' has no method 'foward' of its own to edit\n  Did you mean 'forward'?",
    ),
    "class as a function": (
        "@config.edit_function('Layer')\ndef f(x): \n    ...",
        f"@3 'Layer' is a class in upstream {MODULE}\n  Use edit_class, or edit_method for one method.",
    ),
    "function as a class": (
        "@config.edit_class('rotate')\nclass A: ...",
        f"@3 'rotate' is a function in upstream {MODULE}\n  Use edit_function.",
    ),
    "parameter of a class": (
        "config.add_parameter('Layer', 'y=1')",
        "@3 add_parameter: 'Layer' is a class, which has no parameters\n  Write 'Layer.__init__' or 'Layer.forward'.",
    ),
    "edited and replaced": (
        f"{EDIT})\ndef f(x):\n    ...\n@config.override_method('Layer.forward')\ndef g(self): ...",
        "@6 'Layer.forward' is edited and replaced, first at @3\n  Put the edit into the replacement.",
    ),
    "edited in a replaced class": (
        f"@config.replace_class('Layer')\nclass A: ...\n{EDIT})\ndef f(x):\n    ...",
        "@5 'Layer.forward' is patched, but 'Layer' is replaced at @3\n  Put the method into the replacement.",
    ),
    "an edit as a replacement": (
        "@config.edit_function('rotate')\ndef f(q):\n    ...\nconfig.override_method('Layer.forward', replacement=f)",
        "@6 'Layer.forward' would be replaced by 'f', which is an edit of upstream's code\n"
        "  Use edit_method here too.",
    ),
    "a place that is lost": (
        f"{AT}'residual = x')\ndef f(x):\n    ...\nconfig.edit_function('rotate', edit=f)",
        "@6 'f' edits the place 'residual = x' at @3, and no place is given for it here\n"
        "  Pass at='residual = x' here too, or pass Edits, which keep their places. To edit the whole body, "
        "write another function.",
    ),
    # --- code ---
    "parameter that is none": (
        f"{EDIT})\ndef f(self,\n      residuals):\n    ...",
        "@5 method_edit Layer.forward: 'residuals' is neither a parameter of it nor a name that it binds\n"
        "  Did you mean 'residual'?",
    ),
    "never runs": (
        f"{EDIT})\ndef f(x):\n    ...\n    x = 1",
        "@6 method_edit Layer.forward: upstream's code ends with line 39, 'return x', so what follows '...' never "
        "runs\n  Put it before '...', or say with at= what it follows; wrap_method changes what is returned.",
    ),
    "arguments": (
        f"{EDIT})\ndef f(x):\n    g(...)\n    ...",
        "@5 method_edit Layer.forward: '...' stands for no arguments in 'g(...)'\n"
        "  Write the arguments; to change those of one of upstream's calls, use replace_code.",
    ),
    "branch of what is no if": (
        f"{AT}'x = self.norm(...)')\ndef f(x):\n    if ...:\n        ...\n    else:\n        x = 1",
        "@5 method_edit Layer.forward: 'if ...:' needs an upstream 'if' without an 'else'\n"
        "  It is line 24, 'x = self.norm(x)'.",
    ),
    "branch with code of its own": (
        f"{AT}'if mask is None:')\ndef f(x):\n    if ...:\n        x = 1\n        ...",
        "@5 method_edit Layer.forward: '...' can be a condition only where 'if ...:' stands for all of upstream's "
        "'if'\n"
        "  Write 'if ...:', below it only '...', and then the new 'elif' or 'else'.",
    ),
    "item and no item": (
        "config.replace_code('Layer.forward', 'self.norm(x)', '\"x\": x')",
        "@3 code_replacement Layer.forward: the old code is not an item of a dict\n  Write a key and a value in both.",
    ),
    "inside a definition": (
        f"{EDIT})\ndef f(x):\n    def g(): ...\n    ...",
        "@5 method_edit Layer.forward: '...' inside a definition does not stand for upstream's code\n"
        "  Write 'pass' for a body that does nothing.",
    ),
    "nothing there": (
        f"{EDIT})\ndef f(x):\n    '''Only said.'''",
        "@4 method_edit Layer.forward: 'f' has no code\n"
        "  Write the code that should be there, with '...' for upstream's.",
    ),
    "not finished": (
        "config.edit_method('Layer.forward')",
        "@3 edit_method 'Layer.forward' has no replacement\n  Use it as a decorator, or pass edit=.",
    ),
    "a class as an edit": (
        f"{EDIT})\nclass A: ...",
        "@3 method_edit Layer.forward: 'A' is a class, not a function",
    ),
    "method in an edited class": (
        "@config.edit_class('Layer')\nclass A:\n    def f(self): ...",
        "@5 class_edit Layer: 'f' is not an attribute with a value\n"
        "  Use override_method to add or replace a method, and edit_method to change one.",
    ),
    "undefined name": (
        f"{EDIT})\ndef f(x):\n    x = 1\n    y = fast(x)\n    ...",
        "@6 PG204 method_edit Layer.forward: nothing defines 'fast' in toy.py, line 39\n"
        "  Import it with config.add_import, copy it with config.add_helper, or assign it in a post-import block.\n"
        '       37 |         """\n       38 |         x = 1\n  >    39 |         y = fast(x)\n'
        "       40 |         # kept above",
    ),
    "what others need is taken out": (
        "config.delete_code('Layer.forward', 'residual = x')",
        "@3 PG204 method_edit Layer.forward: edits remove the code that binds 'residual', which line 47 of toy.py "
        "still "
        "uses\n  Bind it in an edit, or edit what uses it.\n"
        "       45 |         )\n       46 |\n  >    47 |         x = residual + x\n"
        "       48 |         if mask is None:",
    ),
    # --- code in quotes ---
    "unknown metavariable": (
        "config.replace_code('Layer.forward', '$A * $B', '$A * $C')",
        "@3 code_replacement Layer.forward: the new code uses $C, which the old code does not have",
    ),
    "arguments that the old code does not have": (
        "config.replace_code('Layer.forward', 'self.norm(x)', 'self.norm(..., 1)')",
        "@3 code_replacement Layer.forward: '...' in the new code stands for arguments, and the old code has no such "
        "call\n  Write '...' among the arguments of the old call too.",
    ),
    "argument that is there": (
        "config.replace_code('Layer.forward', 'self.attn(...)', 'self.attn(..., mask=None)')",
        "@3 code_replacement Layer.forward: upstream passes 'mask' already, as 'mask=mask'\n"
        "  Write 'mask=...' in the old code too, to give it another value.",
    ),
    "new code that is no Python": (
        "config.replace_code('Layer.forward', 'self.norm(x)', 'self.norm(')",
        "@3 code_replacement Layer.forward: the new code is not valid Python: '(' was never closed\n  self.norm(",
    ),
    "expression that cannot be taken out": (
        "config.delete_code('Layer.forward', 'self.norm(x)')",
        "@3 code_deletion Layer.forward: 'self.norm(x)' is neither a statement nor an item\n"
        "  Use replace_code to say what is there instead.",
    ),
    "no parameter": (
        "config.add_parameter('Layer.forward', 'causal mask')",
        "@3 parameter_addition Layer.forward: 'causal mask' is not a parameter\n"
        '  Write one, such as "causal: bool = True".',
    ),
    "parameter that is there": (
        "config.add_parameter('Layer.forward', 'mask=None')",
        "@3 parameter_addition Layer.forward: it already has a parameter 'mask'",
    ),
    "parameter beside none": (
        "config.add_parameter('Layer.forward', 'y=None', after='masks')",
        "@3 parameter_addition Layer.forward: it has no parameter 'masks' for 'y' to go beside\n"
        "  Did you mean 'mask'?",
    ),
    "parameter without a default": (
        "config.add_parameter('Layer.forward', 'y')",
        "@3 parameter_addition Layer.forward: 'y' does not fit there\n"
        "  Give it a default, or say with before= or after= where it stands.",
    ),
    # --- several ---
    "overlapping edits": (
        f"{AT}'residual = x\\nx = self.norm(x)')\ndef f(x):\n    pass\n{AT}'x = self.norm(x)')\ndef g(x):\n    ...",
        "@6 method_edit Layer.forward overlaps method_edit Layer.forward at @3, in upstream's line 24\n"
        "  Make them one edit, or give one of them another place.",
    ),
    "edits that cross": (
        f"{AT}'residual = x\\nx = self.norm(x)')\ndef f(x):\n    ...\n"
        f"{AT}'x = self.norm(x)\\nx, weights = ...')\ndef g(x):\n    ...",
        "@6 method_edit Layer.forward overlaps method_edit Layer.forward at @3, in upstream's line 24\n"
        "  Make them one edit, or give one of them another place.",
    ),
    "code that is taken out": (
        f"{AT}'x = self.norm(x)')\ndef f(x):\n    pass\nconfig.replace_code('Layer.forward', 'self.norm(x)', 'x')",
        "@6 code_replacement Layer.forward overlaps method_edit Layer.forward at @3, in upstream's line 24\n"
        "  Make them one edit, or give one of them another place.",
    ),
    "one expression twice": (
        "config.replace_code('Layer.forward', 'self.norm(x)', 'x')\n"
        "config.replace_code('Layer.forward', 'self.norm', 'self.other')",
        "@4 code_replacement Layer.forward overlaps code_replacement Layer.forward at @3, in upstream's line 24\n"
        "  Make them one edit, or give one of them another place.",
    ),
    # --- wrappers ---
    "wrapper without upstream's": (
        "@config.wrap_method('Layer.forward')\ndef f(self, x): ...",
        "@4 wrap_method: 'f' must take original and self first\n"
        "  Write def f(original, self, ...): original(self, ...).",
    ),
    "wrapper that never calls": (
        "@config.wrap_method('Layer.forward')\ndef f(original, self, x): ...",
        "@4 wrap_method: 'f' never calls 'original', so upstream's forward would not run\n"
        "  Call it, or override the method with override_method.",
    ),
}


@pytest.mark.parametrize(("config", "message"), TABLE.values(), ids=TABLE)
def test_a_bad_edit_is_told(work: Workspace, config: str, message: str) -> None:
    work.upstream(UPSTREAM)
    work.config(config + "\n", preamble=HEAD)
    try:
        told = work.errors()
    except PatchgenError as error:
        told = str(error)
    lines = [line.rstrip() for line in told.split("\n")]
    wanted = expected(message).replace("first at @3", f"first at {FILE}:3").replace("at @3", f"at {FILE}:3")
    assert "\n".join(lines) == wanted
