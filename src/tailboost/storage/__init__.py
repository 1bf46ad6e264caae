"""Model files and rule files: plain data that runs no code, with a check of the predictions."""
