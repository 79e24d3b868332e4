"""How one conversation takes its turns: the floor, runs, the stream a consumer iterates, checkpoints."""

from simulacra.dialog.floor import QueuedInput, WhenBusy

__all__ = ["QueuedInput", "WhenBusy"]
