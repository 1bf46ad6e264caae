"""Checks, messages, tables and files for all wings, by one import.

`tailboost.core.ranges` is imported by its own name, because it loads scikit-learn.
"""

from tailboost.core.array_types import *
from tailboost.core.checks import *
from tailboost.core.files import *
from tailboost.core.frames import *
from tailboost.core.frozen import *
from tailboost.core.long_work import *
from tailboost.core.score_kinds import *
from tailboost.core.tables import *
from tailboost.core.versions import *
from tailboost.core.warn import *
from tailboost.core.words import *
from tailboost.exceptions import *
