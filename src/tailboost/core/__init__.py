"""Checks, messages and helpers for all wings."""
