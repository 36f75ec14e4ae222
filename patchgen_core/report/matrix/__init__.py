"""What several releases of upstream are to a project."""
