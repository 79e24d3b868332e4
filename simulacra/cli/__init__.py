"""The `simulacra` command. Typer and rich are imported here and nowhere else."""

from simulacra.cli.app import app, main

__all__ = ["app", "main"]
