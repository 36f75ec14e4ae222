"""Do the checkpoints of the hub load through a project's converter, and go back?"""
