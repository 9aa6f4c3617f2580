"""Writing through views, out=, storage surgery and dtypes, beside the CPU."""

import itertools

import pytest
import torch
from twins import DEVICE, assert_same, assert_same_on_both, to


def _base():
    return torch.arange(24.0).reshape(2, 3, 4)


VIEWS = {
    "select": lambda x: x[1],
    "slice with a step": lambda x: x[:, ::2, 1:],
    "transpose": lambda x: x.transpose(0, 2),
    "permute of a slice": lambda x: x[..., 1:3].permute(2, 0, 1),
    "flattened": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(6, 4)[2:],
    "diagonal": lambda x: x.diagonal(dim1=1, dim2=2),
    "as_strided": lambda x: x.as_strided((2, 2), (5, 7), 3),
    "unfold without overlap": lambda x: x.unfold(2, 2, 2),
    "chunk": lambda x: x.chunk(2, -1)[1],
    "split and unbind": lambda x: x.split([1, 2], 1)[1].unbind(0)[0],
    "squeeze and unsqueeze": lambda x: x[:, :1].squeeze(1).unsqueeze(0),
    "movedim": lambda x: x.movedim(0, -1)[1],
    "other dtype": lambda x: x.view(torch.int32)[0],
    "view of a view of a view": lambda x: x.transpose(1, 2)[1][2:].t()[1],
}
WRITES = {
    "fill_": lambda v: v.fill_(7),
    "add_": lambda v: v.add_(v),
    "copy_": lambda v: v.copy_(torch.arange(v.numel(), device=v.device).reshape(v.shape)),
    "zero_": lambda v: v.zero_(),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_read_and_write_their_base(view):
    for write in WRITES.values():
        base, device_base = _base(), _base().to(DEVICE)
        expected, got = VIEWS[view](base), VIEWS[view](device_base)
        assert (got.shape, got.stride(), got.storage_offset()) == (
            expected.shape, expected.stride(), expected.storage_offset(),
        )  # fmt: skip
        assert got._is_view() and got.untyped_storage().data_ptr() == (
            device_base.untyped_storage().data_ptr()
        )
        assert_same(got, expected)
        write(expected), write(got)
        assert_same([got, device_base], [expected, base])


def test_a_write_to_the_base_shows_in_every_view():
    x = _base().to(DEVICE)
    flat, row = x.view(-1), x[1, 2]
    x[1, 2, 3] = -5
    assert flat[-1].item() == row[3].item() == -5


def test_autograd_follows_writes_through_views():
    def gradient(x):
        leaf = x.clone().requires_grad_()
        y = leaf * 2
        y[:, 1].mul_(3)
        y.view(-1)[::5] = 0
        y.sum().backward()
        return leaf.grad

    assert_same_on_both(gradient, _base())


def test_saved_tensors_changed_in_place_are_noticed():
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    y = x.exp()
    z = y.sum()
    y.view(-1)[0] = 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_out_arguments_take_size_keep_identity_and_refuse_lesser_dtypes():
    x = _base().to(DEVICE)
    out = torch.empty(0, device=DEVICE)
    assert torch.add(x, 1, out=out) is out and torch.equal(out, x + 1)
    target = torch.zeros(4, 3, device=DEVICE)
    torch.mul(x[0], 2, out=target.t())
    assert torch.equal(target, (x[0] * 2).t())
    values, places = torch.empty(0, device=DEVICE), torch.empty(0, device=DEVICE).long()
    torch.max(x, 1, out=(values, places))
    assert_same([values, places], list(_base().max(1)))
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        torch.add(x, 1.5, out=torch.empty(2, 3, 4, dtype=torch.int64, device=DEVICE))


OVERLAPS = {
    "an expanded target": lambda x: x[0, 0, :1].expand(3).add_(1),
    "a copy into an expanded target": lambda x: x[:1].expand(2, 3, 4).copy_(x),
    "a target that is part of its source": lambda x: torch.add(x[0, :2], 1, out=x[0, 1:]),
    "a target shifted by one": lambda x: x.view(-1)[1:].add_(x.view(-1)[:-1]),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_overlapping_memory_is_refused_as_on_the_cpu(name):
    with pytest.raises(RuntimeError) as expected:
        OVERLAPS[name](_base())
    with pytest.raises(RuntimeError) as got:
        OVERLAPS[name](_base().to(DEVICE))
    assert str(got.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_resize_keeps_what_still_fits():
    x, cell = torch.arange(6.0, device=DEVICE), None
    cell = x.untyped_storage().data_ptr()
    x.resize_(2, 2)
    assert x.tolist() == [[0, 1], [2, 3]]
    x.resize_(6)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    x.resize_(8)
    assert x.shape == (8,) and x[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert x.untyped_storage().data_ptr() == cell


def test_set_shares_a_storage():
    x, y = torch.arange(6.0, device=DEVICE), torch.empty(0, device=DEVICE)
    y.set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    y += 10
    assert x.tolist() == [0, 11, 12, 13, 14, 5]
    y.set_(torch.ones(3, device=DEVICE))
    assert y.tolist() == [1, 1, 1] and y.set_().numel() == 0


def test_data_is_swapped_without_a_new_version():
    x = torch.zeros(3, device=DEVICE)
    version = x._version
    x.data = torch.ones(2, device=DEVICE)
    assert x.tolist() == [1, 1] and x._version == version


REAL = (
    torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
COMPLEX = (torch.complex64, torch.complex128)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_arithmetic_in_every_real_dtype(dtype):
    def work(x, y):
        total = [x * y, x == y, x.sum(), x.max(), torch.cat([x, y]), x.sort().values]
        return [*total, x + 1, x.to(torch.float32) / 2, x[y > 0]]

    values = torch.tensor([0, 1, 3, 2]), torch.tensor([1, 0, 2, 5])
    assert_same_on_both(work, *(each.to(dtype) for each in values))


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_eight_bit_floats_are_stored_and_converted(dtype):
    values = torch.tensor([0.0, 1.1, -3.7, 250.0, 0.01])
    assert_same_on_both(lambda x: [x.to(dtype).float(), x.to(dtype).view(torch.uint8)], values)
    assert_same_on_both(lambda x: x.to(dtype)[1:3].to(torch.bfloat16).clone(), values)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex_numbers_conjugate_views_and_gradients(dtype):
    z = torch.randn(3, 3, dtype=dtype, generator=torch.Generator().manual_seed(1))

    def work(z):
        leaf = z.clone().requires_grad_()
        (leaf.conj() @ leaf).abs().sum().backward()
        return [z * z.conj(), z.mH.imag, torch.view_as_real(z)[..., 1], leaf.grad]

    assert_same_on_both(work, z, rtol=1e-4, atol=1e-5)


CONJUGATE_WRITES = {
    "a number": lambda z: z.conj()[0].fill_(1j),
    "a product": lambda z: z.conj().mul_(1j),
    "the real part": lambda z: z.real.mul_(2),
    "the conjugate's imaginary part": lambda z: z.conj().imag.mul_(2),
    "a copy": lambda z: z.conj()[:2].copy_(z[1:] * 2),
    "a copy from the host": lambda z: z.mH.copy_(torch.tensor([[1j, 2, 3]])),
    "a negated view": lambda z: torch._neg_view(z).add_(1),
}


@pytest.mark.parametrize("name", CONJUGATE_WRITES)
def test_writes_through_conjugate_views_reach_their_base(name):
    def written(z):
        CONJUGATE_WRITES[name](z)
        return z

    z = torch.randn(3, 3, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))
    assert_same(written(z.to(DEVICE)), written(z.clone()))


def test_numbers_promote_as_on_the_cpu():
    def work(whole, small, number):
        return [whole + 1.5, small * 2, small + number, whole % 2, number / 3, whole // 2]

    inputs = torch.arange(3), torch.ones(2, dtype=torch.bfloat16), torch.tensor(2.5)
    assert_same_on_both(work, *inputs)
    assert_same(to(DEVICE, inputs[1]) + torch.tensor(2.5), inputs[1] + torch.tensor(2.5))


DIVISIONS = {
    "//": lambda a, b: a // b,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "rounded to zero": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "of a number": lambda a, b: [7 // b, 7 % b],
}


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_integer_tensors_divide_each_other(division, dtype):
    a = torch.tensor([7, 9, 12, 0]).to(dtype)
    b = torch.tensor([2, 4, 5, 3]).to(dtype)
    assert_same_on_both(DIVISIONS[division], a, b)


DECIDED_BY_VALUES = {
    "nonzero": lambda x, out: torch.nonzero(x > 1, out=out),
    "masked_select": lambda x, out: torch.masked_select(x, x > 1, out=out),
}


@pytest.mark.parametrize("op", DECIDED_BY_VALUES)
def test_out_takes_a_length_that_values_decide(op):
    x = torch.tensor([3, 0, 2, 5])
    out = torch.empty(0, dtype=torch.long)
    device_out = torch.empty(0, dtype=torch.long, device=DEVICE)
    have = DECIDED_BY_VALUES[op](x.to(DEVICE), device_out)
    assert have is device_out
    torch.testing.assert_close(have.cpu(), DECIDED_BY_VALUES[op](x, out))


ATTENTION = {
    "one batch of keys for all": ((2, 4, 8, 16), (1, 4, 8, 16)),
    "one head of keys for all": ((2, 4, 8, 16), (2, 1, 8, 16)),
    "queries without heads": ((8, 16), (2, 4, 8, 16)),
    "heads that don't fit": ((2, 4, 8, 16), (2, 2, 8, 16)),
}


@pytest.mark.parametrize("case", ATTENTION)
def test_attention_broadcasts_and_refuses_as_on_the_cpu(case):
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(shape, generator=generator) for shape in ATTENTION[case])
    attend = torch.nn.functional.scaled_dot_product_attention
    try:
        expected = attend(query, key, key)
    except RuntimeError as error:
        with pytest.raises(RuntimeError) as caught:
            attend(query.to(DEVICE), key.to(DEVICE), key.to(DEVICE))
        assert str(caught.value) == str(error)
    else:
        have = attend(query.to(DEVICE), key.to(DEVICE), key.to(DEVICE))
        torch.testing.assert_close(have.cpu(), expected)


def test_bools_are_added_as_bools_into_a_wider_out():
    mask = torch.tensor([True, False])
    out = torch.zeros(2, dtype=torch.int32, device=DEVICE)
    assert torch.add(mask.to(DEVICE), True, out=out).tolist() == [1, 1]


def test_complex_numbers_are_conjugated_in_place():
    numbers = torch.tensor([1 + 2j, -3j])
    assert numbers.to(DEVICE).conj_physical_().tolist() == numbers.conj().tolist()


@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (2, 1, 3)])
def test_strides_along_dims_of_one_element_are_kept_whichever_call_came_first(shape):
    host = torch.arange(100.0)
    for strides in itertools.product((1, 2, 8), repeat=len(shape)):
        expected = host.as_strided(shape, strides) * 2 - 1
        got = host.to(DEVICE).as_strided(shape, strides) * 2 - 1
        assert got.stride() == expected.stride()


def test_numbers_that_are_equal_promote_by_their_own_kind(run_python, tmp_path):
    """In a process whose caches are empty, as the first one's kind could be taken for all."""
    code = """
import torch
for dtype in (torch.float32, torch.int64, torch.bool):
    host = torch.ones(3, dtype=dtype)
    for number in (0.5, 0.5 + 0j, 1, True):
        assert (host.to("tpu") * number).dtype == (host * number).dtype, (dtype, number)
"""
    run_python(code, TORCH_TPU_CACHE_DIR=str(tmp_path))
