"""Model files by skops, and rule files in JSON."""
