"""Certificates of rates on fresh rows, a theorem for each procedure of `calibrate`, plans, the monitor."""
