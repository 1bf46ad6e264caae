"""Model files: plain data that runs no code, every shared part once, and a check of the answers."""

from tailboost.storage.models import (
    MAX_BYTES,
    ModelVersionWarning,
    check_model_path,
    load_model,
    read_notes,
    save_model,
)

__all__ = ["MAX_BYTES", "ModelVersionWarning", "check_model_path", "load_model", "read_notes", "save_model"]
