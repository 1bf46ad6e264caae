"""Checks, messages and helpers that every wing uses."""
