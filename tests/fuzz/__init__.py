"""The campaign of faults, `make fuzz`: seeded, bounded, and with counts at the end. A package, to
separate its conftest from the one above."""
