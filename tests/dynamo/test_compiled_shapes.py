"""Compiled functions of many sizes: PyTorch's results from few programs."""

import random

import pytest
import torch
from compiling import compiled, programs_got, randn
from torch import nn
from torch.nn import functional as F
from twins import DEVICE, assert_same, twins


class Attending(nn.Module):
    """Embeds tokens, attends to those before, predicts the next."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(50, 32), nn.LayerNorm(32)
        self.qkv, self.head = nn.Linear(32, 96), nn.Linear(32, 50)

    def forward(self, ids):
        x = self.embed(ids)
        batch, length, width = x.shape
        q, k, v = (
            each.view(batch, length, 4, 8).transpose(1, 2)
            for each in self.qkv(self.norm(x)).split(width, 2)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(x + attended.transpose(1, 2).reshape(batch, length, width))


def test_a_model_trains_at_every_length_with_one_pair_of_programs_for_a_bucket():
    host, device = twins(Attending)
    run = compiled(device, dynamic=True)
    for length in (5, 7, 8, 12, 6):
        ids = torch.randint(0, 50, (2, length), generator=torch.Generator().manual_seed(length))
        on_device = ids.to(DEVICE)
        before = programs_got()
        logits = run(on_device)
        assert programs_got() - before == (length in (5, 12))  # bounds of 8 and 16
        expected = host(ids)
        assert_same(logits.detach(), expected.detach())
        for each, target in ((logits, on_device), (expected, ids)):
            F.cross_entropy(each.flatten(0, 1), target.flatten()).backward()
        pairs = list(zip(device.parameters(), host.parameters(), strict=True))
        assert_same([a.grad for a, _ in pairs], [b.grad for _, b in pairs])
        for parameter in (each for pair in pairs for each in pair):
            parameter.grad = None


def test_two_hundred_lengths_cost_at_most_twelve_programs():
    host, device = twins(lambda: nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)))
    run = compiled(device, dynamic=True)
    programs = 0
    for length in random.Random(0).sample(range(2, 2049), 200):
        x = randn(2, length, 8, seed=length)
        on_device = x.to(DEVICE)
        before = programs_got()
        with torch.no_grad():
            result = run(on_device)
        programs += programs_got() - before
        assert_same(result, host(x).detach())
    assert programs <= 12


def test_the_second_shape_opens_a_size_by_itself():
    def function(x):
        return (x.mean(0) + x.sum()).softmax(-1)

    run, programs = compiled(function), []
    for rows in (5, 6, 7, 8, 30, 31):
        x = randn(rows, 4, seed=rows)
        on_device = x.to(DEVICE)
        before = programs_got()
        assert_same(run(on_device), function(x))
        programs.append(programs_got() - before)
    assert programs == [1, 1, 0, 0, 1, 0]


def test_a_bound_of_the_users_is_one_program_for_the_range():
    def function(x, y):
        return torch.cat([x, x[1:]]) @ y.T

    run, y = compiled(function), randn(3, 4)
    programs = 0
    for rows in (5, 17, 33, 60, 64):
        x = randn(rows, 4, seed=rows)
        on_device, weight = x.to(DEVICE), y.to(DEVICE)
        torch._dynamo.mark_dynamic(on_device, 0, min=3, max=64)
        before = programs_got()
        assert_same(run(on_device, weight), function(x, y))
        programs += programs_got() - before
    assert programs == 1


def test_a_size_that_was_maybe_dynamic_is_open_from_the_first_call():
    run, programs = compiled(lambda x: x.cumsum(0).flip(0)), []
    for rows in (5, 7):
        x = randn(rows, 3, seed=rows)
        on_device = x.to(DEVICE)
        torch._dynamo.maybe_mark_dynamic(on_device, 0)
        before = programs_got()
        assert_same(run(on_device), x.cumsum(0).flip(0))
        programs.append(programs_got() - before)
    assert programs == [1, 0]


@pytest.mark.parametrize(
    ("buckets", "programs"),
    [("exact", [1, 1, 1, 1]), ([6, 100], [1, 0, 1, 0]), ("powers_of_two", [1, 0, 1, 0])],
    ids=str,
)
def test_buckets_decide_how_many_programs_there_are(buckets, programs):
    run = torch.compile(
        torch.sin, backend="tpu", dynamic=True, fullgraph=True, options={"buckets": buckets}
    )
    got = []
    for rows in (5, 6, 9, 16):
        x = randn(rows, 3).to(DEVICE)
        before = programs_got()
        run(x)
        got.append(programs_got() - before)
    assert got == programs


def test_an_op_that_no_bound_fits_gets_its_sizes_and_says_so(caplog):
    def function(x):
        return torch.linalg.inv(x @ x.T + 10 * torch.eye(x.shape[0], device=x.device))

    run = compiled(function, dynamic=True)
    for rows in (3, 4, 5):
        x = randn(rows, 6, seed=rows)
        assert_same(run(x.to(DEVICE)), function(x))
    said = [each.getMessage() for each in caplog.records if "is made for every" in each.message]
    assert len(said) == 1 and "linalg_inv_ex" in said[0] and "test_compiled_shapes.py" in said[0]


def test_sizes_that_values_decide_are_open():
    def function(x):
        return (x[x > 0] * 2).sum() + torch.nonzero(x > 0).float().mean()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = compiled(function)
        for seed in (1, 2, 3):
            x = randn(20, seed=seed)
            assert_same(run(x.to(DEVICE)), function(x))


def test_another_storage_offset_needs_no_other_program():
    def function(row):
        return row.sin() + 1

    run, table = compiled(function), randn(10, 6)
    on_device, programs = table.to(DEVICE), []
    for place in range(10):
        before = programs_got()
        assert_same(run(on_device[place]), function(table[place]))
        programs.append(programs_got() - before)
    assert programs == [1] + [0] * 9


def test_writes_through_views_at_many_offsets_need_one_program():
    def function(row):
        row.mul_(2)
        return row.sum()

    run, table = compiled(function), randn(10, 6)
    on_device, programs = table.to(DEVICE), 0
    for place in range(10):
        before = programs_got()
        run(on_device[place])
        programs += programs_got() - before
        function(table[place])
    assert_same(on_device, table)
    assert programs == 1


def test_an_argument_outside_the_program_keeps_its_values():
    """Padding an argument's storage to the bound changes nothing that anybody sees."""
    run = compiled(lambda x: x + 1, dynamic=True)
    x = randn(5, 3)
    on_device = x.to(DEVICE)
    view = on_device[1:, :2]
    run(on_device)
    assert_same(on_device, x)
    assert_same(view, x[1:, :2])
    on_device.mul_(2)
    assert_same(view, 2 * x[1:, :2])


def test_a_part_of_a_tensor_of_any_length_is_written_where_it_is():
    def function(part):
        part.mul_(2).add_(1)
        return part.sum(0)

    run, base = compiled(function, dynamic=True), randn(12, 3)
    on_device = base.to(DEVICE)
    for rows in (slice(0, 5), slice(2, 9), slice(1, 8, 2)):
        assert_same(run(on_device[rows]), function(base[rows]))
        assert_same(on_device, base)


def test_a_users_bound_holds_where_the_host_runs_a_part():
    def function(x):
        return x.sin() + (x * 2).cpu().cos().to(x.device)

    run, programs = compiled(function), []
    for rows in (5, 33):
        x = randn(rows, 2, seed=rows)
        on_device = x.to(DEVICE)
        torch._dynamo.mark_dynamic(on_device, 0, min=2, max=64)
        run(on_device)
        before = programs_got()
        assert_same(run(on_device), function(x))
        programs.append(programs_got() - before)
    assert programs == [0, 0]
