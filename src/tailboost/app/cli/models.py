"""Model files of the commands, and new tables with the columns of the training table."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from tailboost import datasets
from tailboost.app.cli.options import CsvFormat
from tailboost.app.cli.shared import (
    BadInput,
    bad_input,
    check_output,
    say_aside,
    warn,
    warnings_as_lines,
)
from tailboost.app.table_encoder import TableEncoder
from tailboost.classifiers.calibrating import selected_on_part
from tailboost.classifiers.robust_mixture import RobustMixtureClassifier
from tailboost.core.array_types import Array, Column, Model, Stated, Table
from tailboost.core.files import held
from tailboost.core.spelling import (
    a_type_of,
    alike,
    did_you_mean,
    drop_rows_without,
    how_many,
    if_no_header,
    listed,
    other_separator,
    shell_word,
    warn_alike,
)
from tailboost.rows.given import Given
from tailboost.rows.judged import judged, predicted_labels
from tailboost.rows.ledger import Ledger
from tailboost.rows.other_groups import (
    groups_listed,
    rows_by_unknown_group,
    unknown_groups,
    warn_of_other_groups,
)
from tailboost.rows.persons import refuse_persons, warn_of_persons
from tailboost.rows.schema import group_names
from tailboost.storage.models import (
    check_model_path,
    load_model,
    model_digest,
    read_ledger,
    read_notes,
    save_model,
    write_ledger,
)

MOST_NUMBERS = (
    20  # numeric classes or groups without a warning; with more, they may be a quantity
)
GROUPS_NAMED = 100  # values of a column of groups, as in `load_table`
# Seconds to wait for another process that records an attempt in the same file.
LOCK_SECONDS = 60.0


@dataclass(frozen=True)
class Reading:
    """How a command reads a new file. Columns named here are no features, and cause no warning."""

    purpose: str  # ends the message "… has no rows to …"
    columns: Sequence[str] = ()  # columns of groups
    cluster: str | None = None  # column of --cluster
    unused: Sequence[str] = ()  # other columns, such as ids
    target: str | None = None  # column of labels, if the command needs them
    # Whether the selection data are refused, because rates are estimated on the rows.
    fresh: bool = True
    may_lack_scores: bool = False  # whether rows without a score are no error


def are_numbers(values: Column) -> bool:
    """Return whether all values are numbers, or texts of numbers."""
    return bool(pd.to_numeric(pd.Series(values, dtype=object), errors="coerce").notna().all())


def many_numbers_as_groups(option: str, groups: Column) -> str:
    """Return a warning of a column of groups with many different numbers, such as ages; otherwise "".

    ``option`` names the column, whose values are ``groups``.
    """
    values = pd.unique(groups)
    if len(values) <= MOST_NUMBERS or not are_numbers(values):
        return ""
    name = groups.name
    bands = (
        f"table[{f'{name}_band'!r}] = pandas.cut(table[{name!r}], [0, 40, 65, 120]).astype(str)"
    )
    return (
        f"{option} {shell_word(name)}: {len(values)} different numbers, and each is a group; "
        f"for bands add a column to the file, in Python such as {bands}"
    )


@dataclass(frozen=True)
class NewRows:
    """Rows of a new file: all its columns, and the features of the classifier."""

    table: Any  # all columns of the file
    features: Table  # input of the classifier
    path: Path
    group_columns: Sequence[str] = ()
    cluster_column: str | None = None
    y: Column = None  # labels, if the command needs them
    by_group: str | None = None  # the column of --by-group

    def column(self, name: str, option: str) -> Any:
        """Return a column of the file; raise `BadInput` for an absent column or missing values."""
        column = self.present(name, option)
        rows_without = np.flatnonzero(column.isna())
        if len(rows_without):
            raise BadInput(
                f"{option}: column {name!r} of {self.path.name} has "
                f"{drop_rows_without(rows_without)}"
            )
        return column

    def present(self, name: str, option: str) -> Any:
        """Return a column of the file; raise `BadInput`, which begins with the option, for an absent one."""
        if name not in self.table:
            has = columns_instead(list(self.table), [name], "they have", self.table)
            raise BadInput(f"{option}: the data have no column {name!r}; {has}")
        return self.table[name]

    @property
    def groups(self) -> Any:
        """The groups of the rows, one column for each column of groups; None without such columns."""
        return self.groups_by(self.group_columns)

    def column_names(self) -> list[str]:
        """Return the names of all columns of the file."""
        return list(self.table)

    @property
    def clusters(self) -> Any:
        """The person or site of each row; None without --cluster."""
        if self.cluster_column is None:
            return None
        return self.column(self.cluster_column, "--cluster")

    def tell_of_empty_groups(self) -> None:
        """Print a line for each column of groups with empty cells, which form a group."""
        for name in self.group_columns:
            if name not in self.table:
                continue  # the property ``groups`` refuses such a table
            n_empty = int(self.table[name].isna().sum())
            if n_empty:
                say_aside(
                    f"{how_many(n_empty, 'row')} of {self.path.name} with an empty {name!r}: "
                    "they are the group 'missing'."
                )

    def unlabeled(self) -> dict[str, Any]:
        """Return these rows as the arguments of a fit or calibration for rows without labels."""
        return {"X_unlabeled": self.features, "groups_unlabeled": self.groups}

    def groups_by(self, names: Sequence[str]) -> Any:
        """Return columns of groups as text, as in `load_table`; None without names of columns.

        A missing value becomes "missing".
        """
        groups = {}
        for name in names:
            option = "--by-group" if name == self.by_group else "--group"
            column = self.present(name, option)
            if column.nunique() > GROUPS_NAMED:
                raise BadInput(
                    f"{option}: column {name!r} has more than {GROUPS_NAMED} "
                    "different values; name a column of few groups, or write a column of "
                    "bands such as 30-49 into the file, as by pandas.cut"
                )
            warning = many_numbers_as_groups(option, column)
            if warning:
                warn(warning)
            groups[name] = group_names(column)
        if not groups:
            return None
        # Each use of another type would convert it: seconds for a million rows.
        return pd.DataFrame(groups, dtype="category")


def columns_instead(
    columns: list[Any], names: Sequence[str], has: str, table: Any = None
) -> str:
    """Return advice for a table without columns of these names: another separator, or its columns.

    ``has`` begins the list of its columns, as "it has". Values of ``table`` among the names are pointed out.
    """
    suggestion = "".join(did_you_mean(name, map(str, columns)) for name in names)
    return (
        other_separator(columns)
        or f"{suggestion}{has} {listed(columns)}{if_no_header(columns, table)}"
    )


def refuse_absent(
    needed: Mapping[str, Sequence[str | None]],
    table: Table,
    data: Path,
    read_by_rule: Sequence[str] = (),
) -> None:
    """Raise `BadInput` with all needed columns, by option, that the table of a file ``data`` lacks."""
    absent: dict[str, str] = {}
    for option, names in needed.items():
        for name in names:
            if name is not None and name not in table:
                absent.setdefault(name, option)
    if not absent:
        return
    if len(list(table)) == 1 and other_separator(list(table)):
        raise BadInput(f"{str(data)!r}: {other_separator(list(table))}")
    fault = f"{str(data)!r} has no column {', '.join(map(repr, absent))}"
    advice = columns_instead(list(table), [*absent], "it has", table)
    if {*absent} <= {*read_by_rule}:
        fault += ", which the rule or its limits read"
        if not other_separator(list(table)):
            advice += "; if a column has another name there, rename it in the file"
        raise BadInput(f"{fault}; {advice}")
    options = ", ".join(dict.fromkeys(absent.values()))
    raise BadInput(f"{options}: {fault}; {advice}")


def check_model_output(option: str, out: Path, *inputs: Path | None) -> None:
    """Raise `BadInput` if a model file cannot be written."""
    check_output(option, out, *inputs)
    with bad_input(f"{option}: "):
        check_model_path(out)


@dataclass(frozen=True)
class StoredModel:
    """Content of a model file."""

    path: Path
    model: Model  # the stored estimator, with its preparation
    notes: dict[str, Any]  # notes of `tailboost fit`
    versions: dict[str, str]  # versions of the libraries at the fit

    @classmethod
    def read(cls, path: Path) -> StoredModel:
        """Read a model file; raise `BadInput` if its content cannot predict."""
        with bad_input():
            model = load_model(path)
            if not hasattr(model, "predict"):
                raise BadInput(f"{str(path)!r} holds {a_type_of(model)}, which cannot predict")
            record = read_notes(path)
        return cls(path, model, record["notes"], record["versions"])

    @property
    def classifier(self) -> Any:
        """The classifier without its preparation."""
        if isinstance(self.model, Pipeline):
            return self.model[-1]
        return self.model

    @property
    def encoder(self) -> TableEncoder | None:
        """The table encoder of the model, which reads the text of CSV files; None without one."""
        if isinstance(self.model, Pipeline) and isinstance(self.model[0], TableEncoder):
            return self.model[0]
        return None

    @property
    def rule(self) -> str | None:
        """The rule of a rule file as text; None of a model file, whose rule `tailboost rule` prints."""
        return None

    @property
    def target(self) -> str | None:
        """The name of the target column; None if it is unknown."""
        if self.encoder is None or self.encoder.schema_.target is None:
            return self.notes.get("target")
        return self.encoder.schema_.target.name

    @property
    def group_columns(self) -> list[str]:
        """The columns of groups of the fit."""
        return list(self.notes.get("group") or [])

    @property
    def by_group(self) -> bool:
        """Whether the rule is group-aware."""
        return judged(self.classifier).by_group

    @property
    def columns_read(self) -> list[str]:
        """The columns of groups that answers need."""
        return self.group_columns if self.by_group else []

    def limits_of(self, limits: Sequence[Any]) -> list[Any]:
        """Return limits of the options in the terms of the classifier."""
        return list(limits)

    def read_ledger(self) -> Ledger:
        """Read the ledger of the file."""
        return read_ledger(self.path)

    def write_ledger(self, ledger: Ledger) -> None:
        """Replace the ledger of the file."""
        write_ledger(self.path, ledger)

    def digest(self) -> str:
        """Return a digest of the file without its ledger, which attempts change."""
        return model_digest(self.path)

    def selected_on_part(
        self, rows: Given, max_error: Stated, **options: Any
    ) -> tuple[RobustMixtureClassifier, Given, float]:
        """Select a rule of a model without one on a random part of rows, for a calibration on the others.

        Further options as in `tailboost.classifiers.calibrating.selected_on_part`.
        """
        return selected_on_part(self.classifier, rows, max_error, **options)

    def selected_on(self, data: Path) -> StoredModel:
        """Return the content for a rule selected on a file; a model file does not name this file."""
        return self

    def save(self, classifier: Model, path: Path, **notes: Any) -> None:
        """Store another classifier with the preparation and notes of this model, and further notes."""
        model = classifier
        if isinstance(self.model, Pipeline):
            *preparation, (name, _) = self.model.steps
            model = Pipeline([*preparation, (name, classifier)])
        with bad_input("--model: "):
            save_model(model, path, notes={**self.notes, **notes})

    def read_rows(self, data: Path, csv: CsvFormat, reading: Reading) -> NewRows:
        """Read a new file as the training table was read, with the features for the classifier.

        In a pipeline these are the input of its last step.
        """
        with bad_input():
            # An encoder reads the text of a CSV file by its schema. Another model gets numbers.
            read_file = datasets.read_frame if self.encoder is None else datasets.read_raw
            table = read_file(data, *csv)
        if not len(table):
            raise BadInput(f"{str(data)!r} has no rows to {reading.purpose}")
        needed = {
            "--target": [reading.target],
            "--group": reading.columns,
            "--cluster": [reading.cluster],
        }
        refuse_absent(needed, table, data)
        features = self.features_in(table, reading)
        if self.encoder is None:
            # Such a model takes no other columns. A model that was fitted on an array has no names.
            feature_names = list(getattr(self.model, "feature_names_in_", features))
            if {*feature_names} <= {*features}:
                features = features[feature_names]
        with bad_input(f"{data}: "):
            if isinstance(self.model, Pipeline) and len(self.model.steps) > 1:
                features = self.model[:-1].transform(features)
        return NewRows(table, features, data, reading.columns, reading.cluster)

    def with_clusters(self, rows: NewRows) -> NewRows:
        """Return the rows with their clusters as `with_known_clusters`; refuse persons with several rows.

        Raise ValueError if such persons have no column of clusters.
        """
        rows = self.with_known_clusters(rows)
        if rows.cluster_column is None:
            refuse_persons(rows.table, self._other_roles(rows), features=self._features)
        return rows

    def with_known_clusters(self, rows: NewRows) -> NewRows:
        """Return the rows with their clusters: of --cluster, otherwise of the fit if one has several rows."""
        name = self.notes.get("cluster")
        if rows.cluster_column is not None or name not in rows.table:
            return rows
        if rows.table[name].is_unique:
            return rows
        say_aside(f"Rows with one value of {name} stay together, as in the fit (--cluster).")
        return replace(rows, cluster_column=name)

    def warn_of_persons(self, rows: NewRows) -> None:
        """Warn of persons with several rows, which no column of clusters keeps together."""
        if rows.cluster_column is None:
            warn_of_persons(rows.table, self._other_roles(rows))

    def _other_roles(self, rows: NewRows) -> set[Any]:
        """Return the columns of groups and of scores, and the features that an option stated to be no ids.

        Another feature may be a column of persons, such as a ``patient_id`` that nobody dropped.
        """
        scores = judged(self.classifier).columns_of_scores
        return {*self.notes.get("no_ids", []), *rows.group_columns, *scores}

    @property
    def _features(self) -> list[Any]:
        """The columns of a file that the model reads; none of a model that was fitted on an array."""
        return list(getattr(self.encoder or self.model, "feature_names_in_", ()))

    def features_in(self, table: Any, reading: Reading) -> Any:
        """Return a table without columns of groups, clusters and ids, except the features of the fit."""
        no_features = {*reading.unused, *reading.columns, reading.cluster, *self.group_columns}
        no_features |= {reading.target, *self.notes.get("not_features", [])}
        no_features -= set(self._features)
        return table.drop(columns=[name for name in table if name in no_features])

    def features_of(self, training_rows: Path | None, csv: CsvFormat) -> Any:
        """Return the rows of --training-rows as the classifier reads them; None without a file."""
        if training_rows is None:
            return None
        return self.read_rows(training_rows, csv, Reading("compare with", fresh=False)).features

    def read_labelled(
        self, data: Path, csv: CsvFormat, target: str | None, reading: Reading
    ) -> NewRows:
        """Read a new file with its labels, from the column ``target`` or that of the fit."""
        name = target or self.target
        if name is None:
            raise BadInput(
                "--target: the model file does not name the target column; give its name"
            )
        rows = self.read_rows(data, csv, replace(reading, target=name))
        labels = rows.column(name, "--target")
        return replace(rows, y=known_labels(labels, self.classifier.classes_, name))

    @contextmanager
    def labelled_rows(
        self, data: Path, csv: CsvFormat, target: str | None, reading: Reading
    ) -> Iterator[NewRows]:
        """Yield the rows of a new file with their labels; errors of the block become `BadInput`.

        The warnings of the block are printed at its end.
        """
        with warnings_as_lines(), bad_input(f"{data}: "):
            yield self.read_labelled(data, csv, target, reading)

    def group_arguments(self, rows: NewRows) -> dict[str, Any]:
        """Return the keyword arguments of ``predict``: the groups if the rule is group-aware."""
        if not self.by_group:
            return {}
        self.refuse_unknown_groups(rows)
        return {"groups": rows.groups_by(self.columns_read)}

    def groups_known(self, name: str) -> list[str]:
        """Return the groups of a column with an answer of the rule; none if the rule reads no such column."""
        view = judged(self.classifier)
        if not view.reads(name):
            return []
        pairs = [group for group in view.groups if isinstance(group, tuple)]
        return [str(value) for column, value in pairs if column == name]

    def unknown_groups(self, rows: NewRows) -> dict[str, Array]:
        """Return the group of each row that the rule does not know, and "" for other rows, by column.

        A column without known groups is left out: the rule answers any of its groups.
        """
        if not self.columns_read:
            return {}
        return unknown_groups(judged(self.classifier), rows.groups_by(self.columns_read))

    def refuse_unknown_groups(self, rows: NewRows) -> None:
        """Raise `BadInput` if the rule has no answer to rows, because of their group."""
        for name, names in self.unknown_groups(rows).items():
            rows_by_group = rows_by_unknown_group(names)
            if rows_by_group:
                raise BadInput(
                    f"{str(rows.path)!r}: the rule does not know {name} {groups_listed(rows_by_group)}; "
                    f"it knows {listed(self.groups_known(name))}. Drop these rows: tailboost "
                    "monitor leaves them out by itself, and tailboost predict --default LABEL "
                    "answers them"
                )

    def warn_of_other_groups(self, rows: NewRows) -> None:
        """Warn of rows in groups that the certificate does not name, if the file has their columns."""
        named = judged(self.classifier).groups_named
        columns = {name: rows.table[name] for name in named if name in rows.table}
        warn_of_other_groups(named, columns)

    def answers(self, rows: NewRows) -> tuple[Any, Any]:
        """Return the answers of ``predict``, and which rows are deferred (None if none can be)."""
        groups = self.group_arguments(rows)
        features = rows.features
        deferred = None
        if judged(self.classifier).can_defer:
            # The models answer once for the labels and the deferred rows.
            features = judged(self.classifier).opened(features, groups.get("groups"))
            deferred = self.classifier.defers(features, **groups)
        return predicted_labels(self.classifier, features, **groups), deferred


class FileLedger(Ledger):
    """Ledger in a model file or rule file: read again for each attempt, and written before its test.

    Parameters
    ----------
    stored : StoredModel
        The content of the file.

    Raises
    ------
    BadInput
        If the file is read-only.
    """

    def __init__(self, stored: StoredModel) -> None:
        # For root, os.access allows all files.
        writable = stored.path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
        if not writable or not os.access(stored.path, os.W_OK):
            raise BadInput(
                f"{str(stored.path)!r} is read-only, and the attempt must be recorded in it: "
                "make it writable, or calibrate a copy and use this copy from now on"
            )
        self._stored = stored
        self._read()

    def _read(self) -> None:
        """Read the file."""
        ledger = self._stored.read_ledger()
        super().__init__(ledger.attempts, draws=ledger.draws)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Hold the file during a change, with the attempts recorded by other processes meanwhile."""
        with super()._opened(), held(self._stored.path, LOCK_SECONDS):
            self._read()
            before = self.attempts, self.draws
            yield
            if (self.attempts, self.draws) != before:
                self._stored.write_ledger(self)


def known_labels(column: Column, classes: Any, name: str) -> Any:
    """Return labels in the type of ``classes``; labels from a CSV file are text and may be numbers."""
    by_text = {str(label): label for label in classes.tolist()}
    texts = [str(value) for value in column.tolist()]
    unknown = sorted(set(texts) - set(by_text))
    if unknown:
        looks = alike([*unknown, *by_text])
        raise BadInput(
            f"target column {name!r} has labels that the model does not know: "
            f"{', '.join(map(repr, unknown[:5]))}; it knows "
            f"{', '.join(map(repr, list(by_text)[:5]))}. Name another column by --target, "
            f"write its labels in this one, or drop these rows{looks and f'. {looks}'}"
        )
    with warnings_as_lines():
        warn_alike(by_text, "labels")
    return np.array([by_text[text] for text in texts], dtype=classes.dtype)
