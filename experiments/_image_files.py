"""Image data sets from a path, in their published formats: rows are height × width × channels, bytes.

All loaders return a Bunch as `load_image_npz` does, or with ``return_X_y`` its data and target, and raise
ValueError if files are missing or damaged.
"""

from __future__ import annotations

import gzip
import io
import pickle
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

Bytes = NDArray[np.uint8]
Subset = Literal["train", "validation", "test"]

_CIFAR = "https://www.cs.toronto.edu/~kriz/cifar.html"
_MNIST = "https://yann.lecun.com/exdb/mnist (Fashion-MNIST: https://github.com/zalandoresearch/fashion-mnist)"
_MEDMNIST = "https://medmnist.com"
_EMNIST = "https://www.nist.gov/itl/products-and-services/emnist-dataset"
_TINY = "https://cs231n.stanford.edu/tiny-imagenet-200.zip"
_CELEBA = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"


def load_image_npz(path: str | Path, *, subset: Subset = "train", return_X_y: bool = False) -> Any:
    """Load images and labels from an ``.npz`` file, named as MedMNIST's or as Keras' copies.

    Parameters
    ----------
    path : path-like
        A file with the arrays ``train_images, train_labels`` (MedMNIST, such as ``tissuemnist.npz``) or
        ``x_train, y_train`` (such as ``mnist.npz``), and likewise ``val`` and ``test``.
    subset : {"train", "validation", "test"}, default="train"
        Which arrays to read.

    Returns
    -------
    Bunch or (data, target)
        ``data``, uint8 of shape (n, height, width, channels), one channel for grey images; ``target``, class
        numbers from 0 of shape (n,); ``target_names`` of shape (K,); and ``subset``.

    Raises
    ------
    ValueError
        No such file or arrays, damaged ones, or more than one label per image.
    """
    _check_subset("load_image_npz", subset)
    path = Path(path)
    short = {"validation": "val"}.get(subset, subset)
    with (
        _readable("load_image_npz", path, f"an .npz file, for instance from {_MEDMNIST}"),
        np.load(path) as file,
    ):
        for names in ((f"{short}_images", f"{short}_labels"), (f"x_{short}", f"y_{short}")):
            if all(name in file for name in names):
                images, labels = (file[name] for name in names)
                break
        else:
            raise ValueError(f"it has no arrays {short}_images, {short}_labels nor x_{short}, y_{short}")
        every = [file[name] for name in file if name.endswith("_labels") or name.startswith("y_")]
        if labels.ndim > 1 and labels.shape[1] > 1:
            raise ValueError(f"{labels.shape[1]} labels per image; one is needed")
        classes = max(int(y.max(initial=0)) for y in every) + 1
    return _bunch(path, subset, images, labels.ravel(), [str(k) for k in range(classes)], return_X_y)


def load_mnist(path: str | Path, *, subset: Subset = "train", return_X_y: bool = False) -> Any:
    """Load MNIST or Fashion-MNIST (28×28, grey, ten classes) from its four idx files.

    Parameters
    ----------
    path : path-like
        Folder with ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same of ``t10k``, gzipped
        or not.
    subset : {"train", "test"}, default="train"
        60,000 or 10,000 images.
    """
    part = {"train": "train", "test": "t10k"}[_check_subset("load_mnist", subset, ("train", "test"))]
    with _readable("load_mnist", Path(path), f"a folder with the idx files of {_MNIST}"):
        images, labels = _idx_pair(Path(path), f"{part}-")
    return _bunch(path, subset, images, labels, [str(k) for k in range(10)], return_X_y)


def load_cifar10(path: str | Path, *, subset: Subset = "train", return_X_y: bool = False) -> Any:
    """Load CIFAR-10 (32×32, colour, ten classes) from its python or binary files.

    Parameters
    ----------
    path : path-like
        The unpacked folder, ``cifar-10-batches-py`` or ``cifar-10-batches-bin``, or its parent folder.
    subset : {"train", "test"}, default="train"
        50,000 or 10,000 images, in the published order.

    Raises
    ------
    ValueError
        If files are missing or damaged. The python files are pickles: only arrays, text and lists are
        read.
    """
    _check_subset("load_cifar10", subset, ("train", "test"))
    batches = [f"data_batch_{i}" for i in range(1, 6)] if subset == "train" else ["test_batch"]
    with _readable(
        "load_cifar10", Path(path), f"the folder unpacked from cifar-10-python.tar.gz of {_CIFAR}"
    ):
        folder, binary = _cifar_folder(Path(path), batches[0], "cifar-10-batches-py", "cifar-10-batches-bin")
        if binary:
            rows = np.concatenate([_records(folder / f"{name}.bin") for name in batches])
            pixels, labels = rows[:, 1:], rows[:, 0]
            names = (folder / "batches.meta.txt").read_text().split()
        else:
            read = [_unpickled(folder / name) for name in batches]
            pixels = np.concatenate([batch["data"] for batch in read])
            labels = np.concatenate([batch["labels"] for batch in read])
            names = _unpickled(folder / "batches.meta")["label_names"]
        images = _upright(pixels)
    return _bunch(path, subset, images, labels, names, return_X_y)


