"""Rows, checks, messages and helpers that every wing uses."""
