"""Model files as the commands know them: the model, what was noted with it, and how it reads later tables."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from tailboost import datasets
from tailboost.app.cli.shared import BadInput, bad_input, check_output, warnings_as_lines
from tailboost.app.table_encoder import TableEncoder
from tailboost.core.subgroups import answers_by_group
from tailboost.storage import check_model_path, load_model, read_notes, save_model

MOST_GROUPS = 100


@dataclass(frozen=True)
class PreparedTable:
    """Rows of a later file: as they stand there, and prepared for the classifier."""

    table: Any  # the columns of the file
    rows: Any  # what the classifier takes
    path: Path
    columns: Sequence[str] = ()  # the columns of groups
    cluster: str | None = None  # the column that says whose rows these are

    def column(self, name: str, what: str) -> Any:
        """Return a column of the file, none of its values missing."""
        if name not in self.table:
            raise BadInput(
                f"{what}: the data have no column {name!r}; they have {', '.join(map(repr, self.table))}"
            )
        column = self.table[name]
        if missing := int(column.isna().sum()):
            raise BadInput(f"{what}: column {name!r} has {missing} missing values")
        return column

    @property
    def groups(self) -> Any:
        """The groups of the rows by each column of groups, as a data frame; None without columns."""
        return self.groups_by(self.columns)

    @property
    def clusters(self) -> Any:
        """Whose rows these are; None where no column says so."""
        return None if self.cluster is None else self.column(self.cluster, "--cluster")

    def groups_by(self, names: Sequence[str]) -> Any:
        """Return the groups by some columns, as `load_table` names them: "missing" is one."""
        found = {}
        for name in names:
            if name not in self.table:
                raise BadInput(f"--group: the data have no column {name!r}")
            column = self.table[name]
            if column.nunique() > MOST_GROUPS:
                raise BadInput(f"--group: column {name!r} has more than {MOST_GROUPS} different values")
            texts = column.astype(object).map(str, na_action="ignore")
            found[name] = texts.fillna("missing").to_numpy(dtype=str)
        return pd.DataFrame(found) if names else None


def check_model_output(out: Path, *inputs: Path | None) -> None:
    """Refuse a model file that cannot be written, before any work is done."""
    check_output("--model", out, *inputs)
    with bad_input("--model: "):
        check_model_path(out)


@dataclass(frozen=True)
class StoredModel:
    """A model file that was read."""

    path: Path
    whole: Any  # estimator: the model as it is stored, preparation included
    # notes, versions: what `tailboost fit` noted, and the versions of the libraries then.
    notes: dict[str, Any]
    versions: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> StoredModel:
        """Read a model file, refusing what cannot predict."""
        with bad_input():
            whole = load_model(path)
            if not hasattr(whole, "predict"):
                raise BadInput(f"{str(path)!r} holds a {type(whole).__name__}, which cannot predict")
            record = read_notes(path)
        return cls(path, whole, record["notes"], record["versions"])

    @property
    def classifier(self) -> Any:
        """The classifier itself, without its preparation."""
        return self.whole[-1] if isinstance(self.whole, Pipeline) else self.whole

    @property
    def encoder(self) -> TableEncoder | None:
        """The first step, if it has a schema of its columns, so that it reads a CSV file's text itself."""
        first = self.whole.steps[0][1] if isinstance(self.whole, Pipeline) else None
        return first if isinstance(first, TableEncoder) else None

    @property
    def target(self) -> str | None:
        """The name of the target column, if it is known."""
        schema = None if self.encoder is None else self.encoder.schema_.target
        return None if schema is None else schema.name

    @property
    def groups(self) -> list[str]:
        """The columns of groups that it was fitted with."""
        return list(self.notes.get("group") or [])

    @property
    def by_group(self) -> bool:
        """Whether the classifier has to be told the groups of the rows that it answers."""
        return answers_by_group(self.classifier)

    def save(self, classifier: Any, path: Path, **notes: Any) -> None:
        """Store another classifier with the preparation and the notes of this one, and with further notes."""
        model = classifier
        if isinstance(self.whole, Pipeline):
            model = Pipeline([*self.whole.steps[:-1], (self.whole.steps[-1][0], classifier)])
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with bad_input("--model: "):
            save_model(model, path, notes={**self.notes, **notes, "reweighted": now})

    def rows_of(
        self,
        data: Path,
        sep: str = ",",
        *,
        purpose: str,
        columns: Sequence[str] = (),
        cluster: str | None = None,
        but: Sequence[str] = (),
    ) -> PreparedTable:
        """Read a later file as the model was fitted on the first one.

        ``purpose`` is what its rows are for, for the message where there are none. The ``columns`` of groups,
        that of persons (``cluster``) and others (``but``) are no features, and not worth a warning.
        """
        with bad_input():
            table = (datasets.read_frame if self.encoder is None else datasets.read_raw)(data, sep)
        if not len(table):
            raise BadInput(f"{str(data)!r} has no rows to {purpose}")
        known = set() if self.encoder is None else set(self.encoder.feature_names_in_)
        aside = {*but, *columns, cluster, *self.groups, *self.notes.get("not_features", [])} - known
        rows = table.drop(columns=[name for name in table if name in aside])
        with bad_input(f"{data}: "):
            if isinstance(self.whole, Pipeline) and len(self.whole.steps) > 1:
                rows = self.whole[:-1].transform(rows)
        return PreparedTable(table, rows, data, columns, cluster)

    @contextmanager
    def judging(
        self, data: Path, sep: str, target: str | None, *, purpose: str, columns: Sequence[str], **more: Any
    ) -> Iterator[tuple[PreparedTable, Any]]:
        """Hand out the rows of a later file and their labels; what cannot be done with them is bad input.

        Arguments are as in `rows_of` and `labels_of`; warnings are printed at the end.
        """
        with warnings_as_lines():
            later = self.rows_of(data, sep, purpose=purpose, columns=columns, **more)
            y = self.labels_of(later, target)
            with bad_input(f"{data}: "):
                yield later, y

    def told(self, later: PreparedTable) -> dict[str, Any]:
        """Return what the classifier is told beside the rows: their groups, if it answers by them."""
        return {"groups": later.groups_by(self.groups)} if self.by_group else {}

    def labels_of(self, later: PreparedTable, target: str | None) -> Any:
        """Return the labels of a later file as the model knows them."""
        name = target or self.target
        if name is None:
            raise BadInput("--target: this model does not say what its target was called; name the column")
        return known_labels(later.column(name, "--target"), self.classifier.classes_, name)


def known_labels(column: Any, classes: Any, name: str) -> Any:
    """Return labels as a model knows them; those of a CSV file are text, also where a model's are numbers."""
    spelled = {str(label): label for label in classes.tolist()}
    texts = [str(value) for value in column.tolist()]
    if stray := sorted(set(texts) - set(spelled)):
        shown = ", ".join(map(repr, stray[:5]))
        raise BadInput(f"target column {name!r} holds labels the model does not know: {shown}")
    return np.array([spelled[text] for text in texts], dtype=classes.dtype)
