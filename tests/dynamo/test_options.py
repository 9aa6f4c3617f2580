"""Options and modes of torch.compile on tpu: what each does, and what a mistake says."""

import dataclasses
import logging
import pickle

import pytest
import torch

from torch_tpu.dynamo import options as module
from torch_tpu.dynamo.options import FIELDS, MODES, Options

FAST_MATH = "xla_cpu_enable_fast_math"


def product(x, y):
    return torch.relu(x @ y) + 1


def operands():
    return torch.randn(6, 6), torch.randn(6, 6)


def compiled(function=product, **settings):
    return torch.compile(function, backend="tpu", **settings)


def check(function, *inputs, expected=product):
    torch.testing.assert_close(
        function(*(each.to("tpu") for each in inputs)).cpu(), expected(*inputs)
    )


@pytest.mark.parametrize(
    "flags",
    [
        {"xla_flags": {FAST_MATH: False}},
        {"xla_flags": {FAST_MATH: "false"}},
        {"xla_flags": [f"--{FAST_MATH}=false"]},
        {"xla_flags": f"{FAST_MATH}=false"},
        {FAST_MATH: False},
    ],
)
def test_xla_flags_are_one_option_however_they_are_written(flags):
    assert Options.parse(flags).xla_flags == ((FAST_MATH, False),)
    check(compiled(options=flags), *operands())


def test_xla_flags_are_part_of_the_key_of_programs():
    plain, flagged = Options.parse({}), Options.parse({FAST_MATH: True})
    assert plain.key() != flagged.key()
    assert flagged.key() == Options.parse({"xla_flags": [f"{FAST_MATH}=true"]}).key()


def test_xla_flags_change_the_program(tmp_path):
    texts = []
    for level in (0, 3):
        folder = tmp_path / str(level)
        options = {"xla_backend_optimization_level": level, "dump_dir": str(folder)}
        check(compiled(options=options), *operands())
        texts += [path.name for path in folder.iterdir()]
        torch._dynamo.reset()
    assert len(set(texts)) == 2  # folders are named after the programs' keys