def load_cifar100(path: str | Path, *, subset: Subset = "train", return_X_y: bool = False) -> Any:
    """Load CIFAR-100 (32×32, colour, a hundred fine classes) from its python or binary files.

    Parameters
    ----------
    path : path-like
        The unpacked folder, ``cifar-100-python`` or ``cifar-100-binary``, or its parent folder.
    subset : {"train", "test"}, default="train"
        50,000 or 10,000 images, in the published order.
    """
    _check_subset("load_cifar100", subset, ("train", "test"))
    with _readable(
        "load_cifar100", Path(path), f"the folder unpacked from cifar-100-python.tar.gz of {_CIFAR}"
    ):
        folder, binary = _cifar_folder(Path(path), subset, "cifar-100-python", "cifar-100-binary")
        if binary:
            rows = _records(folder / f"{subset}.bin", labels=2)  # coarse, then fine
            pixels, labels = rows[:, 2:], rows[:, 1]
            names = (folder / "fine_label_names.txt").read_text().split()
        else:
            batch = _unpickled(folder / subset)
            pixels, labels = batch["data"], np.asarray(batch["fine_labels"])
            names = _unpickled(folder / "meta")["fine_label_names"]
        images = _upright(pixels)
    return _bunch(path, subset, images, labels, names, return_X_y)


def load_emnist(path: str | Path, *, subset: Subset = "train", return_X_y: bool = False) -> Any:
    """Load EMNIST by class (28×28, grey, 62 digits and letters of unequal frequency) from its idx files.

    Parameters
    ----------
    path : path-like
        Folder with ``emnist-byclass-train-images-idx3-ubyte``, ``…-labels-idx1-ubyte`` and the same of
        ``test``, gzipped or not.
    subset : {"train", "test"}, default="train"
        697,932 or 116,323 images.

    Returns
    -------
    Bunch or (data, target)
        As from `load_image_npz`; the files hold images lying on their side, these are upright.
    """
    part = _check_subset("load_emnist", subset, ("train", "test"))
    with _readable("load_emnist", Path(path), f"a folder with the idx files of {_EMNIST}"):
        images, labels = _idx_pair(Path(path), f"emnist-byclass-{part}-")
    names = [*map(str, range(10)), *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *"abcdefghijklmnopqrstuvwxyz"]
    return _bunch(path, subset, images.transpose(0, 2, 1), labels, names, return_X_y)


def load_tiny_imagenet(path: str | Path, *, subset: Subset = "train", return_X_y: bool = False) -> Any:
    """Load Tiny ImageNet (64×64, colour, 200 classes) from its unpacked folder; needs Pillow.

    Parameters
    ----------
    path : path-like
        ``tiny-imagenet-200``, or its parent folder.
    subset : {"train", "test"}, default="train"
        100,000 or 10,000 images; test images are the published validation rows, because the published
        test labels are secret.
    """
    _check_subset("load_tiny_imagenet", subset, ("train", "test"))
    with _readable("load_tiny_imagenet", Path(path), f"the folder unpacked from {_TINY}"):
        inner = Path(path) / "tiny-imagenet-200"
        folder = inner if inner.is_dir() else Path(path)
        names = (folder / "wnids.txt").read_text().split()
        number = {name: k for k, name in enumerate(names)}
        if subset == "train":
            found = [
                (file, number[name])
                for name in names
                for file in sorted((folder / "train" / name).rglob("*.JPEG"))
            ]
        else:
            lines = (folder / "val" / "val_annotations.txt").read_text().splitlines()
            found = [
                (folder / "val" / "images" / line.split("\t")[0], number[line.split("\t")[1]])
                for line in lines
            ]
        if not found:
            raise ValueError("it holds no images")
        images = np.stack([_picture(file) for file, _ in found])
        labels = np.array([k for _, k in found])
    return _bunch(path, subset, images, labels, names, return_X_y)


def load_celeba(
    path: str | Path, *, subset: Subset = "train", size: int = 64, return_X_y: bool = False
) -> Any:
    """Load CelebA with hair colour as the label, from its aligned images; needs Pillow.

    Parameters
    ----------
    path : path-like
        Folder with ``img_align_celeba``, ``list_attr_celeba.txt`` and ``list_eval_partition.txt``.
    subset : {"train", "validation", "test"}, default="train"
        The published split.
    size : int, default=64
        Height and width of the scaled middle square of an image.

    Returns
    -------
    Bunch or (data, target)
        As from `load_image_npz`, ``target`` 1 for blond hair; the Bunch has ``groups``, shape (n,),
        1 for men: (class, group) are the four cells of Sagawa et al. 2020.
    """
    _check_subset("load_celeba", subset)
    part = str(("train", "validation", "test").index(subset))
    folder = Path(path)
    with _readable("load_celeba", folder, f"a folder with the aligned images and lists of {_CELEBA}"):
        lines = (folder / "list_attr_celeba.txt").read_text().splitlines()
        blond, male = (lines[1].split().index(name) + 1 for name in ("Blond_Hair", "Male"))
        rows = (line.split() for line in lines[2:])
        known = {row[0]: (int(row[blond] == "1"), int(row[male] == "1")) for row in rows if row}
        parts = (line.split() for line in (folder / "list_eval_partition.txt").read_text().splitlines())
        files = [row[0] for row in parts if row and row[1] == part]
        images = np.stack([_picture(folder / "img_align_celeba" / file, size) for file in files])
        labels, groups = np.array([known[file] for file in files]).T
    bunch = _bunch(path, subset, images, labels, ["other", "blond"], False)
    bunch.groups = groups
    return (bunch.data, bunch.target) if return_X_y else bunch


