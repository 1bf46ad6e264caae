"""Augmentation against shifts and mirrors made by hand."""

import pytest

torch = pytest.importorskip("torch")

from experiments._augment import crop_and_flip, resized_crop_and_flip

pytestmark = pytest.mark.experiments


def test_every_image_is_one_of_its_shifts_or_their_mirrors():
    torch.manual_seed(0)
    x = torch.rand(60, 3, 6, 7)
    y = crop_and_flip(x, padding=1)
    drawn = set()
    for image, got in zip(x, y, strict=True):
        padded = torch.nn.functional.pad(image, (1, 1, 1, 1))
        shifts = {(t, s): padded[:, t : t + 6, s : s + 7] for t in range(3) for s in range(3)}
        made = shifts | {(*k, "mirrored"): v.flip(2) for k, v in shifts.items()}
        (found,) = [k for k, v in made.items() if torch.equal(v, got)]
        drawn.add(found)
    assert len(drawn) > 12


def test_it_draws_from_the_seed_and_without_padding_mirrors_only():
    x = torch.rand(20, 1, 4, 4)
    torch.manual_seed(1)
    first = crop_and_flip(x)
    torch.manual_seed(1)
    assert torch.equal(first, crop_and_flip(x))
    own = torch.Generator().manual_seed(1)
    before = torch.get_rng_state()
    assert torch.equal(first, crop_and_flip(x, generator=own))
    assert torch.equal(torch.get_rng_state(), before)
    for image, got in zip(x, crop_and_flip(x, padding=0), strict=True):
        assert torch.equal(got, image) or torch.equal(got, image.flip(2))


def test_a_resized_crop_of_full_area_is_the_image_or_its_mirror():
    torch.manual_seed(0)
    x = torch.rand(20, 3, 8, 8)
    cropped = resized_crop_and_flip(x, least=1.0, ratio=1.0)
    same = [torch.allclose(a, b, atol=1e-5) for a, b in zip(x, cropped, strict=True)]
    mirrored = [torch.allclose(a.flip(2), b, atol=1e-5) for a, b in zip(x, cropped, strict=True)]
    assert all(a or b for a, b in zip(same, mirrored, strict=True))
    assert 0 < sum(same) < 20


def test_a_resized_crop_keeps_shape_and_range_of_values():
    torch.manual_seed(0)
    ramp = torch.linspace(0, 1, 16).expand(50, 1, 16, 16)
    cropped = resized_crop_and_flip(ramp)
    assert cropped.shape == ramp.shape
    assert float(cropped.min()) >= 0
    assert float(cropped.max()) <= 1
    spread = (cropped[:, 0, 0, -1] - cropped[:, 0, 0, 0]).abs()  # fraction of the width that a crop shows
    assert 0.2 < float(spread.min()) < 0.6
    assert 0.7 < float(spread.max()) <= 1
