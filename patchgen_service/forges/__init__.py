"""GitHub, GitLab, Forgejo and Gitea: what they send, and what is asked of them."""