# -- common parts of loaders ---------------------------------------------------------------------------


def _check_subset(loader: str, subset: str, allowed: Sequence[str] = ("train", "validation", "test")) -> str:
    if subset not in allowed:
        raise ValueError(f"{loader}: subset={subset!r}; allowed are {', '.join(allowed)}")
    return subset


@contextmanager
def _readable(loader: str, path: Path, source: str) -> Iterator[None]:
    """Turn errors of a missing or damaged file into one sentence with the expected file."""
    try:
        yield
    except (OSError, EOFError, KeyError, IndexError, TypeError, ValueError, NotImplementedError,
            pickle.UnpicklingError, zipfile.BadZipFile, zlib.error) as error:  # fmt: skip
        if isinstance(error, FileNotFoundError):
            what = f"there is no {str(error.filename)!r}"
        else:
            what = f"{type(error).__name__}: {error}"
        raise ValueError(f"{loader} cannot read path={str(path)!r} ({what}); it must be {source}") from error


def _bunch(
    path: str | Path,
    subset: str,
    images: NDArray[Any],
    labels: NDArray[Any],
    names: Sequence[str],
    return_X_y: bool,
) -> Any:
    images = images[..., None] if images.ndim == 3 else images
    if images.ndim != 4 or images.dtype != np.uint8:
        raise ValueError(f"{str(path)!r} must hold bytes of shape (n, height, width[, channels]), "
                         f"found {images.dtype} of shape {images.shape}")  # fmt: skip
    if len(images) != len(labels) or not len(labels):
        raise ValueError(f"{str(path)!r} is damaged: {len(images)} images, {len(labels)} labels")
    if labels.min() < 0 or labels.max() >= len(names):
        raise ValueError(
            f"{str(path)!r} is damaged: labels run from {labels.min()} to {labels.max()}, "
            f"but there are {len(names)} classes"
        )
    images, target = np.ascontiguousarray(images), np.asarray(labels, dtype=np.int64)
    if return_X_y:
        return images, target
    return Bunch(data=images, target=target, target_names=np.asarray(names, dtype=str), subset=subset)


def _either(path: Path) -> Path:
    """Return the file, or its gzipped twin."""
    zipped = path.with_name(f"{path.name}.gz")
    return zipped if zipped.is_file() else path


def _read_idx(path: Path) -> Bytes:
    path = _either(path)
    raw = path.read_bytes()
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise ValueError(f"{path.name} is no idx file of bytes")
    shape = np.frombuffer(raw, ">u4", raw[3], offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def _idx_pair(folder: Path, prefix: str) -> tuple[Bytes, Bytes]:
    return _read_idx(folder / f"{prefix}images-idx3-ubyte"), _read_idx(folder / f"{prefix}labels-idx1-ubyte")


def _cifar_folder(path: Path, file: str, *folders: str) -> tuple[Path, bool]:
    """Return the folder of the batches, and whether they are binary."""
    for folder in (path, *(path / name for name in folders)):
        for name in (file, f"{file}.bin"):
            if (folder / name).is_file():
                return folder, name.endswith(".bin")
    raise FileNotFoundError(2, "no such file", str(path / file))


def _records(path: Path, labels: int = 1) -> Bytes:
    return np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, labels + 3072)


def _picture(file: Path, size: int | None = None) -> Bytes:
    """Return an image's pixels in colour; with a size, of the scaled middle square."""
    from PIL import Image, ImageOps

    with Image.open(file) as image:
        colour = image.convert("RGB")
    return np.asarray(colour if size is None else ImageOps.fit(colour, (size, size)), dtype=np.uint8)


def _upright(pixels: NDArray[Any]) -> Bytes:
    """Turn rows of 1024 red, 1024 green and 1024 blue values into images."""
    return np.asarray(pixels, dtype=np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


class _ArraysOnly(pickle.Unpickler):
    """Unpickle only arrays, text, numbers and containers: a pickle can name any function to call."""

    _known = frozenset(
        [(f"numpy{core}.multiarray", "_reconstruct") for core in (".core", "._core")]
        + [("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")]
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR file needs")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _unpickled(path: Path) -> dict[str, Any]:
    content = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    if not isinstance(content, dict):
        raise ValueError(f"{path.name} is no CIFAR batch")
    return {k.decode() if isinstance(k, bytes) else k: v for k, v in content.items()}
