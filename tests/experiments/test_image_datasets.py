"""Image loaders on files made in the published formats: pixels, labels, names, and clear errors."""

import gzip
import pickle
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from experiments import _image_files as image_files

pytestmark = pytest.mark.experiments

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of test data is not here")


def pictures(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def labels(n, classes, seed=0):
    return np.random.default_rng(seed).integers(0, classes, n)


def as_rows(images):
    """Red, green, then blue pixels, row by row: how CIFAR keeps an image."""
    return np.array([[image[:, :, c].ravel() for c in range(3)] for image in images]).reshape(len(images), -1)


def write_idx(path, array, zipped=False):
    raw = bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape)
    raw += array.astype(np.uint8).tobytes()
    if zipped:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(raw))
    else:
        path.write_bytes(raw)


def dump(path, content):
    # The published files were written by Python 2: protocol 2, bytes for text.
    path.write_bytes(pickle.dumps(content, protocol=2))


# --- CIFAR -------------------------------------------------------------------------------------------------

CLASSES = ["airplane", "automobile", "bird"]


def cifar10_python(folder):
    folder.mkdir()
    dump(folder / "batches.meta", {b"label_names": [c.encode() for c in CLASSES]})
    for i, name in enumerate([f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]):
        images, y = pictures(4, 32, 32, 3, seed=i), labels(4, 3, i)
        dump(folder / name, {b"data": as_rows(images), b"labels": y.tolist(), b"filenames": [b"x"] * 4})


def cifar10_binary(folder):
    folder.mkdir()
    (folder / "batches.meta.txt").write_text("\n".join(CLASSES) + "\n\n")
    for i, name in enumerate([f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]):
        images, y = pictures(4, 32, 32, 3, seed=i), labels(4, 3, i).astype(np.uint8)
        (folder / f"{name}.bin").write_bytes(np.column_stack([y, as_rows(images)]).tobytes())


@pytest.mark.parametrize("binary", [False, True])
def test_cifar100(tmp_path, binary):
    """Fine labels, whatever the coarse ones are."""
    images, fine = pictures(5, 32, 32, 3), np.array([1, 0, 2, 2, 1])
    folder = tmp_path / ("cifar-100-binary" if binary else "cifar-100-python")
    folder.mkdir()
    for part in ("train", "test"):
        if binary:
            rows = np.column_stack([np.zeros(5, np.uint8), fine.astype(np.uint8), as_rows(images)])
            (folder / f"{part}.bin").write_bytes(rows.astype(np.uint8).tobytes())
        else:
            batch = {b"data": as_rows(images), b"fine_labels": fine.tolist(), b"coarse_labels": [0] * 5}
            dump(folder / part, batch)
    (folder / "fine_label_names.txt").write_text("\n".join(CLASSES))
    dump(folder / "meta", {b"fine_label_names": [c.encode() for c in CLASSES]})
    read = image_files.load_cifar100(tmp_path, subset="test")
    np.testing.assert_array_equal(read.data, images)
    assert (read.target.tolist(), read.target_names.tolist()) == (fine.tolist(), CLASSES)


def test_emnist_is_upright(tmp_path):
    images, y = pictures(6, 28, 28), labels(6, 62)
    write_idx(tmp_path / "emnist-byclass-test-images-idx3-ubyte", images.transpose(0, 2, 1), zipped=True)
    write_idx(tmp_path / "emnist-byclass-test-labels-idx1-ubyte", y, zipped=True)
    X, target = image_files.load_emnist(tmp_path, subset="test", return_X_y=True)
    np.testing.assert_array_equal(X[..., 0], images)
    assert target.tolist() == y.tolist()


def write_tiny_imagenet(folder, names, shape=(64, 64, 3), n=4):
    """JPEG files of one colour each, in the published folders; return the colours by class."""
    image = pytest.importorskip("PIL.Image")
    colours = {name: 40 * k + 30 for k, name in enumerate(names)}
    (folder / "val" / "images").mkdir(parents=True)
    (folder / "wnids.txt").write_text("\n".join(names))
    told = []
    for name, colour in colours.items():
        of_class = folder / "train" / name / "images"
        of_class.mkdir(parents=True)
        for i in range(n):
            pixels = np.full(shape, colour, np.uint8)
            image.fromarray(pixels).save(of_class / f"{name}_{i}.JPEG")
            image.fromarray(pixels[..., 0]).save(folder / "val" / "images" / f"{name}_{i}.JPEG")
            told.append(f"{name}_{i}.JPEG\t{name}\t0\t0\t62\t62")
    (folder / "val" / "val_annotations.txt").write_text("\n".join(told) + "\n")
    return colours


