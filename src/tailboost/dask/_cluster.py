"""The rows of one fit on the workers of a cluster: tasks go there, and again where a worker is lost."""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any, Self

import dask
import distributed
from distributed.comm.addressing import get_address_host
from distributed.utils import get_ip
from xgboost.core import XGBoostError
from xgboost.tracker import RabitTracker

from tailboost.dask import _worker
from tailboost.dask._worker import Partition

# Seconds between two looks at which workers are there.
POLL = 0.5
# Seconds after a failed task in which a worker may turn out to be lost.
NOTICE = 10.0
# Seconds to wait for a worker where none is left.
PATIENCE = 60.0
# Bytes of arguments from which on they are laid out on the workers before the tasks are.
LARGE = 2**20


class ClusterError(RuntimeError):
    """The cluster cannot do what a fit needs; a fit with a ``checkpoint_dir`` can be continued."""


class WorkerLostWarning(UserWarning):
    """A worker was lost during a fit, and what it held is read again by others."""


class _Lost(Exception):
    """Some workers are not there any more."""


def client_of(client: Any) -> Any:
    """Return the client, or the default one.

    Raises
    ------
    ValueError
        If there is none; the message says how to make one.
    """
    if client is not None:
        return client
    try:
        return distributed.default_client()
    except ValueError:
        raise ValueError(
            "there is no Dask client: make one, as in `from dask.distributed import Client; client = "
            "Client(n_workers=2, threads_per_worker=1)` for this machine or Client('tcp://scheduler:8786') "
            "for a cluster, or pass client="
        ) from None


@contextmanager
def local_cluster(n_workers: int | None = None, address: str | None = None) -> Iterator[Any]:
    """Yield a client: of processes on this machine with one thread each, or of a scheduler that runs.

    Parameters
    ----------
    n_workers : int, optional
        Processes; as many as there are cores by default.
    address : str, optional
        Of a scheduler, such as ``tcp://scheduler:8786``, which is used instead.

    Yields
    ------
    distributed.Client
        It is closed at the end, and the processes with it.
    """
    if address is not None:
        with distributed.Client(address) as client:
            yield client
        return
    options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


