"""The form of an explanation."""

from __future__ import annotations

from mlftool.frozen import frozen


@frozen
class Explanation:
    """Why an error happens and what to do. One example: a whole `manifest` that has it, a `command`
    that fails so, or a `message` of the kind. Tests try manifests and commands."""

    cause: str
    remedy: str
    manifest: str = ""
    command: str = ""
    message: str = ""

    @property
    def example(self) -> str:
        return self.manifest.strip("\n") or self.message or f"$ {self.command}"
