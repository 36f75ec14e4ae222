"""Items of checks that run in other processes, ahead of the moment at which somebody asks for their results."""
