"""The process that runs models and kernels, so that the front end imports no torch."""
