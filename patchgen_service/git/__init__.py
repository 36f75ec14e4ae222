"""git: mirrors of repositories, their history, checkouts, and commits that are pushed."""
