"""Model files: plain data that runs no code, with a check of the predictions."""

from tailboost.storage.models import (
    MAX_BYTES,
    ModelVersionWarning,
    check_model_path,
    load_model,
    read_notes,
    save_model,
)
from tailboost.storage.rule_files import load_rule, save_rule

__all__ = [
    "MAX_BYTES",
    "ModelVersionWarning",
    "check_model_path",
    "load_model",
    "load_rule",
    "read_notes",
    "save_model",
    "save_rule",
]
