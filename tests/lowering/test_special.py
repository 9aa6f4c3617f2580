"""Special functions beside CPU PyTorch."""

import math

import pytest
import torch
from shadow import Shadow, run_rule, run_samples, to_tensor
from torch.testing import assert_close
from torch.testing._internal.common_methods_invocations import op_db

aten = torch.ops.aten
NAMES = {
    "digamma", "igamma", "igammac", "lgamma", "polygamma", "special.entr", "special.erfcx",
    "special.log_ndtr", "special.ndtri", "special.xlog1py", "special.zeta", "xlogy",
}  # fmt: skip
OPS = [op for op in op_db if op.name in NAMES]
BESSEL = [
    "special_airy_ai", "special_bessel_j0", "special_bessel_j1", "special_bessel_y0",
    "special_bessel_y1", "special_i0e", "special_i1", "special_i1e", "i0",
    "special_modified_bessel_k0", "special_modified_bessel_k1",
    "special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1",
    "special_spherical_bessel_j0",
]  # fmt: skip
POLYNOMIALS = [
    f"special_{name}"
    for name in (
        *(f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"),
        "hermite_polynomial_h", "hermite_polynomial_he",
        "laguerre_polynomial_l", "legendre_polynomial_p",
    )
]  # fmt: skip


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.variant_test_name or op.name)
def test_samples(op):
    assert run_samples(op, torch.float32, limit=1).seen


@pytest.mark.parametrize("name", BESSEL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_bessel(name, dtype):
    x = torch.linspace(-12, 12, 97, dtype=dtype)
    x = torch.cat([x, torch.tensor([0.0, 1e-6, 2.09, 30, float("inf"), float("nan")], dtype=dtype)])
    with Shadow(rtol=1e-5, atol=1e-5) as shadow:
        getattr(aten, name).default(x)
    assert shadow.seen


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomial(name):
    x = torch.tensor([-2.0, -1.0, -0.3, 0.0, 0.5, 0.7, 1.0, 1.5])
    orders = torch.tensor([-1.0, -0.9, 0, 0.9, 1, 2, 5, 9, 12])
    packet = getattr(aten, name)
    with Shadow(rtol=1e-4, atol=1e-4) as shadow:
        packet.default(x[:, None], orders)
        packet.n_scalar(x, 3)
        packet.x_scalar(0.25, orders)
    assert sum(name in op for op in shadow.seen) == 3


def test_gamma_at_the_edges():
    edges = torch.tensor([-2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 30.0, float("inf"), float("nan")])
    with Shadow(rtol=1e-5, atol=1e-5):
        aten.digamma(edges)
        aten.igamma(edges[:, None], edges)
        aten.igammac(edges[:, None], edges)
        for order in (0, 1, 2, 3):
            aten.polygamma(order, edges)


@pytest.mark.parametrize("overload", ["xlogy", "special_xlog1py", "special_zeta"])
def test_number_and_tensor(overload):
    packet, x = getattr(aten, overload), torch.tensor([0.5, 2.0, 3.0])
    with Shadow() as shadow:
        for name in packet.overloads():
            if "out" in name or name == "default" or name.endswith("_"):
                continue
            first = name.lower() in ("scalar_self", "self_scalar")
            packet(*((2.0, x) if first else (x, 2.0)))
    assert shadow.seen


def test_erfinv_is_exact_to_the_last_digits_up_to_the_ends():
    inside = torch.cat([torch.linspace(-1, 1, 1001)[1:-1], 1 - torch.logspace(-7, -2, 50)])
    result = to_tensor(run_rule(aten.erfinv.default, (inside,), {}), torch.float32)
    assert_close(result.double(), torch.erfinv(inside.double()), rtol=3e-7, atol=0)
    with Shadow():
        torch.erfinv(torch.tensor([-1.0, 1.0, -2.0, math.nan, -0.0, 0.0]))
