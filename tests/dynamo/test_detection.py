"""torchvision's detection ops on the device: boxes that stay, features of regions."""

import detection_ops
import pytest
import torch
from compiling import compiled, programs_got, randn
from twins import DEVICE, assert_same, to

LIBRARY = detection_ops.load()
ops = torch.ops.torchvision


def rand(*sizes, seed=1):
    return torch.rand(sizes, generator=torch.Generator().manual_seed(seed))


def boxes_of(count, seed=1):
    corners = rand(count, 2, seed=seed) * 30
    return torch.cat([corners, corners + rand(count, 2, seed=seed + 1) * 10 + 0.1], dim=1)


@pytest.mark.parametrize("count", [0, 1, 100, 256, 300, 700])
def test_the_boxes_that_stay_are_the_cpus(count):
    boxes, scores = boxes_of(count), (rand(count) * 20).round() / 20  # some scores are equal
    for threshold in (0.0, 0.3, 0.5, 1.0):
        expected = ops.nms(boxes, scores, threshold)
        assert_same(ops.nms(*to(DEVICE, [boxes, scores]), threshold), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_an_overlap_that_is_the_threshold_is_not_above_it(dtype):
    boxes, scores = boxes_of(200).round().to(dtype), rand(200).to(dtype)
    for threshold in (0.1, 0.2, 0.25, 0.3, 1 / 3, 0.4, 0.6):
        expected = ops.nms(boxes, scores, threshold)
        assert_same(ops.nms(*to(DEVICE, [boxes, scores]), threshold), expected)


def test_a_new_threshold_compiles_nothing():
    boxes, scores = to(DEVICE, [boxes_of(50), rand(50)])
    ops.nms(boxes, scores, 0.99)
    before = programs_got()
    ops.nms(boxes, scores, 0.98)
    assert programs_got() == before


def test_boxes_that_stay_within_a_compiled_function():
    def best(boxes, scores):
        return boxes[ops.nms(boxes, scores, 0.5)] * 2

    inputs = boxes_of(50), rand(50)
    assert_same(compiled(best, fullgraph=False)(*to(DEVICE, list(inputs))), best(*inputs))


def test_what_is_no_list_of_boxes_is_refused_in_the_cpus_words():
    inputs = rand(3, 4, 1), rand(3)
    with pytest.raises(RuntimeError) as expected:
        ops.nms(*inputs, 0.5)
    with pytest.raises(RuntimeError) as got:
        ops.nms(*to(DEVICE, list(inputs)), 0.5)
    assert str(got.value) == str(expected.value)


def regions_of(count):
    """Regions of two images: within, beyond the edges, without an extent, turned, far outside."""
    image = (torch.arange(count) % 2)[:, None].float()
    regions = torch.cat([image, boxes_of(count, seed=3) * 1.3 - 4], dim=1)
    regions[3, 3:] = regions[3, 1:3]
    regions[4, 3] = regions[4, 1] - 2
    regions[5, 1:] = torch.tensor([-50.0, -50.0, -40.0, -40.0])
    return regions


@pytest.mark.parametrize("aligned", [False, True], ids=["by corners", "aligned"])
@pytest.mark.parametrize("sampling_ratio", [-1, 1, 2])
def test_features_of_regions_and_their_gradients(sampling_ratio, aligned):
    features, regions = randn(2, 3, 16, 20), regions_of(7)

    def align(features, regions):
        return ops.roi_align(features, regions, 0.5, 5, 4, sampling_ratio, aligned)

    leaf, grad = features.clone().requires_grad_(), randn(7, 3, 5, 4, seed=2)
    expected = align(leaf, regions)
    (gradient,) = torch.autograd.grad(expected, leaf, grad)
    for call in (align, compiled(align)):
        leaf = features.to(DEVICE).requires_grad_()
        result = call(leaf, regions.to(DEVICE))
        assert_same(result, expected)
        assert_same(torch.autograd.grad(result, leaf, grad.to(DEVICE))[0], gradient)


def test_features_of_no_region():
    features = randn(2, 3, 16, 20)
    result = ops.roi_align(
        features.to(DEVICE), torch.zeros(0, 5, device=DEVICE), 1.0, 5, 4, 2, True
    )
    assert_same(result, torch.zeros(0, 3, 5, 4))


def test_narrow_features_are_read_at_exact_places():
    features, regions = randn(2, 3, 16, 20).half(), regions_of(7).half()
    result = ops.roi_align(*to(DEVICE, [features, regions]), 0.5, 5, 4, 2, True)
    expected = ops.roi_align(features.float(), regions.float(), 0.5, 5, 4, 2, True)
    assert_same(result, expected.half())


def test_the_rules_import_no_torchvision(run_python):
    code = """
import sys, torch
from torch_tpu.lowering import registry
registry.load_rules()
print("torchvision" in sys.modules, any("torchvision" in str(key) for key in registry._RULES))
"""
    assert run_python(code) == "False True"
