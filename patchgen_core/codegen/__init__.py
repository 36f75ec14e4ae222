"""Module text in, module text out: applies a config's patches to upstream's source.

Upstream is never re-printed. Its syntax tree says where things stand, and every change is an edit of a
span of its text, so what no patch touches comes out as it went in.
"""
