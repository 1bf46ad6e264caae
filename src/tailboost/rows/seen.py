"""Classes where files of earlier versions have them."""

from tailboost.rows.ledger import Attempt as Attempt, Ledger as Ledger, Records as Records
from tailboost.rows.recognised import Seen as Seen
