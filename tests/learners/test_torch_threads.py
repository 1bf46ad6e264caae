"""Small nets use one thread of the processor; PyTorch's number of threads is restored."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tailboost.learners.torch import TorchClassifier


class Seen(torch.nn.Module):
    """Net that records the number of threads of each forward pass."""

    threads = []  # noqa: RUF012

    def __init__(self, shape, n_classes, width=4):
        super().__init__()
        self.hidden = torch.nn.Linear(int(np.prod(shape)), width)
        self.out = torch.nn.Linear(width, n_classes)

    def forward(self, x):
        Seen.threads.append(torch.get_num_threads())
        return self.out(self.hidden(x.flatten(1)).relu())


def wide(shape, n_classes):
    return Seen(shape, n_classes, width=100_000)


@pytest.fixture
def two():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    Seen.threads.clear()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("module", "shape", "threads"), [(Seen, (3,), {1}), (wide, (3,), {2}), (Seen, (3, 4, 4), {2})]
)
def test_threads_of_a_fit_and_of_predictions(two, module, shape, threads):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, *shape)).astype(np.float32), np.arange(100) % 2
    clf = TorchClassifier(module, steps=3, device="cpu", random_state=0).fit(X, y)
    clf.predict(X)
    assert set(Seen.threads[1:]) == threads  # one forward pass before training checks the shapes
    assert torch.get_num_threads() == 2
