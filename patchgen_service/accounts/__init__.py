"""Who may do what: people, passwords, browsers and scripts that are signed in, and roles."""
