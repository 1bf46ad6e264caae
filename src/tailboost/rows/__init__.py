"""Rows: what they are, how they are checked and recognised, and what has used them.

`rows` has the rows, `groups` their groups, `probabilities` given outputs of models, `fingerprints` hashes and
random draws by them, `recognised` the comparison with known rows, and `ledger` the attempts to certify.
"""

from tailboost.rows.fingerprints import *
from tailboost.rows.groups import *
from tailboost.rows.ledger import *
from tailboost.rows.probabilities import *
from tailboost.rows.recognised import *
from tailboost.rows.rows import *
