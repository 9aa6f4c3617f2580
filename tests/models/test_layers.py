"""Layers whose state or randomness makes them easy to get wrong."""

import copy

import pytest
import torch
from architectures import GPT, mlp
from torch import nn
from torch.nn import functional as F
from twins import DEVICE, assert_same, assert_same_on_both, gradients, state, to, twins


def _randn(*sizes, seed=1):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_statistics_agree_after_twenty_steps_and_serve_eval(momentum):
    models = twins(lambda: nn.BatchNorm2d(3, momentum=momentum))
    for number in range(20):
        batch = _randn(4, 3, 5, 5, seed=number) * 3 + number
        assert_same(models[1](to(DEVICE, batch)), models[0](batch), rtol=1e-4, atol=1e-4)
    assert_same(state(models[1]), state(models[0]))
    assert int(models[1].num_batches_tracked) == 20
    for model in models:
        model.eval()
    assert_same(models[1](to(DEVICE, batch)), models[0](batch), rtol=1e-4, atol=1e-4)


def test_dropout_keeps_the_share_it_should_and_scales_it():
    kept = F.dropout(torch.ones(100_000, device=DEVICE), 0.3)
    assert set(kept.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    assert abs((kept != 0).float().mean().item() - 0.7) < 0.01


def test_dropout_of_nothing_and_of_everything():
    x = _randn(50).to(DEVICE)
    assert torch.equal(F.dropout(x, 0.0), x)
    assert torch.equal(F.dropout(x, 1.0), torch.zeros_like(x))
    assert torch.equal(nn.Dropout(0.5).eval()(x), x)


@pytest.mark.parametrize("p", [0.25, 1.0])
def test_dropout_backward_uses_the_mask_of_its_forward(p):
    x = torch.ones(1000, device=DEVICE, requires_grad=True)
    out = F.dropout(x, p)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


def test_dropout_differs_each_call_and_repeats_with_the_seed_in_every_mode():
    x, draws = torch.ones(1000, device=DEVICE), []
    for mode in ("strict", "debug", "strict"):
        with torch.tpu.set_eager_mode(mode):
            torch.manual_seed(7)
            draws.append((F.dropout(x, 0.5), F.dropout(x, 0.5), torch.randn(5, device=DEVICE)))
    first = draws[0]
    assert not torch.equal(first[0], first[1])
    for other in draws[1:]:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_vae_sampling_has_the_moments_it_should():
    mean = torch.tensor([0.0, 2.0], device=DEVICE, requires_grad=True)
    scale = torch.tensor([1.0, 0.5], device=DEVICE, requires_grad=True)
    samples = torch.distributions.Normal(mean, scale).rsample((50_000,))
    torch.testing.assert_close(samples.mean(0).cpu(), mean.detach().cpu(), rtol=0, atol=0.02)
    torch.testing.assert_close(samples.std(0).cpu(), scale.detach().cpu(), rtol=0, atol=0.02)
    samples.mean(0).sum().backward()
    torch.testing.assert_close(mean.grad.cpu(), torch.ones(2))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences(kind):
    models = twins(lambda: kind(4, 3, num_layers=2, bidirectional=True, batch_first=True))
    batch, lengths, results = _randn(3, 5, 4), torch.tensor([5, 2, 4]), []
    for model, device in zip(models, ("cpu", DEVICE), strict=True):
        packed = nn.utils.rnn.pack_padded_sequence(
            batch.to(device), lengths, batch_first=True, enforce_sorted=False
        )
        output, hidden = model(packed)
        padded, seen = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        assert torch.equal(seen, lengths)
        padded.square().sum().backward()
        results.append((padded, hidden))
    assert_same(results[1], results[0], rtol=1e-4, atol=1e-5)
    assert_same(gradients(models[1]), gradients(models[0]), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_recurrent_cells(kind, bias):
    models = twins(lambda: kind(4, 3, bias=bias))
    assert_same(models[1](to(DEVICE, _randn(2, 4))), models[0](_randn(2, 4)))


@pytest.mark.parametrize("mask", ["none", "padding", "causal", "both"])
@pytest.mark.parametrize("training", [True, False])
def test_transformer_encoder_trains_and_takes_its_fast_path_in_eval(mask, training):
    def build():
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(training)

    models, batch = twins(build), _randn(2, 4, 8)
    padding = torch.tensor([[False] * 4, [False, False, True, True]])
    causal = nn.Transformer.generate_square_subsequent_mask(4) == float("-inf")
    masks = {
        "src_key_padding_mask": padding if mask in ("padding", "both") else None,
        "mask": causal if mask in ("causal", "both") else None,
    }
    with torch.set_grad_enabled(training):
        expected, got = (
            models[0](batch, **masks),
            models[1](*to(DEVICE, [batch]), **to(DEVICE, masks)),
        )
    assert_same(got, expected, rtol=1e-4, atol=1e-5)
    if training:
        expected.square().sum().backward()
        got.square().sum().backward()
        assert_same(gradients(models[1]), gradients(models[0]), rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_transformer_encoder_keeps_its_rows_padded_where_the_cpu_packs_them():
    def build():
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        return nn.TransformerEncoder(layer, 2).eval()

    models = twins(build)
    batch, padding = _randn(2, 4, 8), torch.tensor([[False] * 4, [False, False, True, True]])
    with torch.no_grad():
        packed = models[0](batch, src_key_padding_mask=padding)
        got = models[1](batch.to(DEVICE), src_key_padding_mask=padding.to(DEVICE))
    assert torch.equal(packed[padding], torch.zeros(2, 8))
    assert_same(got[~padding.to(DEVICE)], packed[~padding], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weights", [True, False])
def test_multihead_attention(weights):
    models = twins(lambda: nn.MultiheadAttention(8, 2, batch_first=True, kdim=6, vdim=5))
    inputs = _randn(2, 3, 8), _randn(2, 4, 6), _randn(2, 4, 5)
    expected = models[0](*inputs, need_weights=weights)
    got = models[1](*to(DEVICE, list(inputs)), need_weights=weights)
    assert_same(list(got), list(expected), rtol=1e-4, atol=1e-5)


ATTENTION = {
    "plain": {},
    "causal": {"is_causal": True},
    "grouped": {"enable_gqa": True},
    "boolean mask": {"attn_mask": _randn(5, 5) > -0.5},
    "additive mask": {"attn_mask": _randn(2, 1, 5, 5)},
    "a row fully masked": {"attn_mask": torch.arange(5)[:, None].expand(5, 5) != 2},
    "scaled": {"scale": 0.3},
}


@pytest.mark.parametrize("name", ATTENTION)
def test_scaled_dot_product_attention_and_its_gradients(name):
    groups = 2 if name == "grouped" else 4
    heads = [_randn(2, n, 5, 6, seed=s) for s, n in enumerate((4, groups, groups))]
    results = []
    for device in ("cpu", DEVICE):
        leaves = [each.to(device).requires_grad_() for each in heads]
        out = F.scaled_dot_product_attention(*leaves, **to(device, dict(ATTENTION[name])))
        results.append((out, torch.autograd.grad(out.square().sum(), leaves)))
    assert_same(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_an_attention_mask_that_learns_gets_its_gradient():
    def gradient(q, k, v, mask):
        leaf = mask.detach().requires_grad_()
        F.scaled_dot_product_attention(q, k, v, attn_mask=leaf).square().sum().backward()
        return leaf.grad

    heads = [_randn(2, 4, 5, 6, seed=s) for s in range(3)]
    for sizes in ((5, 5), (2, 4, 5, 5), (1, 4, 5, 5)):
        assert_same_on_both(gradient, *heads, _randn(*sizes, seed=9), rtol=1e-4, atol=1e-5)


def test_embedding_bag_with_weights_padding_and_frequencies():
    indices, offsets = torch.tensor([1, 2, 0, 4, 4, 3]), torch.tensor([0, 2, 2, 4])
    weights = _randn(6)
    results = []
    for device in ("cpu", DEVICE):
        table, share = (x.to(device).requires_grad_() for x in (_randn(6, 3), weights))
        out = F.embedding_bag(
            *to(device, [indices]), table, offsets.to(device), mode="sum",
            per_sample_weights=share, padding_idx=4,
        )  # fmt: skip
        results.append((out, torch.autograd.grad(out.square().sum(), [table, share])))
    assert_same(results[1], results[0])


def test_tied_weights_stay_tied_through_moving_training_and_loading():
    model = GPT().to(DEVICE)
    assert model.head.weight is model.tokens.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.tensor([[1, 2, 3]], device=DEVICE)).square().mean().backward()
    optimizer.step()
    assert model.head.weight is model.tokens.weight
    other = GPT().to(DEVICE)
    other.load_state_dict(model.state_dict())
    assert other.head.weight is other.tokens.weight
    assert_same(state(other), state(model.cpu()))
    assert model.head.weight is model.tokens.weight


def test_load_state_dict_takes_a_cpu_models_weights_and_gives_them_back():
    source, target = mlp(), mlp().to(DEVICE)
    before = [p.data_ptr() for p in target.parameters()]
    assert str(target.load_state_dict(source.state_dict())) == "<All keys matched successfully>"
    assert [p.data_ptr() for p in target.parameters()] == before
    assert_same(state(target), state(source))
    again = mlp()
    again.load_state_dict(copy.deepcopy(target).state_dict())
    torch.testing.assert_close(state(again), state(source))


def test_default_device_with_a_data_loader():
    data = torch.utils.data.TensorDataset(torch.arange(10.0, device="cpu"), torch.arange(10))
    with torch.device(DEVICE):
        model = nn.Linear(1, 1)
        assert model.weight.device.type == DEVICE
    torch.set_default_device(DEVICE)
    try:
        generator = torch.Generator(DEVICE).manual_seed(3)
        loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, generator=generator)
        seen = torch.cat([batch[0].cpu() for batch in loader])
        plain = torch.utils.data.DataLoader(data, batch_size=4)
        assert [batch[1].tolist() for batch in plain][0] == [0, 1, 2, 3]
    finally:
        torch.set_default_device(None)
    assert sorted(seen.tolist()) == list(range(10)) and seen.tolist() != list(range(10))
