"""Boosting as a repeated game: weight players, cross-fitting, ensembles."""
