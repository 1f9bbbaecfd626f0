"""A matrix says what it means, or the error names file, key path and the allowed values."""

from __future__ import annotations

import pytest

from pytest_ngram.errors import MatrixError
from pytest_ngram.matrix.decode import decode_matrix


def test_a_good_matrix_is_read_whole(good: str) -> None:
    """Names resolve, defaults are filled in, and what a model does not choose is everything."""
    matrix = decode_matrix(good, "m.yaml")
    assert matrix.configs_of("alpha") == ("none", "mtp1", "ngram-cache+table")
    assert matrix.configs_of("beta") == ("none", "mtp1")
    assert matrix.prompt_sets_of("alpha") == ("chat", "code")
    assert matrix.models["beta"].generate is not None
    assert matrix.models["beta"].generate.target == 0.5
    assert matrix.profiles["smoke"].temperatures == (0.0,)
    assert matrix.hang_after_s == 120.0


@pytest.mark.parametrize(
    ("old", "new", "path", "allowed"),
    [
        ("warmup: hello", "warmup: hello\nmodel: {}", "model", "models"),
        ("path: a.gguf", "paht: a.gguf", "models.alpha.paht", "path"),
        ("target: 0.5", "tagret: 0.5", "models.beta.generate.tagret", "target"),
        ("types: [draft-mtp]", "types: [mtp]", "configs.mtp1.types[0]", "draft-mtp"),
        ("configs: [none, mtp1]", "configs: [none, mtp2]", "models.beta.configs[1]", "mtp1"),
        ("prompt_sets: [chat]", "prompt_sets: [chta]", "models.beta.prompt_sets[0]", "chat"),
        ("table: demo", "table: dmeo", "configs.ngram-cache+table.table", "demo"),
        ("prompts: {chat: 1}", "prompts: {caht: 1}", "profiles.smoke.prompts.caht", "chat"),
        ("corpus: {path: c.jsonl}", "corpus: {pth: c.jsonl}", "tables.demo.corpus.pth", "path"),
        (
            "corpus: {path: c.jsonl}",
            "corpus: {path: c}, on_bad_line: skip",
            "tables.demo.on_bad_line",
            "count",
        ),
    ],
)
def test_an_unknown_name_is_refused(good: str, old: str, new: str, path: str, allowed: str) -> None:
    """Every unknown key or reference is an error with its key path and the allowed values."""
    with pytest.raises(MatrixError) as caught:
        decode_matrix(good.replace(old, new), "m.yaml")
    text = str(caught.value)
    assert text.startswith(f"m.yaml: {path}: ")
    assert "allowed: " in text
    assert allowed in text.split("allowed: ")[1]


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("corpus: {path: c.jsonl}", "corpus: c.jsonl", "tables.demo.corpus"),
        ("blocks: 2", "blocks: 0", "profiles.smoke.blocks"),
        ("blocks: 2", "temperatures: [0.7, 0.7000001], blocks: 2", "profiles.smoke.temperatures"),
        ("n_predict: 8", "n_predict: 9223372036854775807", "profiles.smoke.n_predict"),
        ("warmup: hello", "warmup: hello\nhang_after_s: .nan", "hang_after_s"),
        ("warmup: hello", "warmup: hello\nhang_after_s: .inf", "hang_after_s"),
        ("none: {}", "none: false", "configs.none"),
        ("alpha:", f"{'a' * 65}:", f"models.{'a' * 65}"),
        ("blocks: 2", "blocks: two", "profiles.smoke.blocks"),
        ("blocks: 2, ", "", "profiles.smoke"),
        ("n_predict: 8", "n_predict: 1", "profiles.smoke.n_predict"),
        ("blocks: 2", "temperatures: [0, 0.0], blocks: 2", "profiles.smoke.temperatures"),
        ("blocks: 2", "temperatures: [-1], blocks: 2", "profiles.smoke.temperatures[0]"),
        ("blocks: 2", "temperatures: [.nan], blocks: 2", "profiles.smoke.temperatures[0]"),
        ("warmup: hello", "warmup: hello\nhang_after_s: 0", "hang_after_s"),
        ("warmup: hello", 'warmup: ""', "warmup"),
        ("corpus: {path: c.jsonl}", "file: {path: c.lcs}, top_k: 2", "tables.demo"),
        ("target: 0.5", "target: 1.5", "models.beta.generate.target"),
        ('flags: "-c 512"', "flags: [-c, 512]", "models.alpha.flags"),
        ('flags: "-c 512"', 'flags: "-c \'512"', "models.alpha.flags"),
        ("models:\n", "models: 3\nother:\n", "other"),
        ("version: 1", "version: 2", "version"),
        ("path: a.gguf", "path: a.gguf, package: b/c.gguf", "models.alpha"),
        ("path: a.gguf, ", "", "models.alpha"),
        ("  none: {}\n", "", "configs"),
        ("none: {}", "none: {types: [ngram-mod]}", "configs.none"),
        ("types: [draft-mtp], ", "", "configs.mtp1"),
        ("types: [ngram-cache], table", "types: [ngram-mod], table", "configs.ngram-cache+table.table"),
        (
            "types: [ngram-cache], table",
            "types: [ngram-cache], rounds: 2, table",
            "configs.ngram-cache+table.rounds",
        ),
        ("configs: [none, mtp1]", "configs: [mtp1]", "models.beta.configs"),
        ("configs: [none, mtp1]", "configs: [none, mtp1, mtp1]", "models.beta.configs[2]"),
        ("configs: [none, mtp1]", "configs: []", "models.beta.configs"),
        ("alpha:", "Alpha:", "models.Alpha"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(good: str, old: str, new: str, path: str) -> None:
    """A value of another type, out of range, or that contradicts another is an error with its key path."""
    with pytest.raises(MatrixError) as caught:
        decode_matrix(good.replace(old, new), "m.yaml")
    assert str(caught.value).startswith(f"m.yaml: {path}: ")


DRAFTED = [
    (
        "target: 0.5}, configs",
        "target: 0.5}, draft: {generate: {tagret: 1}}, configs",
        "models.beta.draft.generate.tagret",
    ),
    ("path: a.gguf", "parts: [{path: a.1}, {pth: a.2}]", "models.alpha.parts[1].pth"),
    ("path: a.gguf", "parts: [{path: a.1}, {}]", "models.alpha.parts[1]"),
    ("path: a.gguf", "parts: []", "models.alpha"),
    ("path: a.gguf", "parts: [{path: a.1}], path: a.gguf", "models.alpha"),
    ("path: a.gguf", "parts: [{path: a.1}], sha256: abc", "models.alpha.sha256"),
    ("path: a.gguf", f"path: a.gguf, sha256: {'a' * 64}", "models.alpha.sha256"),
    ("path: a.gguf", "path: a.gguf, draft: {}", "models.alpha.draft"),
    ("path: a.gguf", "path: a.gguf, draft: b.gguf", "models.alpha.draft"),
    ("path: a.gguf", "path: a.gguf, configs: [none, second]", "models.alpha.configs[1]"),
    ("path: a.gguf", "path: a.gguf, abstains: {mtp2: why}", "models.alpha.abstains.mtp2"),
    ("path: a.gguf", "path: a.gguf, abstains: {none: why}", "models.alpha.abstains.none"),
    ("path: a.gguf", "path: a.gguf, abstains: {mtp1: ' '}", "models.alpha.abstains.mtp1"),
    ("path: a.gguf", "path: a.gguf, abstains: {mtp1: }", "models.alpha.abstains[...]"),
    ("configs: [none, mtp1]", "configs: [none], abstains: {mtp1: why}", "models.beta.abstains.mtp1"),
    ("path: a.gguf", "path: a.gguf, abstains: {mtp1: {}}", "models.alpha.abstains.mtp1"),
    (
        "path: a.gguf",
        "path: a.gguf, abstains: {mtp1: {ngram-mod: why}}",
        "models.alpha.abstains.mtp1.ngram-mod",
    ),
    ("path: a.gguf", "path: a.gguf, abstains: {mtp1: {draft-mtp: }}", "models.alpha.abstains[...][...]"),
    (
        "path: a.gguf",
        "path: a.gguf, abstains: {mtp1: {draft-mtp: ''}}",
        "models.alpha.abstains.mtp1.draft-mtp",
    ),
    ("path: a.gguf", "path: a.gguf, abstains: {mtp1: 3}", "models.alpha.abstains[...]"),
    ("blocks: 2", "blocks: 2, configs: [mtp1]", "profiles.smoke.configs"),
    ("blocks: 2", "blocks: 2, configs: [none, mtp2]", "profiles.smoke.configs[1]"),
    ("blocks: 2", "blocks: 2, models: [gamma]", "profiles.smoke.models[0]"),
    ("blocks: 2", "blocks: 2, models: []", "profiles.smoke.models"),
    ("corpus: {path: c.jsonl}", "corpus: {path: c.jsonl}, min_total: 0", "tables.demo.min_total"),
    ("corpus: {path: c.jsonl}", "corpus: {path: c.jsonl}, min_top_share: 80", "tables.demo.min_top_share"),
    ("corpus: {path: c.jsonl}", "corpus: [{path: c.jsonl}, {}]", "tables.demo.corpus[1]"),
    ("corpus: {path: c.jsonl}", "corpus: [{path: c.jsonl}, {pth: d}]", "tables.demo.corpus[1].pth"),
    ("corpus: {path: c.jsonl}", "corpus: []", "tables.demo"),
    ("corpus: {path: c.jsonl}", "corpus: [c.jsonl]", "tables.demo.corpus[0]"),
    ("corpus: {path: c.jsonl}", "corpus: {path: c.jsonl}, max_mb: 0", "tables.demo.max_mb"),
    ("corpus: {path: c.jsonl}", "corpus: {path: c.jsonl}, min_chars: 0", "tables.demo.min_chars"),
    ("corpus: {path: c.jsonl}", "corpus: {path: c.jsonl}, seed: one", "tables.demo.seed"),
    ("corpus: {path: c.jsonl}", "corpus: {path: c.jsonl}, seed: 2", "tables.demo.seed"),
    ("corpus: {path: c.jsonl}", "file: {path: c.lcs}, max_mb: 4", "tables.demo"),
]


@pytest.mark.parametrize(("old", "new", "path"), DRAFTED)
def test_sources_drafts_and_profiles_are_checked(good: str, old: str, new: str, path: str) -> None:
    """Parts, second models, `abstains` and what a profile takes: each wrong one is told with its key path."""
    text = good.replace("  mtp1:", "  second: {types: [draft-simple]}\n  mtp1:", 1)
    assert old in text
    with pytest.raises(MatrixError) as caught:
        decode_matrix(text.replace(old, new), "m.yaml")
    assert str(caught.value).startswith(f"m.yaml: {path}: ")


def test_a_config_with_a_second_model_runs_where_there_is_one(good: str) -> None:
    """A model that chooses no configs gets draft-simple only if it names a draft; named, it must have one."""
    text = good.replace("  mtp1:", "  second: {types: [draft-simple]}\n  mtp1:", 1)
    assert "second" not in decode_matrix(text, "m.yaml").configs_of("alpha")
    drafted = text.replace("path: a.gguf", "path: a.gguf, draft: {path: d.gguf}")
    assert decode_matrix(drafted, "m.yaml").configs_of("alpha")[1] == "second"
    named = drafted.replace("path: a.gguf,", "path: a.gguf, configs: [none, second],")
    assert decode_matrix(named, "m.yaml").configs_of("alpha") == ("none", "second")


def test_a_profile_takes_what_it_names(good: str) -> None:
    """`models` and `configs` of a profile choose, in the matrix's order; other profiles keep all."""
    text = good.replace("blocks: 2,", "blocks: 2, models: [beta], configs: [mtp1, none],")
    matrix = decode_matrix(f"{text}  full: {{blocks: 1, n_predict: 8}}\n", "m.yaml")
    assert matrix.models_of("smoke") == ("beta",)
    assert matrix.models_of("full") == ("alpha", "beta")
    assert matrix.configs_of("alpha", "smoke") == ("none", "mtp1")
    assert matrix.configs_of("alpha", "full") == matrix.configs_of("alpha")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("qwen-mtp", "mtp"),
        ("mtp1-model", "mtp"),
        ("model-cache", "cache"),
        ("nonesuch", "none"),
        ("stable", "table"),
    ],
)
def test_a_model_id_with_a_config_word_is_refused(good: str, name: str, word: str) -> None:
    """`-k WORD` must pick configs, so no model id may contain a config's word."""
    with pytest.raises(MatrixError, match=f"contains the config word '{word}"):
        decode_matrix(good.replace("alpha:", f"{name}:"), "m.yaml")


