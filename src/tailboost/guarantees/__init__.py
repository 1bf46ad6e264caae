"""Certificates of rates on fresh rows, a theorem for each procedure of `calibrate`, plans, the monitor.

Begin with `fresh`: the rows that all of them read.
"""