@pytest.mark.parametrize("subset", ["train", "test"])
def test_tiny_imagenet(tmp_path, subset):
    names = ["n02", "n01", "n03"]
    colours = write_tiny_imagenet(tmp_path / "tiny-imagenet-200", names)
    read = image_files.load_tiny_imagenet(tmp_path, subset=subset)
    assert read.data.shape == (12, 64, 64, 3)
    assert read.target_names.tolist() == names
    shown = [abs(int(x.mean()) - colours[names[k]]) for x, k in zip(read.data, read.target, strict=True)]
    assert max(shown) <= 2  # JPEG


def write_celeba(folder, n=30):
    """Images with the hair colour as brightness, in three parts; return hair, sex and part of each."""
    image = pytest.importorskip("PIL.Image")
    (folder / "img_align_celeba").mkdir(parents=True)
    rng = np.random.default_rng(0)
    blond, male, part = rng.integers(0, 2, n), rng.integers(0, 2, n), np.arange(n) % 3
    lines, parts = [f"{n}", "Bald Blond_Hair Male"], []
    for i in range(n):
        file = f"{i + 1:06d}.jpg"
        pixels = np.full((218, 178, 3), 60 + 120 * blond[i], np.uint8)
        image.fromarray(pixels).save(folder / "img_align_celeba" / file)
        lines.append(f"{file}  -1 {2 * blond[i] - 1:2d} {2 * male[i] - 1:2d}")
        parts.append(f"{file} {part[i]}")
    (folder / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    (folder / "list_eval_partition.txt").write_text("\n".join(parts) + "\n")
    return blond, male, part


@pytest.mark.parametrize("number", range(3))
def test_celeba(tmp_path, number):
    blond, male, part = write_celeba(tmp_path)
    read = image_files.load_celeba(tmp_path, subset=("train", "validation", "test")[number], size=16)
    assert read.data.shape == (10, 16, 16, 3)
    assert read.target.tolist() == blond[part == number].tolist()
    assert read.groups.tolist() == male[part == number].tolist()
    assert ((read.data.mean(axis=(1, 2, 3)) > 100) == (read.target == 1)).all()


@pytest.mark.parametrize(
    ("write", "name"), [(cifar10_python, "cifar-10-batches-py"), (cifar10_binary, "cifar-10-batches-bin")]
)
def test_cifar10(tmp_path, write, name):
    write(tmp_path / name)
    for path in (tmp_path, tmp_path / name):
        bunch = image_files.load_cifar10(path)
        np.testing.assert_array_equal(
            bunch.data, np.concatenate([pictures(4, 32, 32, 3, seed=i) for i in range(5)])
        )
        assert bunch.target.tolist() == np.concatenate([labels(4, 3, i) for i in range(5)]).tolist()
        assert bunch.target_names.tolist() == CLASSES
        X, y = image_files.load_cifar10(path, subset="test", return_X_y=True)
        np.testing.assert_array_equal(X, pictures(4, 32, 32, 3, seed=5))
        assert (X.dtype, y.dtype) == (np.uint8, np.int64)


def test_a_pickle_that_calls_is_refused(tmp_path):
    cifar10_python(tmp_path / "c")

    class Evil:
        def __reduce__(self):
            return Path.touch, (tmp_path / "touched",)

    dump(tmp_path / "c" / "data_batch_3", {"data": Evil()})
    with pytest.raises(ValueError, match=r"it asks for .*no CIFAR file needs"):
        image_files.load_cifar10(tmp_path / "c")
    assert not (tmp_path / "touched").exists()


# --- MNIST and its kin -------------------------------------------------------------------------------------


@pytest.mark.parametrize("zipped", [False, True])
def test_mnist(tmp_path, zipped):
    for part, n in (("train", 7), ("t10k", 3)):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte", pictures(n, 28, 28, seed=n), zipped)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", labels(n, 10, n), zipped)
    for subset, n in (("train", 7), ("test", 3)):
        X, y = image_files.load_mnist(tmp_path, subset=subset, return_X_y=True)
        np.testing.assert_array_equal(X, pictures(n, 28, 28, 1, seed=n))
        assert y.tolist() == labels(n, 10, n).tolist()


