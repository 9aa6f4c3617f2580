"""Generating tokens: a decoder's step over a static cache is one program, whatever its place."""

import decoding
import pytest
import torch
from compiling import compiled, graphs, programs_got
from quick import quick_ones
from torch._dynamo.utils import counters
from twins import DEVICE


def _on_device(*values):
    return [each.to(DEVICE) for each in values]


def _tokens_of_cpu(prompt, length):
    model = decoding.make()
    return decoding.decode(model, model, *prompt, length)


@pytest.mark.parametrize("lengths", [(5, 5), (3, 5)], ids=["whole", "padded"])
def test_a_static_cache_takes_one_graph_for_prompts_and_one_for_steps(lengths):
    prompt, model = decoding.prompts(*lengths), decoding.make(DEVICE)
    expected, programs = _tokens_of_cpu(prompt, 16), []
    step = compiled(model, dynamic=False)
    for _ in range(2):
        got = decoding.decode(model, step, *_on_device(*prompt), 16)
        assert torch.equal(got.cpu(), expected)
        programs.append(programs_got())
    assert graphs() == 2 and not counters["graph_break"]
    assert programs[0] == programs[1]


def test_dynamic_prompts_of_one_bucket_share_a_program():
    model, got = decoding.make(DEVICE), []
    run = compiled(model, dynamic=True)

    def step(*arguments):
        before = programs_got()
        logits = run(*arguments)
        got.append(programs_got() - before)
        return logits

    for length in (9, 12, 15):
        prompt = decoding.prompts(length, length - 1)
        tokens = decoding.decode(model, step, *_on_device(*prompt), 24)
        assert torch.equal(tokens.cpu(), _tokens_of_cpu(prompt, 24))
    assert graphs() == 2 and sum(got) == 2


def test_sampled_tokens_are_those_of_eager_mode():
    def choose(logits):
        return torch.multinomial((logits / 0.7).softmax(-1), 1)[:, 0]

    prompt, model, sampled = _on_device(*decoding.prompts(4, 4)), decoding.make(DEVICE), []
    for step in (model, compiled(model, dynamic=False)):
        torch.manual_seed(3)
        sampled.append(decoding.decode(model, step, *prompt, 12, choose).cpu())
    assert torch.equal(*sampled)


FAMILIES = {
    "llama": {"intermediate_size": 64, "num_key_value_heads": 2},
    "qwen3": {"intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 8},
    "gpt2": {},
}


def _pretrained(family):
    transformers = pytest.importorskip(
        "transformers", reason="Hugging Face's generate() is what is compiled"
    )
    config = transformers.AutoConfig.for_model(
        family,
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
        **FAMILIES[family],
    )
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("family", quick_ones(FAMILIES, "llama"))
def test_transformers_compiles_the_step_by_itself_and_gives_the_cpus_tokens(family):
    model, prompt = _pretrained(family), decoding.prompts(3, 5)
    settings = {"max_new_tokens": 4, "do_sample": False}

    def generate(**more):
        tokens, real = (each.to(model.device) for each in prompt)
        return model.generate(tokens, attention_mask=real.long(), **settings, **more).cpu()

    expected, programs = generate(), []
    model.to(DEVICE)
    for _ in range(2):
        assert torch.equal(generate(cache_implementation="static"), expected)
        programs.append(programs_got())
    assert graphs() == 1 and not counters["graph_break"]
    assert programs[0] == programs[1]


def test_a_compiled_forward_of_transformers_takes_prompts_of_any_length():
    model = _pretrained("llama")
    twin = _pretrained("llama").to(DEVICE)
    twin.forward = compiled(twin.forward, dynamic=True)
    settings = {"max_length": 16, "do_sample": False, "cache_implementation": "static"}
    for length in (5, 7, 11):
        tokens, real = decoding.prompts(length, length)
        expected = model.generate(tokens, attention_mask=real.long(), **settings)
        tokens, real = _on_device(tokens, real.long())
        got = twin.generate(tokens, attention_mask=real, disable_compile=True, **settings)
        assert torch.equal(got.cpu(), expected)
    assert graphs() == 2 and not counters["graph_break"]
