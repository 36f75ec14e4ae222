"""The same results for people and for machines. Nothing here decides anything.

A folder for each thing that is reported, and in it a file for each format: ``gate/`` (what checks found out),
``drift/`` (what ``patchgen --check`` says), ``upgrade/`` and ``matrix/``. So a new format of a report is one file in
its folder, and what one report says in all formats stands side by side. What several reports share stands beside the
folders: problems as text (``terminal``) and as JSON types (``data``), the grammar of Markdown (``markdown``), unified
diffs (``diff``), tables of figures and errors by layer (``figures``), and in ``html/`` the pieces of pages.

The files that a run of the gate can be written to are the table ``gate.formats.FORMATS``: a line for each.
"""
