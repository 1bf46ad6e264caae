"""Certificates of rates on fresh rows, a theorem for each procedure of `calibrate`, plans, the monitor.

Read `fresh`, `certified_bound`, `exact_tests`, `tail`, `few_rows` and `rate_bounds`; then `division`,
`one_score` and the procedures `sequence`, `ranks`, `gaps`, `chain`; then `certificates` and `certify`, `bets`
and `monitor`. `planning` stands beside.
"""
