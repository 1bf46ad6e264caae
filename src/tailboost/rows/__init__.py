"""Rows: what they are, how they are checked and recognised, and what has used them."""

from tailboost.rows.fingerprints import *
from tailboost.rows.groups import *
from tailboost.rows.ledger import *
from tailboost.rows.probabilities import *
from tailboost.rows.recognised import *
from tailboost.rows.rows import *
