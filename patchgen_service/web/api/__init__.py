"""The API, described by ``/api/v1/openapi.json``."""
