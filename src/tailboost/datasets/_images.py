"""Image data sets from a path, in their published formats: rows are height × width × channels, bytes."""

from __future__ import annotations

import gzip
import io
import pickle
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
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
_EMNIST = "https://www.nist.gov/itl/products-and-services/emnist-dataset"
_MEDMNIST = "https://medmnist.com"
_TINY = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
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
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or (data, target)
        data : uint8 ndarray of shape (n, height, width, channels), one channel for grey images
        target : int64 ndarray of shape (n,)
            Class numbers from 0.
        target_names : ndarray of str of shape (K,)
        subset : str

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
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or (data, target)
        As from `load_image_npz`.

    Raises
    ------
    ValueError
        Files that are missing or damaged.
    """
    part = {"train": "train", "test": "t10k"}[_check_subset("load_mnist", subset, ("train", "test"))]
    with _readable("load_mnist", Path(path), f"a folder with the idx files of {_MNIST}"):
        images, labels = _idx_pair(Path(path), f"{part}-")
    return _bunch(path, subset, images, labels, [str(k) for k in range(10)], return_X_y)


def load_emnist(
    path: str | Path, *, split: str = "balanced", subset: Subset = "train", return_X_y: bool = False
) -> Any:
    """Load EMNIST (28×28, grey, 10 to 62 classes) from its idx or Matlab files; letters stand upright.

    Parameters
    ----------
    path : path-like
        Folder with ``emnist-SPLIT-train-images-idx3-ubyte`` and its siblings, gzipped or not, or with
        ``emnist-SPLIT.mat``.
    split : {"balanced", "byclass", "bymerge", "digits", "letters", "mnist"}, default="balanced"
        Saito et al. 2024 use one of the unbalanced ones.
    subset : {"train", "test"}, default="train"
        Which images.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or (data, target)
        As from `load_image_npz`; labels start at 0 in every split, names are the characters.

    Raises
    ------
    ValueError
        Files that are missing or damaged.
    """
    _check_subset("load_emnist", subset, ("train", "test"))
    splits = ("balanced", "byclass", "bymerge", "digits", "letters", "mnist")
    if split not in splits:
        raise ValueError(f"load_emnist: split={split!r}; allowed are {', '.join(splits)}")
    path = Path(path)
    codes: NDArray[Any] = np.empty((0, 2), dtype=np.int64)
    with _readable("load_emnist", path, f"a folder with the idx or Matlab files of {_EMNIST}"):
        if (matlab := path / f"emnist-{split}.mat").is_file():
            from scipy.io import loadmat

            data = loadmat(matlab, simplify_cells=True)["dataset"]
            images, labels = data[subset]["images"].reshape(-1, 28, 28), data[subset]["labels"]
            codes = np.asarray(data["mapping"])
        else:
            images, labels = _idx_pair(path, f"emnist-{split}-{subset}-")
            if (mapping := path / f"emnist-{split}-mapping.txt").is_file():
                codes = np.array(
                    [line.split()[:2] for line in mapping.read_text().splitlines() if line.strip()]
                )
        # Columns: label, character code. Without it, the labels that occur.
        names = {int(k): chr(int(c)) for k, c in codes[:, :2]} or {int(k): str(k) for k in np.unique(labels)}
    classes = np.array(sorted(names))
    number = np.searchsorted(classes, labels)
    if not np.array_equal(classes[np.minimum(number, len(classes) - 1)], labels):
        raise ValueError(f"load_emnist: {str(path)!r} has labels that its mapping does not name")
    images = images.swapaxes(1, 2)  # published column by column
    return _bunch(path, subset, images, number, [names[k] for k in classes.tolist()], return_X_y)


def load_cifar10(path: str | Path, *, subset: Subset = "train", return_X_y: bool = False) -> Any:
    """Load CIFAR-10 (32×32, colour, ten classes) from its python or binary files.

    Parameters
    ----------
    path : path-like
        The unpacked folder, ``cifar-10-batches-py`` or ``cifar-10-batches-bin``, or one that holds it.
    subset : {"train", "test"}, default="train"
        50,000 or 10,000 images, in the published order.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or (data, target)
        As from `load_image_npz`.

    Raises
    ------
    ValueError
        Files that are missing or damaged. The python files are pickles: nothing but arrays, text and lists is
        taken from them.
    """
    _check_subset("load_cifar10", subset, ("train", "test"))
    batches = [f"data_batch_{i}" for i in range(1, 6)] if subset == "train" else ["test_batch"]
    with _readable(
        "load_cifar10", Path(path), f"the folder unpacked from cifar-10-python.tar.gz of {_CIFAR}"
    ):
        folder, binary = _cifar_folder(Path(path), "cifar-10-batches", batches[0])
        if binary:
            rows = np.concatenate([_records(folder / f"{name}.bin", 1) for name in batches])
            pixels, labels = rows[:, 1:], rows[:, 0]
            names = (folder / "batches.meta.txt").read_text().split()
        else:
            read = [_unpickled(folder / name) for name in batches]
            pixels = np.concatenate([batch["data"] for batch in read])
            labels = np.concatenate([batch["labels"] for batch in read])
            names = _unpickled(folder / "batches.meta")["label_names"]
        images = _upright(pixels)
    return _bunch(path, subset, images, labels, names, return_X_y)


def load_cifar100(
    path: str | Path, *, labels: str = "fine", subset: Subset = "train", return_X_y: bool = False
) -> Any:
    """Load CIFAR-100 (32×32, colour, 100 classes in 20 superclasses) from its python or binary files.

    Parameters
    ----------
    path : path-like
        The unpacked folder, ``cifar-100-python`` or ``cifar-100-binary``, or one that holds it.
    labels : {"fine", "coarse"}, default="fine"
        100 classes, or 20 superclasses.
    subset : {"train", "test"}, default="train"
        50,000 or 10,000 images, in the published order.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or (data, target)
        As from `load_image_npz`.

    Raises
    ------
    ValueError
        Files that are missing or damaged, see `load_cifar10`.
    """
    _check_subset("load_cifar100", subset, ("train", "test"))
    if labels not in ("fine", "coarse"):
        raise ValueError(f"load_cifar100: labels={labels!r}; allowed are fine, coarse")
    source = f"the folder unpacked from cifar-100-python.tar.gz of {_CIFAR}"
    with _readable("load_cifar100", Path(path), source):
        folder, binary = _cifar_folder(Path(path), "cifar-100", subset)
        if binary:
            rows = _records(folder / f"{subset}.bin", 2)
            pixels, y = rows[:, 2:], rows[:, 1 if labels == "fine" else 0]
            names = (folder / f"{labels}_label_names.txt").read_text().split()
        else:
            read = _unpickled(folder / subset)
            pixels, y = read["data"], np.asarray(read[f"{labels}_labels"])
            names = _unpickled(folder / "meta")[f"{labels}_label_names"]
        images = _upright(pixels)
    return _bunch(path, subset, images, y, names, return_X_y)


def load_tiny_imagenet(path: str | Path, *, subset: Subset = "train", return_X_y: bool = False) -> Any:
    """Load Tiny ImageNet (64×64, colour, 200 classes) from its folders of JPEG files; needs Pillow.

    Parameters
    ----------
    path : path-like
        The unpacked folder ``tiny-imagenet-200``, or one that holds it.
    subset : {"train", "validation"}, default="train"
        100,000 or 10,000 images; the labels of the test images are not public.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or (data, target)
        As from `load_image_npz`; classes in the order of ``wnids.txt``, images in the order of their names.

    Raises
    ------
    ValueError
        Files that are missing or damaged.
    ImportError
        No Pillow.
    """
    _check_subset("load_tiny_imagenet", subset, ("train", "validation"))
    path = Path(path)
    with _readable("load_tiny_imagenet", path, f"the folder unpacked from {_TINY}"):
        folder = path / "tiny-imagenet-200" if (path / "tiny-imagenet-200").is_dir() else path
        ids = (folder / "wnids.txt").read_text().split()
        words = dict(line.split("\t", 1) for line in (folder / "words.txt").read_text().splitlines() if line)
        if subset == "train":
            shown = [
                (f, k) for k, name in enumerate(ids) for f in _listed(folder / "train" / name / "images")
            ]
        else:
            number = {name: k for k, name in enumerate(ids)}
            lines = (folder / "val" / "val_annotations.txt").read_text().splitlines()
            fields = [line.split("\t") for line in lines if line]
            shown = [(folder / "val" / "images" / f, number[name]) for f, name, *_ in fields]
        images = _decoded([file for file, _ in shown], 64)
    names = [words.get(name, name) for name in ids]
    return _bunch(path, subset, images, np.array([k for _, k in shown]), names, return_X_y)


def load_celeba(
    path: str | Path,
    *,
    attribute: str = "Blond_Hair",
    subset: Subset = "train",
    size: int = 64,
    return_X_y: bool = False,
) -> Any:
    """Load CelebA (faces, 40 yes/no attributes) from its folder of JPEG files; needs Pillow.

    Parameters
    ----------
    path : path-like
        Folder with ``img_align_celeba/``, ``list_attr_celeba.txt`` and ``list_eval_partition.txt``.
    attribute : str, default="Blond_Hair"
        What to predict.
    subset : {"train", "validation", "test"}, default="train"
        162,770, 19,867 or 19,962 images: the official partition.
    size : int, default=64
        Pixels of a side: the middle square of the 218×178 images is cut out and scaled. All images at 64
        pixels are 2.5 GB.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or (data, target)
        As from `load_image_npz`, with ``groups["sex"]``, "male" or "female" (the attribute ``Male``).

    Raises
    ------
    ValueError
        Files that are missing or damaged, or no such attribute.
    ImportError
        No Pillow.
    """
    part = {"train": "0", "validation": "1", "test": "2"}[_check_subset("load_celeba", subset)]
    if size < 1:
        raise ValueError(f"load_celeba: size={size!r} must be at least 1 pixel")
    path = Path(path)
    with _readable(
        "load_celeba", path, f"a folder with img_align_celeba/ and the list_*.txt files of {_CELEBA}"
    ):
        lines = (path / "list_attr_celeba.txt").read_text().splitlines()
        known = lines[1].split()
        if attribute not in known:
            raise ValueError(f"there is no attribute {attribute!r}; attributes are {', '.join(known)}")
        partition = dict(line.split() for line in (path / "list_eval_partition.txt").read_text().splitlines())
        rows = [fields for line in lines[2:] if partition[(fields := line.split())[0]] == part]
        yes = np.array([[row[1 + known.index(name)] == "1" for name in (attribute, "Male")] for row in rows])
        images = _decoded([path / "img_align_celeba" / row[0] for row in rows], size)
    names = [f"not {attribute}", attribute]
    bunch = _bunch(path, subset, images, yes[:, 0].astype(np.int64), names, False)
    if return_X_y:
        return bunch.data, bunch.target
    bunch.groups = {"sex": np.where(yes[:, 1], "male", "female")}
    return bunch


# -- what the loaders share ------------------------------------------------------------------------------


def _check_subset(loader: str, subset: str, allowed: Sequence[str] = ("train", "validation", "test")) -> str:
    if subset not in allowed:
        raise ValueError(f"{loader}: subset={subset!r}; allowed are {', '.join(allowed)}")
    return subset


@contextmanager
def _readable(loader: str, path: Path, source: str) -> Iterator[None]:
    """Turn whatever a missing or damaged file raises into one sentence that says what belongs there."""
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


def _cifar_folder(path: Path, stem: str, file: str) -> tuple[Path, bool]:
    """Return the folder that holds the batches, and whether they are the binary ones."""
    endings = ("-py", "-python", "-bin", "-binary")
    for folder in (path, *(path / f"{stem}{ending}" for ending in endings)):
        for name in (file, f"{file}.bin"):
            if (folder / name).is_file():
                return folder, name.endswith(".bin")
    raise FileNotFoundError(2, "no such file", str(path / file))


def _records(path: Path, n_labels: int) -> Bytes:
    return np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, n_labels + 3072)


def _upright(pixels: NDArray[Any]) -> Bytes:
    """Turn rows of 1024 red, 1024 green and 1024 blue values into images."""
    return np.asarray(pixels, dtype=np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


class _ArraysOnly(pickle.Unpickler):
    """Reads arrays, text, numbers and containers: a pickle can name any function, only these are called."""

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


def _listed(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise FileNotFoundError(2, "no such folder", str(folder))
    return sorted(folder.iterdir())


def _decoded(files: Sequence[Path], size: int) -> Bytes:
    """Decode images, the middle square of each, scaled to ``size`` pixels where it has another number."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError("decoding JPEG files needs Pillow: pip install pillow") from error
    images = np.empty((len(files), size, size, 3), dtype=np.uint8)
    fit: Callable[..., Any] = ImageOps.fit
    for image, file in zip(images, files, strict=True):
        with Image.open(file) as picture:
            image[:] = np.asarray(fit(picture.convert("RGB"), (size, size)))
    return images
