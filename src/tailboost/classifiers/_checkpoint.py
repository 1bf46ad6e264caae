"""One file per finished round: the member and its losses. The rules are pure, so replaying them resumes."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailboost._store import describe_params, digest, make_folder, read_sealed, write_sealed
from tailboost.game import Game, Response

if TYPE_CHECKING:
    from tailboost.classifiers._base import BaseBoostClassifier


# What may change from one fit to the next that continues it.
_FREE = frozenset(
    {
        "n_estimators",
        "n_jobs",
        "verbose",
        "checkpoint_dir",
        "warm_start",
        "max_time",
        "tol",
        "n_iter_no_change",
    }
)


def fixed_params(classifier: BaseBoostClassifier) -> dict[str, str]:
    """Return the parameters, as text, that must stay the same for a fit to be continued."""
    return describe_params(classifier, but=_FREE)


def keep(member: Any, folder: Any) -> None:
    """Have a member that can live in a file go there; a member that is there already looks whether it is."""
    if hasattr(member, "keep"):
        member.keep(folder)


@dataclass(frozen=True)
class Checkpoints:
    """The folder of a fit's rounds; does nothing without a folder.

    The files are pickles: open only folders that you wrote.
    """

    folder: Path | None
    same: str = ""

    @classmethod
    def open(cls, folder: Any, classifier: BaseBoostClassifier, data: str) -> Checkpoints:
        """Open (or make) the folder for a fit with these parameters and this data."""
        if folder is None:
            return cls(None)
        text = f"{data} {classifier._entropy} {fixed_params(classifier)}"
        return cls(make_folder(folder, "checkpoint_dir"), digest(text.encode()))

    def _file(self, t: int) -> Path:
        assert self.folder is not None
        return self.folder / f"round-{t:05d}.pkl"

    def save(self, game: Game[Any], newest: Response) -> None:
        """Write the newest round; a rename makes it whole or absent."""
        if self.folder is None:
            return
        content = pickle.dumps({"same": self.same, "response": newest, "round": game.trace.rounds[-1]})
        write_sealed(self._file(game.n_rounds), content, f"the checkpoint of round {game.n_rounds}")

    def replay(self, classifier: BaseBoostClassifier) -> None:
        """Bring the classifier's game to the last round on disk."""
        if self.folder is None:
            return
        game = classifier._game
        while game.n_rounds < classifier.n_estimators and (path := self._file(game.n_rounds + 1)).exists():
            try:
                kept = pickle.loads(read_sealed(path))
                same, response, played = kept["same"], kept["response"], kept["round"]
            except Exception as error:  # a damaged pickle raises almost anything
                raise ValueError(
                    f"checkpoint {str(path)!r} is damaged ({error}); delete it to resume before it"
                ) from error
            if same != self.same:
                raise ValueError(
                    f"checkpoint {str(path)!r} belongs to a fit with other data, parameters or random_state; "
                    "use another checkpoint_dir"
                )
            w = game.rule.weights(game.state)
            game.state = game.rule.update(game.state, game.units.losses(response.losses))
            classifier._take_in(response, game.state)
            game.trace.rounds.append(played)
            if game.trace.unit_weights is not None:
                game.trace.unit_weights.append(w)
