"""Compiled functions that write their inputs, or return views and aliases of them."""

import pytest
import torch
from compiling import assert_compiles, assert_trains, compiled, copies, randn
from torch import nn
from twins import DEVICE, assert_same, state, twins


def _write_and_return(x):
    x.add_(1)
    return x * 2


def _write_a_view(x):
    x[1:].mul_(2)
    x[:, 0] = 7
    return x.sum()


def _write_through_a_transpose(x):
    x.mT.copy_(torch.arange(12, device=x.device).reshape(4, 3))
    return x + 1


def _index_put(x):
    x[torch.tensor([0, 2], device=x.device)] = 5
    x.index_add_(1, torch.tensor([1, 1], device=x.device), torch.ones(3, 2, device=x.device))
    return x.clone()


def _masked(x):
    x.masked_fill_(x > 0, 0)
    return x


def _out(x):
    torch.mul(x, 3, out=x)
    return x.exp()


def _set_numbers(x):
    x.zero_()
    x.fill_diagonal_(1)
    return x.clamp_(max=0.5)


def _swap(x):
    first = x[0].clone()
    x[0] = x[1]
    x[1] = first


WRITES = {
    "in place, then read": _write_and_return,
    "through views": _write_a_view,
    "through a transpose": _write_through_a_transpose,
    "by index": _index_put,
    "by mask": _masked,
    "as out=": _out,
    "with numbers": _set_numbers,
    "rows swapped, nothing returned": _swap,
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_reach_the_inputs(name):
    assert_compiles(WRITES[name], randn(3, 4))


# Dynamo refuses out= that is not contiguous, AOTAutograd fill_diagonal_.
ON_VIEWS = [name for name in WRITES if name not in ("as out=", "with numbers")]


@pytest.mark.parametrize("name", ON_VIEWS)
def test_writes_reach_the_base_of_an_input_that_is_a_view(name):
    base = randn(2, 4, 3)
    host, device = copies("cpu", [base]) + copies(DEVICE, [base])
    run = compiled(WRITES[name])
    for _ in range(2):
        expected, got = WRITES[name](host[1].mT), run(device[1].mT)
        assert_same(got, expected)
        assert_same(device, host)


def test_an_input_given_twice_is_written_once():
    def function(x, y):
        x.add_(1)
        return x * y

    host, device = randn(3), randn(3).to(DEVICE)
    run = compiled(function)
    for _ in range(2):
        assert_same(run(device, device), function(host, host))
        assert_same(device, host)


def _write_both(x, y):
    x.mul_(2)
    y[:2].add_(1)
    return x + 0, y + 0


ROWS = {"apart": (slice(0, 3), slice(3, 6)), "overlapping": (slice(0, 4), slice(2, 6))}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_two_inputs_that_share_memory_are_both_written(rows):
    run, both = compiled(_write_both), []
    for call, base in ((_write_both, randn(6)), (run, randn(6, device=DEVICE))):
        results = [call(*(base[each] for each in rows)) for _ in range(2)]
        both.append([*results, base])
    assert_same(both[1], both[0])


def test_metadata_of_an_input_changes():
    def function(x):
        x.t_()
        x.unsqueeze_(0)
        return x + 1

    assert_compiles(function, randn(3, 4), fullgraph=False)


def _views(x):
    return x[0], x.T, x.reshape(-1)[2:], x.unsqueeze(1), x.diagonal()


def test_views_of_inputs_are_returned_as_views():
    assert_compiles(_views, randn(3, 4))
    x = randn(3, 4, device=DEVICE)
    for view in compiled(_views)(x):
        assert view._base is x and view.data_ptr() >= x.data_ptr()
    compiled(_views)(x)[1].mul_(0)
    assert x.abs().sum().item() == 0


def test_an_input_is_returned_as_itself():
    x = randn(3, device=DEVICE)
    same, doubled = compiled(lambda x: (x, x * 2))(x)
    assert same is x and doubled is not x
    assert compiled(lambda x: x.add_(1))(x) is x


def test_outputs_that_share_memory_still_do():
    first, second = compiled(lambda x: (lambda y: (y, y[1:]))(x.sin()))(randn(4, device=DEVICE))
    second.zero_()
    assert first[1:].abs().sum().item() == 0


def test_the_same_output_twice_is_one_tensor():
    first, second = compiled(lambda x: (lambda y: (y, y))(x.sin()))(randn(4, device=DEVICE))
    assert first is second


def test_strides_of_outputs_are_eagers():
    def matrices(x):
        return x.T + 1, x.permute(1, 0).sin(), x.expand(2, 3, 4) * 1

    def images(x):
        return x.to(memory_format=torch.channels_last) * 2, x.permute(1, 3, 0, 2).sin()

    for function, x in ((matrices, randn(3, 4)), (images, randn(2, 3, 4, 5))):
        got, expected = compiled(function)(x.to(DEVICE)), function(x)
        assert [each.stride() for each in got] == [each.stride() for each in expected]
        assert_same(got, expected)


INPUTS = {
    "a transpose": lambda x: x.T,
    "a slice with steps": lambda x: x[::2, 1:],
    "an expanded row": lambda x: x[:1].expand(5, 4),
    "a flipped tensor": lambda x: x.flip(0),
    "a diagonal": lambda x: x.diagonal(),
    "a number": lambda x: x[0, 0],
    "nothing": lambda x: x[:0],
    "a conjugate": lambda x: torch.complex(x, x + 1).conj(),
    "an imaginary part": lambda x: torch.complex(x, x + 1).imag,
    "another dtype's view": lambda x: x.view(torch.int32),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_as_they_lie(name):
    make, run = INPUTS[name], compiled(lambda x: (x * 2, x.sum()))
    x = randn(4, 4)
    for offset in (0, 1):
        host, device = make(x + offset), make((x + offset).to(DEVICE))
        assert_same(run(device), (host * 2, host.sum()))


def test_an_in_place_step_on_a_leaf_is_differentiated():
    def function(x):
        y = x * 2
        y.sin_()
        y[0] = 0
        return y.exp()

    assert_trains(function, randn(3, 4).requires_grad_())


def test_a_view_of_an_input_is_differentiated():
    assert_trains(lambda x: x[1:].T, randn(3, 4).requires_grad_())


def test_an_input_that_is_written_gets_a_gradient_through_its_base():
    def function(x):
        x.mul_(3)
        return x.sin()

    def run(call, leaf):
        y = leaf * 1
        call(y).sum().backward()
        return leaf.grad, y.detach()

    host = randn(3).requires_grad_()
    device = host.detach().to(DEVICE).requires_grad_()
    assert_same(run(compiled(function), device), run(function, host))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(4))
        self.calls = 0

    def forward(self, x):
        self.count += 1
        self.mean.lerp_(x.mean(0), 0.5)
        self.calls += 1
        return x - self.mean


def test_buffers_and_attributes_of_a_module_are_written():
    models = twins(Counter)
    run, x = compiled(models[1]), randn(3, 4)
    for _ in range(3):
        assert_same(run(x.to(DEVICE)), models[0](x))
    assert_same(state(models[1]), state(models[0]))
    assert models[1].calls == 3


def test_a_donated_input_is_not_used_up():
    x = randn(64, 64, device=DEVICE)
    kept, before = x * 1, x.cpu()
    run = compiled(lambda x: x.mul_(2))
    run(x)
    run(x)
    assert_same(kept, before)
    assert_same(x, before * 4)


def test_lists_and_dicts_are_filled():
    def function(x, found):
        found["sum"] = x.sum()
        found["all"].append(x * 2)
        return x

    host, device = {"all": []}, {"all": []}
    function(randn(3), host)
    compiled(function)(randn(3, device=DEVICE), device)
    assert_same([device["sum"], *device["all"]], [host["sum"], *host["all"]])


def test_numbers_from_python_and_from_the_cpu():
    def function(x, scale, count, flag, on_cpu):
        y = x * scale + count
        return y - on_cpu if flag else y + on_cpu

    for scale, count, flag, on_cpu in (
        (2.5, 3, True, torch.tensor(1.5)),
        (0.5, 4, False, torch.tensor(-2.0, dtype=torch.float64)),
        (1.0, -1, True, torch.tensor(7)),
    ):
        got = compiled(function)(randn(3).to(DEVICE), scale, count, flag, on_cpu)
        assert_same(got, function(randn(3), scale, count, flag, on_cpu))


def test_an_integer_that_changes_is_itself_and_not_its_bound():
    run, x = compiled(lambda x, n: x * n + n), randn(3)
    for number in (3, 5, 6, -1, 0, 1, 1000):
        assert_same(run(x.to(DEVICE), number), x * number + number)


def test_a_cpu_tensor_that_changes_does_not_recompile():
    run = compiled(lambda x, s: x * s)
    x = randn(3)
    run(x.to(DEVICE), torch.tensor(1.0))
    with torch.compiler.set_stance("fail_on_recompile"):
        for number in (2.0, 3.0):
            assert_same(run(x.to(DEVICE), torch.tensor(number)), x * number)


def test_tensors_move_between_devices_inside():
    def function(x, y):
        on_device = y.to(x.device) + x
        return on_device, on_device.to("cpu") + y

    x, y = randn(3), randn(3, seed=2)
    got, expected = compiled(function)(x.to(DEVICE), y), function(x, y)
    assert_same(got[0], expected[0])
    torch.testing.assert_close(got[1], expected[1])


def test_a_function_without_tensors_makes_them():
    def function():
        return torch.arange(4, device=DEVICE), torch.full((2,), 3.0, device=DEVICE)

    for _ in range(2):
        assert_same(compiled(function)(), (torch.arange(4), torch.full((2,), 3.0)))
