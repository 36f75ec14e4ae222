"""Where the files of releases of upstream come from."""
