"""Autocast, gradient modes and Dynamo's own switches around and inside compiled functions."""

import pytest
import torch
from compiling import BACKEND, assert_compiles, compiled, graphs, randn
from torch import nn
from torch.nn import functional as F
from twins import DEVICE, assert_same

X, W = randn(3, 4), randn(4, 4, seed=2)


def _inside(function, **options):
    def run(x, *rest):
        with torch.autocast(x.device.type, **{"dtype": torch.bfloat16, **options}):
            return function(x, *rest)

    return run


def _model(x, w):
    return F.softmax((x @ w).relu(), -1) @ w


def _nested(x, w):
    first = x @ w
    with torch.autocast(x.device.type, enabled=False):
        second = x @ w
    return first, second


AUTOCAST = {
    "a model": _inside(_model),
    "off within": _inside(_nested),
    "float16": _inside(torch.matmul, dtype=torch.float16),
    "off": _inside(torch.matmul, enabled=False),
    "a list of lower and float32 ops": _inside(lambda x, w: ((x @ w).exp(), (x @ w) + x)),
    "asked for its dtype": _inside(lambda x, w: x.to(torch.get_autocast_dtype(x.device.type))),
}


@pytest.mark.parametrize("name", AUTOCAST)
def test_autocast_inside_is_eagers(name):
    x, w = X.to(DEVICE), W.to(DEVICE)
    torch.testing.assert_close(compiled(AUTOCAST[name])(x, w), AUTOCAST[name](x, w))


def test_autocast_inside_is_differentiated():
    results = []
    for call in (AUTOCAST["a model"], compiled(AUTOCAST["a model"])):
        x, w = (each.to(DEVICE).requires_grad_() for each in (X, W))
        y = call(x, w)
        y.float().square().sum().backward()
        # A program leaves the sum of two gradients in float32; eager mode rounds it.
        results.append((y.detach(), x.grad, w.grad.bfloat16()))
    torch.testing.assert_close(results[1], results[0])


def test_autocast_around_decides_the_dtypes_of_each_call():
    run, x, w = compiled(torch.matmul), X.to(DEVICE), W.to(DEVICE)
    dtypes = [run(x, w).dtype]
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast(DEVICE, dtype=dtype):
            dtypes.append(run(x, w).dtype)
    dtypes.append(run(x, w).dtype)
    assert dtypes == [torch.float32, torch.bfloat16, torch.float16, torch.float32]


def test_tpus_own_autocast_and_decorator():
    @torch.tpu.amp.autocast()
    def decorated(x):
        return x @ x.mT

    def entered(x):
        with torch.tpu.amp.autocast(dtype=torch.float16):
            return x @ x.mT

    x = X.to(DEVICE)
    assert compiled(decorated)(x).dtype == torch.bfloat16
    assert compiled(entered)(x).dtype == torch.float16


def test_gradient_scaling_trains_a_compiled_model():
    torch.manual_seed(0)
    model = nn.Linear(4, 1).to(DEVICE)
    run, optimizer = compiled(model), torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=8.0)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.float16):
            loss = (run(X.to(DEVICE)) - 1).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


class Mixed(torch.autograd.Function):
    @staticmethod
    @torch.tpu.amp.custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x @ x.mT

    @staticmethod
    @torch.tpu.amp.custom_bwd
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return (gradient + gradient.mT) @ x


def test_custom_forward_and_backward_keep_their_precision():
    def function(x):
        with torch.autocast(DEVICE):
            return Mixed.apply(x)

    results = []
    for call in (function, compiled(function)):
        x = X.to(DEVICE).requires_grad_()
        y = call(x)
        y.sum().backward()
        results.append((y.detach(), x.grad))
    assert results[0][0].dtype == torch.float32
    torch.testing.assert_close(results[1], results[0])


GRADIENT_MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "enable_grad": torch.enable_grad,
}


@pytest.mark.parametrize("name", GRADIENT_MODES)
def test_gradient_modes_around_and_inside(name):
    mode = GRADIENT_MODES[name]

    def function(x):
        y = x.sin()
        with mode():
            z = y * 2
        return y, z

    x = X.to(DEVICE).requires_grad_()
    expected, got = function(x), compiled(function)(x)
    assert [each.requires_grad for each in got] == [each.requires_grad for each in expected]
    with mode():
        expected, got = function(x), compiled(function)(x)
    assert [each.requires_grad for each in got] == [each.requires_grad for each in expected]
    assert [each.is_inference() for each in got] == [each.is_inference() for each in expected]
    torch.testing.assert_close(got, expected)


def test_inference_tensors_are_taken_as_inputs():
    with torch.inference_mode():
        x = X.to(DEVICE) * 2
    run = compiled(lambda x: x.sin())
    with torch.inference_mode():
        assert_same(run(x), (X * 2).sin())


def test_a_disabled_function_runs_eagerly_within():
    seen = []

    @torch.compiler.disable
    def eager(x):
        seen.append(torch.compiler.is_compiling())
        return x.cos()

    assert_compiles(lambda x: eager(x.sin()) + 1, X, fullgraph=False, calls=1)
    assert seen == [False, False] and graphs() == 2


def test_stances():
    run, x = compiled(lambda x: x * 2), X.to(DEVICE)
    with torch.compiler.set_stance("force_eager"):
        assert_same(run(x), X * 2)
    assert graphs() == 0
    run(x)
    with torch.compiler.set_stance("fail_on_recompile"):
        assert_same(run(x), X * 2)
        with pytest.raises(RuntimeError, match="recompile"):
            run(x.double())
    with torch.compiler.set_stance("eager_on_recompile"):
        assert_same(run(x.double()), X.double() * 2)
    assert graphs() == 1


def test_explain_counts_graphs_and_breaks():
    def function(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    found = torch._dynamo.explain(function)(X.to(DEVICE))
    assert (found.graph_count, found.graph_break_count) == (2, 1)


def test_the_backend_is_listed():
    assert BACKEND in torch.compiler.list_backends()


def test_compiling_within_a_default_device():
    with torch.device(DEVICE):
        run = compiled(lambda x: x + torch.ones(4))
        assert_same(run(X.to(DEVICE)), X + 1)


def test_deterministic_algorithms_stay_so():
    def function(x, places):
        return torch.zeros(4, device=x.device).index_add(0, places, x)

    places = torch.tensor([0, 1, 1])
    torch.use_deterministic_algorithms(True)
    try:
        assert_compiles(function, randn(3), places)
    finally:
        torch.use_deterministic_algorithms(False)


def test_saved_tensor_hooks_see_what_a_graph_saves():
    packed = []

    def pack(x):
        packed.append(x.device.type)
        return x.cpu()

    x = X.to(DEVICE).requires_grad_()
    run = compiled(lambda x: (x.sin() * x).sum())
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x.to(DEVICE)):
        y = run(x)
    y.backward()
    host = X.clone().requires_grad_()
    (host.sin() * host).sum().backward()
    assert packed and set(packed) == {DEVICE}
    assert_same(x.grad, host.grad)


def test_compiled_autograd_compiles_the_backward_pass():
    from torch._dynamo import compiled_autograd

    gradients = []
    for device in ("cpu", DEVICE):
        x = X.to(device).clone().requires_grad_()
        loss = (x @ W.to(device)).sin().sum()
        if device == "cpu":
            loss.backward()
        else:
            with compiled_autograd._enable(torch.compile(backend=BACKEND, fullgraph=True)):
                loss.backward()
        gradients.append(x.grad)
    assert_same(gradients[1], gradients[0])
    assert graphs() == 1
