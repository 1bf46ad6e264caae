"""Summaries of a fit, certificates, calibration and monitoring."""
