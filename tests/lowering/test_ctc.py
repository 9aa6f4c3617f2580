"""CTC loss and gradient beside CPU PyTorch."""

import pytest
import torch
from shadow import run_rule, to_tensor

aten = torch.ops.aten
TIMES, BATCH, CLASSES = 9, 4, 5
INPUT_LENGTHS, TARGET_LENGTHS = [9, 7, 8, 3], [3, 4, 0, 3]


def _targets(concatenated):
    padded = torch.tensor([[1, 1, 2, 0], [3, 2, 2, 4], [0, 0, 0, 0], [1, 1, 1, 0]])
    if not concatenated:
        return padded
    return torch.cat([row[:n] for row, n in zip(padded, TARGET_LENGTHS, strict=True)])


@pytest.mark.parametrize("concatenated", [False, True])
@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("as_tensors", [False, True])
def test_loss_and_gradient(concatenated, zero_infinity, as_tensors):
    log_probs = torch.randn(TIMES, BATCH, CLASSES).log_softmax(2)
    lengths = [INPUT_LENGTHS, TARGET_LENGTHS]
    overload = "default"
    args = (log_probs, _targets(concatenated))
    loss, log_alpha = aten._ctc_loss(*args, *lengths, 0, zero_infinity)
    grad = torch.rand(BATCH)
    want = aten._ctc_loss_backward(grad, *args, *lengths, loss, log_alpha, 0, zero_infinity)
    if as_tensors:
        lengths, overload = [torch.tensor(each) for each in lengths], "Tensor"
    rule = getattr(aten._ctc_loss, overload)
    got = [to_tensor(x, torch.float32) for x in run_rule(rule, (*args, *lengths, 0), {})]
    torch.testing.assert_close(got[0], loss)
    states = log_alpha.shape[2]
    assert got[1].shape[2] == (16 if as_tensors else states)
    got[1] = got[1][:, :, :states]
    for n, (time, length) in enumerate(zip(INPUT_LENGTHS, TARGET_LENGTHS, strict=True)):
        part = (n, slice(time), slice(2 * length + 1))  # CPU PyTorch leaves the rest unset
        torch.testing.assert_close(got[1][part], log_alpha[part])
    rule = getattr(aten._ctc_loss_backward, overload)
    back = run_rule(rule, (grad, *args, *lengths, *got, 0, zero_infinity), {})
    torch.testing.assert_close(to_tensor(back, torch.float32), want, equal_nan=True)
