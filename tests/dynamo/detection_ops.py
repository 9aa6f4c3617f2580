"""torchvision's detection ops on the CPU: its own or, where it can't be had, stand-ins.

The stand-ins have its schemas, and are written as matrices of weights rather than as samples.
"""

import torch

REGIONS = "Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align(Tensor input, {REGIONS}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward(Tensor grad, {REGIONS}, SymInt batch_size, SymInt channels, "
    "SymInt height, SymInt width, int sampling_ratio, bool aligned) -> Tensor",
)


def nms(dets, scores, iou_threshold):
    torch._check(dets.dim() == 2, lambda: f"boxes should be a 2d tensor, got {dets.dim()}D")
    areas = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    kept, left = [], scores.sort(descending=True, stable=True).indices
    while left.numel():
        best, left = left[0], left[1:]
        kept.append(int(best))
        shared = torch.minimum(dets[best, 2:], dets[left, 2:])
        shared = (shared - torch.maximum(dets[best, :2], dets[left, :2])).clamp(min=0).prod(1)
        overlap = (shared / (areas[best] + areas[left] - shared)).double()
        left = left[~(overlap > iou_threshold)]
    return torch.tensor(kept, dtype=torch.int64)


def _weights(low, high, bins, length, sampling_ratio, aligned):
    """What each pixel of a dimension counts in each bin of a region, and the samples of a bin."""
    extent = high - low if aligned else (high - low).clamp(min=1)
    samples = sampling_ratio if sampling_ratio > 0 else max(int((extent / bins).ceil()), 0)
    place = torch.arange(bins)[:, None] + (torch.arange(samples) + 0.5) / max(samples, 1)
    place = low + place.to(low.dtype) * (extent / bins)
    inside = (place >= -1) & (place <= length)
    distance = (place.clamp(0, length - 1)[..., None] - torch.arange(length)).abs()
    return ((1 - distance).clamp(min=0) * inside[..., None]).sum(1), samples


def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    height, width = input.shape[2:]
    pooled = input.new_zeros(len(rois), input.shape[1], pooled_height, pooled_width)
    for place, (image, *edges) in enumerate(rois.unbind()):
        x1, y1, x2, y2 = (edge * spatial_scale - (0.5 if aligned else 0) for edge in edges)
        rows, down = _weights(y1, y2, pooled_height, height, sampling_ratio, aligned)
        columns, across = _weights(x1, x2, pooled_width, width, sampling_ratio, aligned)
        pooled[place] = rows @ input[int(image)] @ columns.T / max(down * across, 1)
    return pooled


def _roi_align_backward(grad, rois, scale, rows, columns, *sizes_and_options):
    *sizes, sampling_ratio, aligned = sizes_and_options
    with torch.enable_grad():
        input = grad.new_zeros(sizes).requires_grad_()
        pooled = roi_align(input, rois, scale, rows, columns, sampling_ratio, aligned)
        return torch.autograd.grad(pooled, input, grad)[0]


def _keep(ctx, inputs, output):
    input, rois, *ctx.options = inputs
    ctx.sizes = input.shape
    ctx.save_for_backward(rois)


def _differentiate(ctx, grad):
    *first, sampling_ratio, aligned = ctx.options
    backward = torch.ops.torchvision._roi_align_backward
    (rois,) = ctx.saved_tensors
    grads = backward(grad, rois, *first, *ctx.sizes, sampling_ratio, aligned)
    return grads, *[None] * 6


def _define():
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in SCHEMAS:
        library.define(schema)
    for function in (nms, roi_align, _roi_align_backward):
        library.impl(function.__name__, function, "CPU")
    fakes = {
        "nms": lambda dets, scores, threshold: dets.new_empty(
            torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64
        ),
        "roi_align": lambda input, rois, scale, rows, columns, *_: input.new_empty(
            rois.shape[0], input.shape[1], rows, columns
        ),
        "_roi_align_backward": lambda grad, rois, scale, rows, columns, *sizes: grad.new_empty(
            sizes[:4]
        ),
    }
    for name, fake in fakes.items():
        torch.library.register_fake(f"torchvision::{name}", fake, lib=library)
    torch.library.register_autograd(
        "torchvision::roi_align", _differentiate, setup_context=_keep, lib=library
    )
    return library


def load():
    """torchvision's ops; what it returns must live as long as they are used."""
    try:
        import torchvision

        return torchvision
    except (ImportError, RuntimeError):  # absent, or built for another PyTorch
        return _define()
