"""Configs are broken by machine, one defect at a time, and judged: how many defects are found?

``operators`` has what can be done to a config, ``configs`` what is broken, and two judges say what came of it:
``python -m tools.mutation.rules`` asks the contract rules, each about the defects that it is for, and
``python -m tools.mutation.gate`` asks the whole gate, models included, about slips in code that computes something.
"""
