"""``patchgen lsp``: a language server for patch configs and generated files."""