class Rows:
    """The partitions of a fit, spread over the workers.

    A context manager: leaving it makes the workers forget the rows, and stops what they still do for them.

    Parameters
    ----------
    client : distributed.Client
    partitions : list of tuples
        Delayed (X, y, sample_weight, groups).
    kept : path or URL, optional
        Where the models of the fit are kept, for messages.
    """

    def __init__(self, client: Any, partitions: list[tuple[Any, ...]], kept: Any = None) -> None:
        self.client, self.partitions, self.kept = client, partitions, kept
        self.fit = uuid.uuid4().hex
        self.addresses: list[str] = []
        self.losses = 0
        self.received = 0
        self._journal: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._found: list[Partition] = []
        self._holds: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(Exception):  # the cluster may be gone
            self.client.run(_worker.release, self.fit, workers=self._present(), on_error="ignore")

    # -- tasks -----------------------------------------------------------------------------------------

    def read(self) -> list[Partition]:
        """Have the partitions read, each by one worker, and return what they say of themselves."""
        while True:
            try:
                self._found = self._read()
                return self._found
            except _Lost as lost:
                self._warn(lost)

    def call(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Run a function of `tailboost.dask._worker` on every worker that has rows, and return the results.

        Where a worker is lost, all rows are read again by those that are left, what was called before is
        called again, and then the function. So what is called must be kept by `keep`.
        """
        while True:
            try:
                return self._call(function, args)
            except _Lost as lost:
                self._warn(lost)
                self._read_again()

    def keep(self, function: Callable[..., Any], *args: Any) -> None:
        """Note a call that workers must repeat when rows are read again."""
        self._journal.append((function, args))

    def _read_again(self) -> None:
        while True:
            try:
                self._found = self._read()
                for function, args in self._journal:
                    self._call(function, args)
                return
            except _Lost as lost:
                self._warn(lost)

    def _warn(self, lost: _Lost) -> None:
        self.losses += 1
        warnings.warn(
            f"{lost}; what was being done is repeated by the workers that are left",
            WorkerLostWarning,
            stacklevel=4,
        )

    def _read(self) -> list[Partition]:
        with suppress(Exception):
            self.client.run(_worker.release, self.fit, workers=self._present(), on_error="ignore")
        there = self._wait_for_workers()
        n_blocks = len(self.partitions)
        used = there[: min(len(there), n_blocks)]
        self.addresses = used
        for address in set(used) - set(self._holds):
            self._holds[address] = self._submit(_worker.hold, address)
        futures, place = [], dict.fromkeys(used, 0)
        for j, (X, y, weight, groups) in enumerate(self.partitions):
            address = used[j * len(used) // n_blocks]
            task = dask.delayed(_worker.read, pure=False)(self.fit, j, X, y, weight, groups, f"partition {j}")
            # By itself Dask would make all partitions first, and hold them, and then have them read.
            options = {"workers": [address], "allow_other_workers": False, "retries": 0}
            place[address] += 1
            futures.append(self.client.compute(task, priority=-place[address], **options))
        found: list[Partition] = self._results(futures)
        rows = dict.fromkeys(used, 0)
        for j, partition in enumerate(found):
            rows[used[j * len(used) // n_blocks]] += partition.n_rows
        self.addresses = [address for address in used if rows[address]]
        return found

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
        if function is not _worker.ask:
            return self._run(function, [args] * len(self.addresses))
        if not args[-1].fits:
            return self._run(function, self._asked(args, {}))
        # Two fits that share workers of one thread would wait for each other for ever.
        with self._alone(), self._tracker() as rabit:
            return self._run(function, self._asked(args, rabit))

    def _asked(self, args: tuple[Any, ...], rabit: dict[str, Any]) -> list[tuple[Any, ...]]:
        table, n_classes, question = args
        return [(table, question, n_classes, j == 0, rabit) for j in range(len(self.addresses))]

    def _run(self, function: Callable[..., Any], args: list[tuple[Any, ...]]) -> list[Any]:
        futures = []
        for address, own in zip(self.addresses, args, strict=True):
            futures.append(self._submit(function, address, *(self._laid_out(a, address) for a in own)))
        return self._results(futures)

    def _submit(self, function: Callable[..., Any], address: str, *args: Any) -> Any:
        return self.client.submit(
            function,
            self.fit,
            *args,
            key=f"tailboost-{function.__name__}-{uuid.uuid4().hex}",
            workers=[address],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )

    def _laid_out(self, value: Any, address: str) -> Any:
        if getattr(value, "nbytes", 0) < LARGE:
            return value
        return self.client.scatter(value, workers=[address], hash=False)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other fit on the cluster ask at the same time."""
        lock = distributed.Lock("tailboost", scheduler_rpc=self.client.scheduler, loop=self.client.loop)
        lock.acquire()
        try:
            yield
        finally:
            if self.client.status == "running":  # else it would wait for a scheduler that is lost
                lock.release()

    @contextmanager
    def _tracker(self) -> Iterator[dict[str, Any]]:
        """Start what the workers find each other by, reachable from where the scheduler is."""
        address = self.client.scheduler.address
        host = "127.0.0.1" if address.startswith("inproc") else get_address_host(address)
        own = "127.0.0.1" if host.startswith("127.") else get_ip(host)
        tracker = RabitTracker(n_workers=len(self.addresses), host_ip=own, sortby="task")
        tracker.start()
        try:
            yield tracker.worker_args()
        finally:
            with suppress(XGBoostError):
                tracker.free()

    # -- waiting ---------------------------------------------------------------------------------------

    def _results(self, futures: list[Any]) -> list[Any]:
        try:
            self._wait(futures)
            results: list[Any] = self.client.gather(futures)
            return results
        except (OSError, TimeoutError, CancelledError) as error:
            raise self._gone() from error
        finally:
            with suppress(Exception):
                self.client.cancel(futures, force=True)

    def _wait(self, futures: list[Any]) -> None:
        pending, deadline = set(futures), None
        failure: BaseException | None = None
        while pending or failure is not None:
            with suppress(TimeoutError):
                pending = set(distributed.wait(pending, timeout=POLL, return_when="FIRST_COMPLETED").not_done)
            states = {future.status for future in futures}
            if states & {"cancelled", "lost"}:
                raise self._gone()
            if lost := sorted(set(self.addresses) - set(self._present())):
                raise _Lost(f"worker {', '.join(lost)} was lost")
            for future in futures:
                if failure is None and future.status == "error":
                    failure = future.exception()
                    deadline = time.monotonic() + (NOTICE if isinstance(failure, XGBoostError) else 0.0)
            if failure is not None and deadline is not None and time.monotonic() >= deadline:
                raise failure
            if failure is not None:
                time.sleep(POLL / 5)

    def _present(self) -> list[str]:
        if self.client.status != "running":
            raise self._gone()
        try:
            # Not by scheduler_info: the client's own updates, which know no workers, may come between.
            return sorted(self.client.sync(self.client.scheduler.identity)["workers"])
        except OSError as error:
            raise self._gone() from error

    def _wait_for_workers(self) -> list[str]:
        deadline = time.monotonic() + PATIENCE
        while not (there := self._present()):
            if time.monotonic() > deadline:
                raise ClusterError(f"the cluster has no workers, and none came in {PATIENCE:g} s")
            time.sleep(POLL)
        return there

    def _gone(self) -> ClusterError:
        again = (
            "; with a checkpoint_dir the models that were finished would not have to be fitted again"
            if self.kept is None
            else f" and checkpoint_dir={str(self.kept)!r}, where the models that were finished are kept"
        )
        return ClusterError(
            "the Dask scheduler was lost or restarted, and the rows with it: fit again with a new client"
            f"{again}"
        )
