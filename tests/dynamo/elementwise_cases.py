"""A call of any op that works element by element, made from its schema."""

import functools

_KINDS = {
    "floats": lambda a, shape: a.uniform(*shape),
    "integers": lambda a, shape: a.integers(shape, 7, 1),
    "masks": lambda a, shape: a.mask(*shape),
}
_NUMBERS = {"floats": 0.5, "integers": 2, "masks": True}
_OTHERS = {"bool": False, "str": "floor", "Optional[str]": "floor"}


def _argument(argument, kind, a):
    name = str(argument.type)
    if name == "Tensor":
        return _KINDS[kind](a, (a.s, a.t))
    if argument.has_default_value():
        return argument.default_value
    return _NUMBERS[kind] if "number" in name or name == "float" else _OTHERS.get(name)


def _call(overload, kind, a):
    arguments = [each for each in overload._schema.arguments if not each.is_out]
    positional = [_argument(each, kind, a) for each in arguments if not each.kwarg_only]
    named = {each.name: _argument(each, kind, a) for each in arguments if each.kwarg_only}
    named.pop("generator", None)
    return (*positional, named)


def elementwise_case(overload, arguments):
    """A case with the first kind of elements that PyTorch takes; None where it takes none."""
    for kind in _KINDS:
        case = functools.partial(_call, overload, kind)
        *positional, named = case(arguments(3, 2))
        try:
            overload(*positional, **named)
        except (RuntimeError, NotImplementedError):
            continue
        return case
    return None
