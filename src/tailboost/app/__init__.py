"""Command line and model card."""
