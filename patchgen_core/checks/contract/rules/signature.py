"""PG201: a replaced function takes what upstream's takes."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.contract.changed_function import ChangedFunction
from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.checks.contract.signature_changes import SignatureChange, dropped_parameters, signature_changes
from patchgen_core.checks.contract.signature_weights import SAVING, weigh_change

_UPSTREAM = """
class Model:
    def get_placeholder_mask(self, input_ids, inputs_embeds, image_features=None, **kwargs):
        return input_ids == 7

    def forward(self, input_ids, inputs_embeds):
        return self.get_placeholder_mask(input_ids, inputs_embeds)
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Compare every replaced method and function with upstream's, and what differs with the calls of it."""
    for replaced in subject.replaced:
        if replaced.upstream is None:
            continue
        function = ChangedFunction(subject, replaced, replaced.upstream)
        for change in _changes(function):
            weight, hint = weigh_change(function, change)
            if weight is not None:
                message = f"'{replaced.dotted}' {change.message}"
                yield Finding(message, hint, replaced.node, replaced.dotted, weight=weight)


def _changes(function: ChangedFunction) -> Iterator[SignatureChange]:
    """The changes of a signature, and those of the parameters that it drops apart by how much they matter."""
    dropped: set[str] = set()
    for change in signature_changes(function.dotted, function.replaced.node, function.upstream):
        if change.kind == "dropped":
            dropped.update(change.names)
        elif change.kind == "renamed" and function.takes_another_for(change.names[0], change.theirs):
            dropped.add(change.theirs)
        else:
            yield change
    handed_on = function.keywords_handed_on if dropped else set()
    for group in (dropped - handed_on - SAVING, dropped & handed_on - SAVING, dropped & SAVING):
        names = [parameter.name for parameter in function.theirs.parameters if parameter.name in group]
        if names:
            yield dropped_parameters(names, function.ours)


RULE = Rule(
    code="PG201",
    name="signature",
    severity="error",
    reason=(
        "A method has more callers than its own file: transformers' generation and processors, trainers, and upstream "
        "code in this module that no patch touches. An override that drops, renames or moves a parameter, or loses "
        "`**kwargs`, works in the one call its author had in mind. Elsewhere it raises, or worse: an argument passed "
        "by position lands in another parameter, or `**kwargs` swallows one that nobody reads. Some changes are less "
        "serious. If every caller is in the module and fits, or is the config's own, a renamed or dropped parameter "
        "is a warning, and a new required one is no finding. A dropped parameter that `**kwargs` pass on to code that "
        "takes it is a warning too. A new parameter in front of upstream's is an error if a call passes that many by "
        "position, else a warning."
    ),
    failing=Example(
        """
@config.override_method("Model.get_placeholder_mask")
def get_placeholder_mask(self, input_ids, image_features=None, **kwargs):
    return input_ids == 8
""",
        _UPSTREAM.replace("(input_ids, inputs_embeds)\n", "(input_ids, inputs_embeds=inputs_embeds)\n"),
    ),
    passing=Example(
        """
@config.override_method("Model.get_placeholder_mask")
def get_placeholder_mask(self, input_ids, inputs_embeds, image_features=None, scale=1, **kwargs):
    return input_ids == 8
""",
        _UPSTREAM,
    ),
    check=check,
)
