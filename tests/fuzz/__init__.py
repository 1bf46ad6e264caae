"""The campaign of faults, `make fuzz`: seeded, bounded, and with counts at the end. A package, so that its
conftest is not taken for the one above, of which tests import helpers."""
