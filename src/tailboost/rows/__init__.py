"""Rows: what they are, how they are checked and recognised, and what has used them.

`rows` has the rows, `groups` their groups, `probabilities` given outputs of models, `fingerprints` hashes and
random draws by them, `equal_rows` how many are chance, `recognised` the comparison with known rows, and
`ledger` the attempts to certify.
"""

from tailboost.rows.equal_rows import refuse_copies as refuse_copies
from tailboost.rows.fingerprints import *
from tailboost.rows.groups import *
from tailboost.rows.ledger import *
from tailboost.rows.probabilities import *
from tailboost.rows.recognised import *
from tailboost.rows.rows import *
