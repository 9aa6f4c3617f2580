"""More of bounded_cases: nans and infinities are elements that no padding hides or comes before."""

import torch
from bounded_cases import add

aten = torch.ops.aten


def _extremes(rows, columns):
    """At most one of each in a row or a column, so that every place is one that PyTorch promises.

    Of a single element that is the nan.
    """
    values = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))
    for offset, extreme in enumerate((torch.nan, torch.inf, -torch.inf)):
        values.diagonal(offset).fill_(extreme)
    return values


def _of(*rest):
    return lambda a: (a.computed((a.s, a.t), lambda: _extremes(a.s, a.t)), *rest)


for _op in (
    aten.max.default,
    aten.min.default,
    aten.argmax.default,
    aten.argmin.default,
    aten.median.default,
    aten.nanmedian.default,
):
    add(_op, _of())
for _op in (
    aten.max.dim,
    aten.min.dim,
    aten.argmax.default,
    aten.argmin.default,
    aten.median.dim,
    aten.nanmedian.dim,
    aten.cummax.default,
    aten.cummin.default,
):
    add(_op, _of(0), _of(1))
for _op in (aten.amax.default, aten.amin.default, aten.logsumexp.default):
    add(_op, _of([0]), _of([1]))
for _dim in (0, 1):
    add(aten.aminmax.default, _of({"dim": _dim}))
    add(aten.kthvalue.default, _of(1, _dim))
    add(aten.sort.default, *(_of(_dim, descending) for descending in (False, True)))


def _more_than(few, *rest):
    """Of a few rows more than ``s``: of the smallest size, the nan is the last of the smallest."""
    return lambda a: (a.computed((a.s + few, 2), lambda: _extremes(a.s + few, 2)), *rest)


for _largest in (False, True):
    add(aten.topk.default, _more_than(0, 1, 0, _largest), _more_than(3, 4, 0, _largest))
