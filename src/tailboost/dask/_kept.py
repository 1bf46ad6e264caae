"""Models of a fit on a cluster in a folder that client and later clients reach, also a remote one."""

from __future__ import annotations

import io
import json
from typing import Any, Self

import fsspec
import numpy as np

from tailboost._identity import Identity, unknown
from tailboost._store import digest
from tailboost.dask._scheme import Kept


class KeptModels(Kept):
    """One file per question, with the models of its answer: plain arrays and text, which run no code.

    Parameters
    ----------
    folder : str
        A path or URL that fsspec knows.
    identity : Identity
        Of the fit; files of another one are refused.
    """

    def __init__(self, folder: str, identity: Identity) -> None:
        self.folder, self.identity = folder.rstrip("/"), identity
        self.files, self.path = fsspec.url_to_fs(self.folder)

    @classmethod
    def open(cls, folder: Any, identity: Identity) -> Self:
        """Open or make a folder.

        Raises
        ------
        ValueError
            If a parameter does not allow a fit to be recognised.
        """
        for name, reason in unknown(identity.params).items():
            raise ValueError(
                "checkpoint_dir needs parameters that can be compared from one process to the next; "
                f"{name} cannot ({reason})"
            )
        kept = cls(str(folder), identity)
        kept.files.makedirs(kept.path, exist_ok=True)
        return kept

    def _name(self, number: int) -> str:
        return f"{self.path}/models-{number:05d}.npz"

    def read(self, number: int) -> list[bytes] | None:
        """Return the models of a question, or None.

        Raises
        ------
        ValueError
            If the file is damaged or belongs to another fit.
        """
        name = self._name(number)
        if not self.files.exists(name):
            return None
        content = self.files.cat_file(name)  # what storage refuses is no damage
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                header = json.loads(bytes(stored["identity"]))
                models = [bytes(stored[f"model{j}"]) for j in range(len(stored.files) - 2)]
                whole = bytes(stored["seal"]).decode() == digest(b"".join(models))
        except Exception as error:  # damaged content raises exceptions of many types
            raise ValueError(f"checkpoint {name!r} is damaged ({error}); delete it") from error
        if not whole:
            raise ValueError(f"checkpoint {name!r} is damaged (another content than was written); delete it")
        if objection := self.identity.objection(header):
            raise ValueError(f"checkpoint {name!r} {objection}; use another checkpoint_dir")
        return models

    def write(self, number: int, models: list[bytes]) -> None:
        """Keep the models of a question: under another name first, so that a file is whole or not there."""
        content = io.BytesIO()
        header = json.dumps(self.identity.as_dict(), sort_keys=True).encode()
        arrays = {f"model{j}": np.frombuffer(model, dtype=np.uint8) for j, model in enumerate(models)}
        seal = digest(b"".join(models)).encode()
        np.savez(
            content,
            identity=np.frombuffer(header, dtype=np.uint8),
            seal=np.frombuffer(seal, dtype=np.uint8),
            **arrays,  # type: ignore[arg-type]  # no name of an array is one of savez's own parameters
        )
        name = self._name(number)
        self.files.pipe_file(f"{name}.part", content.getvalue())
        self.files.mv(f"{name}.part", name)
