"""Checks, messages, tables and files for all wings, by one import.

Columns of labels are in `labels`, tables of rows in `frames`, checks of other arguments in `checks` and
`score_kinds`, texts in `words` and `tables`, warnings in `warn`, and stored documents in `files`. Types are
in `array_types`, decorators of classes in `data_classes`, and Ctrl-C and threads in `long_work`.
`tailboost.core.ranges` is imported by its own name, because it loads scikit-learn.
"""

from tailboost.core.array_types import *
from tailboost.core.checks import *
from tailboost.core.data_classes import *
from tailboost.core.files import *
from tailboost.core.frames import *
from tailboost.core.labels import *
from tailboost.core.long_work import *
from tailboost.core.score_kinds import *
from tailboost.core.tables import *
from tailboost.core.warn import *
from tailboost.core.words import *
from tailboost.exceptions import *