@pytest.mark.parametrize("shape", [(28, 28), (28, 28, 3)])
def test_medmnist(tmp_path, shape):
    parts = {"train": 6, "val": 3, "test": 2}
    arrays = {f"{p}_images": pictures(n, *shape, seed=n) for p, n in parts.items()}
    arrays |= {f"{p}_labels": labels(n, 4, n)[:, None].astype(np.uint8) for p, n in parts.items()}
    arrays["train_labels"][0] = 3
    np.savez(tmp_path / "tissuemnist.npz", **arrays)
    bunch = image_files.load_image_npz(tmp_path / "tissuemnist.npz", subset="validation")
    np.testing.assert_array_equal(bunch.data.reshape(3, *shape), arrays["val_images"])
    assert bunch.target.tolist() == arrays["val_labels"][:, 0].tolist()
    assert len(bunch.target_names) == 4


@needs_shared
def test_copies_in_one_file():
    X, y = image_files.load_image_npz(SHARED / "mnist.npz", subset="test", return_X_y=True)
    assert X.shape == (10_000, 28, 28, 1)
    assert np.bincount(y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    bunch = image_files.load_image_npz(SHARED / "pneumoniamnist.npz", subset="validation")
    assert np.bincount(bunch.target).tolist() == [135, 389]


def test_more_than_one_label_per_image_is_refused(tmp_path):
    np.savez(tmp_path / "chest.npz", train_images=pictures(4, 28, 28), train_labels=np.eye(4))
    with pytest.raises(ValueError, match="4 labels per image"):
        image_files.load_image_npz(tmp_path / "chest.npz")


# --- missing or damaged files --------------------------------------------------------------------------

LOADERS = {
    "load_image_npz": "medmnist.com",
    "load_mnist": "idx files",
    "load_cifar10": "cifar-10-python.tar.gz of https",
}


@pytest.mark.parametrize(("loader", "says"), LOADERS.items())
def test_what_is_absent_is_named(tmp_path, loader, says):
    load = getattr(image_files, loader)
    with pytest.raises(ValueError, match=rf"{loader} cannot read path=.*there is no.*must be.*{says}"):
        load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"subset='all'; allowed are train"):
        load(tmp_path, subset="all")


def test_damaged_files(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(ValueError, match="load_image_npz cannot read"):
        image_files.load_image_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", train_images=pictures(3, 8, 8), train_labels=np.zeros(2, int))
    with pytest.raises(ValueError, match="3 images, 2 labels"):
        image_files.load_image_npz(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", x_train=pictures(2, 8, 8) / 255.0, y_train=np.zeros(2, int))
    with pytest.raises(ValueError, match=r"must hold bytes.*float64"):
        image_files.load_image_npz(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", x_test=pictures(2, 8, 8), y_test=np.zeros(2, int))
    with pytest.raises(ValueError, match="no arrays train_images"):
        image_files.load_image_npz(tmp_path / "d.npz")
    write_idx(tmp_path / "train-images-idx3-ubyte", pictures(3, 28, 28))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="train-labels-idx1-ubyte is no idx file"):
        image_files.load_mnist(tmp_path)
    cifar10_binary(tmp_path / "c")
    (tmp_path / "c" / "data_batch_2.bin").write_bytes(b"\0" * 3000)
    with pytest.raises(ValueError, match="load_cifar10 cannot read"):
        image_files.load_cifar10(tmp_path / "c")
    shutil.rmtree(tmp_path / "c")
    cifar10_python(tmp_path / "c")
    (tmp_path / "c" / "data_batch_2").write_bytes(b"\x80")
    with pytest.raises(ValueError, match="load_cifar10 cannot read"):
        image_files.load_cifar10(tmp_path / "c")


def test_labels_out_of_range(tmp_path):
    cifar10_binary(tmp_path / "c")
    (tmp_path / "c" / "batches.meta.txt").write_text("one\n")
    with pytest.raises(ValueError, match="there are 1 classes"):
        image_files.load_cifar10(tmp_path / "c")