@pytest.mark.parametrize(
    ("flag", "value", "reason"),
    [
        ("xla_no_such_flag", 1, "No such compile option: 'xla_no_such_flag'"),
        (FAST_MATH, "perhaps", "'perhaps' is not a valid bool value"),
    ],
)
def test_a_wrong_xla_flag_says_what_the_plugin_says(flag, value, reason):
    function = compiled(options={"xla_flags": {flag: value}})
    with pytest.raises(RuntimeError, match="the plugin refuses the XLA flag") as raised:
        function(*(each.to("tpu") for each in operands()))
    assert f"{flag}={value!r}" in str(raised.value)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"xla_flags": 3}, 'a dict, or a list of "name=value"'),
        ({"xla_flags": ["xla_flag"]}, 'a dict, or a list of "name=value"'),
        ({"matmul_precision": "best"}, "one of highest, high, medium"),
        ({"donate": 1}, "True or False"),
        ({"buckets": "thirds"}, "'powers_of_two', 'exact' or a list of sizes"),
        ({"buckets": [8, 0]}, "'powers_of_two', 'exact' or a list of sizes"),
        ({"bucket_size": 0}, "a whole number from 1 on"),
        ({"limits": [8, 4]}, "a pair of sizes"),
        ({"dump_dir": 1}, "a directory"),
        ({"debug_callback": "print"}, "a function of the StableHLO text"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_torch_compile(options, expected):
    with pytest.raises(ValueError, match="is not understood: expected") as raised:
        compiled(options=options)
    assert expected in str(raised.value)


def test_an_unknown_option_is_refused_by_torch_compile_with_the_known_names():
    with pytest.raises(ValueError, match="unknown option 'bogus'") as raised:
        compiled(options={"bogus": 1})
    for name in FIELDS:
        assert name in str(raised.value)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_of_pytorch_is_accepted(mode):
    check(compiled(mode=mode), *operands())


def test_an_unknown_mode_is_refused_by_torch_compile():
    with pytest.raises(ValueError, match="mode 'fastest' is not one of default"):
        compiled(mode="fastest")


def test_a_mode_without_effect_is_noted_once(caplog):
    caplog.set_level(logging.INFO, "torch_tpu")
    module._note.cache_clear()
    for _ in range(2):
        compiled(mode="max-autotune")
    assert caplog.text.count('mode="max-autotune" changes nothing') == 1


def dots(text):
    return [line for line in text.splitlines() if "stablehlo.dot" in line]


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_matmul_precision_is_what_the_setting_would_do(precision):
    inputs = [each.to("tpu") for each in operands()]
    by_option, by_setting = [], []
    compiled(options={"matmul_precision": precision, "debug_callback": by_option.append})(*inputs)
    torch._dynamo.reset()
    torch.set_float32_matmul_precision(precision)
    compiled(options={"debug_callback": by_setting.append})(*inputs)
    assert dots(by_option[0]) == dots(by_setting[0]) != []


def test_matmul_precision_changes_the_program():
    texts = []
    for precision in ("highest", "medium"):
        options = {"matmul_precision": precision, "debug_callback": texts.append}
        check(compiled(options=options), *operands())
        torch._dynamo.reset()
    assert dots(texts[0]) != dots(texts[1])


@pytest.mark.parametrize(("donate", "aliases"), [(True, 1), (False, 0)])
def test_donate_decides_whether_inputs_are_reused(donate, aliases):
    texts = []
    options = {"donate": donate, "debug_callback": texts.append}
    written = torch.zeros(6, device="tpu")

    compiled(lambda x: x.add_(1), options=options)(written)
    torch.testing.assert_close(written.cpu(), torch.ones(6))
    assert texts[0].count("tf.aliasing_output") + texts[0].count("jax.buffer_donor") == aliases


def test_dump_dir_takes_the_graph_the_stablehlo_and_the_optimised_hlo(tmp_path):
    check(compiled(options={"dump_dir": str(tmp_path)}), *operands())
    (folder,) = tmp_path.iterdir()
    assert "torch.ops.aten.mm.default" in (folder / "graph.py").read_text()
    assert "stablehlo.dot_general" in (folder / "stablehlo.mlir").read_text()
    assert "HloModule" in (folder / "optimized_hlo.txt").read_text()


def test_dump_dir_takes_texts_of_programs_that_the_cache_has(tmp_path):
    check(compiled(), *operands())
    torch._dynamo.reset()
    check(compiled(options={"dump_dir": str(tmp_path)}), *operands())
    assert len(list(tmp_path.glob("*/optimized_hlo.txt"))) == 1


def test_every_program_of_a_training_step_is_dumped(tmp_path):
    function = compiled(
        lambda x, y: product(x, y).sum(),
        options={"dump_dir": str(tmp_path), "custom_module_name": "step"},
    )
    x = torch.randn(6, 6, device="tpu", requires_grad=True)
    function(x, x).backward()
    names = sorted(path.name.rsplit("_of_")[0] for path in tmp_path.iterdir())
    assert names == ["step_backward", "step_forward"]


def test_debug_callback_is_called_with_the_stablehlo():
    texts = []
    check(compiled(options={"debug_callback": texts.append}), *operands())
    assert len(texts) == 1
    assert "stablehlo.dot_general" in texts[0]


def test_custom_module_name_names_the_graph(tmp_path):
    options = {"custom_module_name": "my model", "dump_dir": str(tmp_path)}
    check(compiled(options=options), *operands())
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("my_model_inference_of_3_nodes_")


def test_what_is_not_serializable_stays_out_of_the_cache(monkeypatch):
    from torch_tpu.compiler import store

    kept = []
    monkeypatch.setattr(store, "program", lambda source, make: kept.append(source) or make())
    check(compiled(options={"serializable": False}), *operands())
    assert kept == []
    torch._dynamo.reset()
    check(compiled(), *operands())
    assert [type(source).__name__ for source in kept] == ["GraphSource"]


def test_async_compile_is_accepted():
    check(compiled(options={"async_compile": True}), *operands())


def test_two_calls_with_other_options_do_not_share_them():
    texts = []
    x, y = operands()
    check(compiled(), x, y)
    torch._dynamo.reset()  # PyTorch's own cache of graphs outlives it
    check(compiled(options={"debug_callback": texts.append}), x, y)
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, {1: 1, 2: 2, 3: 4, 9: 16, 64: 64}),
        ({"buckets": "exact"}, {1: 1, 7: 7, 100: 100}),
        ({"buckets": [32, 8]}, {1: 8, 8: 8, 9: 32, 33: 64, 65: 96}),
        ({"bucket_size": 10}, {1: 10, 10: 10, 11: 20, 95: 100}),
        ({"bucket_size": 10, "num_dynamic_buckets": 3}, {1: 10, 21: 30, 31: 60, 61: 90}),
        ({"limits": [16, 100]}, {1: 16, 17: 32, 65: 100, 100: 100, 101: 101}),
    ],
)
def test_an_open_size_is_rounded_up_to_a_bucket(options, sizes):
    chosen = Options.parse(options)
    assert {size: chosen.bucket(size) for size in sizes} == sizes


def test_options_pickle_without_the_callback():
    options = Options.parse({FAST_MATH: True, "buckets": [8], "debug_callback": print})
    again = pickle.loads(pickle.dumps(options))
    assert again == options
    assert again.debug_callback is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        again.donate = False


def test_custom_compiler_options_act_inside_and_nest():
    texts = []
    with torch.tpu.compiler.custom_compiler_options({"debug_callback": texts.append}):
        with torch.tpu.compiler.custom_compiler_options({FAST_MATH: False}):
            assert Options.parse({"donate": False}) == Options.parse(
                {FAST_MATH: False, "donate": False}
            )
        assert Options.parse({}) == Options()
        check(compiled(), *operands())
    assert len(texts) == 1
    torch._dynamo.reset()
    check(compiled(), *operands())
    assert len(texts) == 1


def test_options_of_torch_compile_win_over_those_around_it():
    with torch.tpu.compiler.custom_compiler_options({"donate": False, "bucket_size": 8}):
        chosen = Options.parse({"donate": True})
    assert (chosen.donate, chosen.bucket_size) == (True, 8)


def test_custom_compiler_options_refuses_unknown_names():
    with (
        pytest.raises(ValueError, match="unknown option 'bogus'"),
        torch.tpu.compiler.custom_compiler_options({"bogus": 1}),
    ):
        pass