def test_a_key_written_twice_is_refused_with_its_line(good: str) -> None:
    """YAML libraries let the second key win silently; a matrix does not."""
    with pytest.raises(MatrixError, match=r"line 10, column 3: key 'mtp1' is written twice"):
        decode_matrix(good.replace("  mtp1:", "  mtp1: {types: [ngram-mod]}\n  mtp1:", 1), "m.yaml")


@pytest.mark.parametrize("text", ["", "[]", "a: [", "\x00", "- 1\nb: 2"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    """An empty file, a list, broken YAML: an error that names the file, never a traceback of a library."""
    with pytest.raises(MatrixError, match=r"^m\.yaml: "):
        decode_matrix(text, "m.yaml")


@pytest.mark.parametrize(
    "value",
    [
        "2001-99-99",
        "!!int abc",
        "!!float abc",
        "!!bool abc",
        "9" * 5000,
        "[" * 3000 + "]" * 3000,
        '"a\\0b"',
        '"\\ud800"',
    ],
)
def test_a_value_that_cannot_be_is_refused(good: str, value: str) -> None:
    """Dates, numbers, depths and letters that are none: an error that names the file."""
    with pytest.raises(MatrixError, match=r"^m\.yaml: "):
        decode_matrix(good.replace("warmup: hello", f"warmup: {value}"), "m.yaml")


@pytest.mark.parametrize("key", ["? [a, b]\n: 1", "? {a: b}\n: 1"])
def test_a_key_that_is_no_text_is_refused(good: str, key: str) -> None:
    """A list or a mapping as a key is an error with its line."""
    with pytest.raises(MatrixError, match=r"^m\.yaml: "):
        decode_matrix(f"{good}\n{key}\n", "m.yaml")


def test_a_merged_key_can_be_overridden(good: str) -> None:
    """`<<: *base` is YAML's own way to share settings; a key of one's own takes precedence."""
    text = good.replace(
        'alpha: {path: a.gguf, flags: "-c 512"}', "alpha: &base {path: a.gguf, flags: -c 512}"
    ).replace("  beta:", "  gamma: {<<: *base, flags: -c 1024}\n  beta:")
    matrix = decode_matrix(text, "m.yaml")
    assert matrix.models["gamma"].path == "a.gguf"
    assert matrix.models["gamma"].flags == "-c 1024"


def test_of_a_stack_it_is_said_which_type_abstains(good: str) -> None:
    """One reason for a whole stack would excuse all of it: an error that shows how to write it."""
    stack = good.replace("types: [draft-mtp]", "types: [draft-mtp, ngram-mod]")
    with pytest.raises(MatrixError) as caught:
        decode_matrix(
            stack.replace("path: a.gguf", "path: a.gguf, abstains: {mtp1: it learns little}"), "m.yaml"
        )
    assert "models.alpha.abstains.mtp1: does not say which of the types" in str(caught.value)
    assert "`mtp1: {ngram-mod: it learns little}`" in caught.value.fix
    told = stack.replace("path: a.gguf", "path: a.gguf, abstains: {mtp1: {ngram-mod: it learns little}}")
    assert decode_matrix(told, "m.yaml").abstains_of("alpha", "mtp1") == {"ngram-mod": "it learns little"}
    assert decode_matrix(stack, "m.yaml").abstains_of("alpha", "mtp1") == {}
    alone = good.replace("path: a.gguf", "path: a.gguf, abstains: {mtp1: why}")
    assert decode_matrix(alone, "m.yaml").abstains_of("alpha", "mtp1") == {"draft-mtp": "why"}


@pytest.mark.parametrize("kind", ["ngram-cache", "ngram-mod", "ngram-map-k", "ngram-map-k4v"])
def test_rounds_of_a_type_that_keeps_state_are_refused(good: str, kind: str) -> None:
    """Alone or in a stack: a second request would be drafted from what the first one left."""
    for types in (kind, f"draft-mtp, {kind}"):
        with pytest.raises(MatrixError, match="keeps state between requests"):
            decode_matrix(good.replace("types: [draft-mtp]", f"rounds: 2, types: [{types}]"), "m.yaml")
    decode_matrix(good.replace("types: [draft-mtp]", "rounds: 2, types: [draft-mtp, ngram-simple]"), "m.yaml")


@pytest.mark.parametrize("flag", ["--spec-synth-len 2", "--spec-synth-rates=0.5", "--spec_synth_len 2"])
@pytest.mark.parametrize("was", ["--spec-draft-n-max 1", '"-c 512"'])
def test_acceptance_by_dice_is_no_config(good: str, was: str, flag: str) -> None:
    """Neither a config nor a model may hold it: no gate and no result can come from invented acceptance."""
    with pytest.raises(MatrixError, match="accepted by dice"):
        decode_matrix(good.replace(was, f'"{flag}"'), "m.yaml")


def test_a_table_is_built_from_one_file_or_several(good: str) -> None:
    """`corpora` has them in the order written; of a table that is ready there are none."""
    for text, paths in (
        ("corpus: {path: c.jsonl}", ["c.jsonl"]),
        ("corpus: [{path: c.jsonl}, {path: d.jsonl.gz}]", ["c.jsonl", "d.jsonl.gz"]),
        ("file: {path: c.lcs}", []),
    ):
        table = decode_matrix(good.replace("corpus: {path: c.jsonl}", text), "m.yaml").tables["demo"]
        assert [source.path for source in table.corpora] == paths
