"""Rows: what they are, how they are checked and recognised, and what has used them."""
