"""Model files: plain data that runs no code, with a check of the predictions."""

from tailboost.storage.models import (
    MAX_BYTES,
    ModelVersionWarning,
    check_model_path,
    load_model,
    model_digest,
    read_ledger,
    read_notes,
    save_model,
    write_ledger,
)

__all__ = [
    "MAX_BYTES",
    "ModelVersionWarning",
    "check_model_path",
    "load_model",
    "model_digest",
    "read_ledger",
    "read_notes",
    "save_model",
    "write_ledger",
]
