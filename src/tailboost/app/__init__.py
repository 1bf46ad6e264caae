"""Command line, reports, plots, data sets and baselines."""
