"""Model files: plain data that runs no code, with a check of the predictions."""

from tailboost.storage.models import (
    MAX_BYTES,
    ModelVersionWarning,
    check_model_path,
    load_model,
    read_notes,
    save_model,
)

__all__ = [
    "MAX_BYTES",
    "ModelVersionWarning",
    "check_model_path",
    "load_model",
    "read_notes",
    "save_model",
]
