#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Trains small models, exports them, and lets llama.cpp and transformers compute with them.

  compare_llama_cpp.py PROGRAMS SCRATCH

PROGRAMS is a folder with train, convert and generate, such as usr/lib/zeroth of the Debian package.
Models and files go to SCRATCH. Needs llama-server and llama-quantize on PATH, and a Python with torch,
transformers and numpy; exits with 77 where one is missing. Prints a line for each comparison, and
exits with 1 if one fails.

For each family and each type of GGUF tensors it compares llama.cpp on our GGUF file with transformers
on our Hugging Face directory: the tokens that greedy generation picks, and the log-probabilities of
the whole vocabulary at each of them. In fp32 //tools/generate must write the same text. So it does for
a LoRA adapter of each family, which llama.cpp adds to the GGUF file of the base model, and for adapters
trained beside a quantised GGUF file, which llama.cpp adds to that file, dequantised and as it is.

For each tokenizer it compares the token ids of the texts in tests/testdata/tokenizers, which are
Hugging Face's, with those of llama.cpp, which has the vocabulary from our GGUF file.
"""

import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import unicodedata
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TESTDATA = os.path.join(ROOT, "tests", "testdata")
# Models of testdata, and the keys of config.json that are changed: to values that llama.cpp supports,
# and to widths that are multiples of a quantised block.
WIDE = {"hidden_size": 32, "intermediate_size": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0}
QWEN35 = {**WIDE, "layer_types": ["linear_attention", "full_attention"] * 2, "linear_key_head_dim": 16,
          "linear_value_head_dim": 16, "linear_num_value_heads": 6, "rms_norm_eps": 1e-6}
FAMILIES = {
    "gpt2_tiny": {}, "llama_tiny": {}, "llama31_tiny": {}, "mistral_tiny": {}, "qwen2_tiny": {},
    "qwen3_tiny": {}, "qwen3_moe_tiny": {}, "olmo2_tiny": {},
    "mixtral_tiny": WIDE,
    # llama.cpp divides scores by the root of the head size. Near the test model's caps, all tokens are
    # almost equally likely.
    "gemma2_tiny": {**WIDE, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 5.0,
                    "final_logit_softcapping": 10.0},
    "gemma3_tiny": {**WIDE, "query_pre_attn_scalar": 8},
    # llama.cpp ignores the window, so texts stay within it. LongRoPE is not exported.
    "phi3_tiny": {"hidden_size": 96, "intermediate_size": 128, "sliding_window": 32, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75}},
    # One size of heads in linear attention, and full attention in every n-th layer.
    "qwen3_5_tiny": QWEN35,
    # llama.cpp rounds the bounds of YaRN's ramp to whole pairs.
    "gpt_oss_tiny": {"hidden_size": 32, "intermediate_size": 32, "rope_parameters": {
        **YARN, "rope_theta": 100.0, "original_max_position_embeddings": 32, "truncate": True}},
}
# Quantised files that adapters are trained beside: the family, the changes, the program, the type.
QUANTISED = [
    ("phi3_tiny", FAMILIES["phi3_tiny"], "convert", "q8_0"),
    # Q4_K has blocks of 256.
    ("llama_tiny", {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8,
                    "num_key_value_heads": 4, "head_dim": 32}, "convert", "q4_k_m"),
    ("qwen3_moe_tiny", {**WIDE, "moe_intermediate_size": 32}, "convert", "q8_0"),
    ("qwen3_5_tiny", QWEN35, "convert", "q8_0"),
    # A GGUF file does not say whether YaRN's bounds are rounded. These are clamped to whole numbers.
    ("gpt_oss_tiny", {"hidden_size": 32, "intermediate_size": 32, "rope_parameters": {
        **YARN, "rope_theta": 6.0, "original_max_position_embeddings": 192, "truncate": False}},
     "llama-quantize", "mxfp4_moe"),
]
# A tokenizer of testdata, and the family of a model for it.
TOKENIZERS = {"gpt2_json": "gpt2_tiny", "llama3": "llama31_tiny", "qwen2": "qwen2_tiny"}
# For log-probabilities. llama.cpp looks GELU up in a table of half-precision numbers. In
# matmuls it rounds activations to the type of the weights, which transformers does not; to 8 bits
# beside quantised weights. Then some tokens go to another expert, so the median of the tokens counts.
TOLERANCES = {"fp32": 1e-4, "fp16": 2e-2, "bf16": 1e-1}
GELU_TOLERANCE = 5e-3
QUANTISED_TOLERANCE = 2e-1
# Text with few tables: a model that has seen them writes spaces only.
TEXT = "docs/faq.md"
ADAPTER_TEXT = "docs/memory.md"
PROMPTS = ["The ", "If a"]
NEW_TOKENS = 24
# llama.cpp's "llama" has no sliding window: a Mistral's texts stay within its window of 12.
MISTRAL_NEW_TOKENS = 8

failures = []


def report(good, line):
    print("%s %s" % ("ok    " if good else "FAILED", line), flush=True)
    if not good:
        failures.append(line)


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit("%s\n%s%s" % (" ".join(command), done.stdout.decode(), done.stderr.decode()))
    return done.stdout


class Server:
    """llama-server with a GGUF file, and perhaps an adapter; caches and attention are float32."""

    def __init__(self, path, adapter=None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            ["llama-server", "-m", path, "--host", "127.0.0.1", "--port", str(self.port),
             "-c", "64", "-np", "1", "-t", "1", "-ctk", "f32", "-ctv", "f32", "-fa", "off",
             "--no-warmup", "-fit", "off", "-ngl", "0", *(["--lora", adapter] if adapter else [])],
            stdout=subprocess.DEVNULL, stderr=open(path + ".log", "wb"))
        for _ in range(600):
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError):
                self.get("/health")
                return
            time.sleep(0.1)
        self.close()
        sys.exit("llama-server does not load %s:\n%s" % (path, open(path + ".log").read()[-2000:]))

    def get(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            "http://127.0.0.1:%d%s" % (self.port, path), data,
            {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def close(self):
        self.process.terminate()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


def greedy(server, prompt, count, vocabulary):
    """Returns the text, its tokens, and for each of them {token: log-probability}."""
    answer = server.get("/completion", {
        "prompt": prompt, "n_predict": count, "temperature": 0, "n_probs": vocabulary,
        "return_tokens": True, "cache_prompt": False, "repeat_penalty": 1.0,
    })
    rows = [{top["id"]: top["logprob"] for top in entry["top_logprobs"]}
            for entry in answer["completion_probabilities"]]
    return answer["content"], answer["tokens"], rows


def hold_against_transformers(torch, model, prompt, tokens, rows):
    """Returns each token's largest difference of log-probabilities, and how many are the likeliest."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt + tokens])).logits[0].double()
    expected = torch.log_softmax(logits, dim=-1)[len(prompt) - 1 : -1]
    agreed = sum(int(row.argmax()) == token for row, token in zip(expected, tokens))
    return [max(abs(float(row[id_]) - logprob) for id_, logprob in found.items())
            for row, found in zip(expected, rows)], agreed


class Programs:
    def __init__(self, folder):
        self.train, self.convert, self.generate = (
            os.path.join(folder, name) for name in ("train", "convert", "generate"))

    def trained(self, out, *flags, text=TEXT):
        """Trains on a page of the project; returns the Hugging Face directory."""
        run(self.train, "--data=" + os.path.join(ROOT, text), "--seq_len=32", "--batch_size=8",
            "--world_size=2", "--threads_per_rank=1", "--steps=300", "--lr=5e-3",
            "--sample_tokens=0", "--tensorboard=false", "--cache_dir=" + out + ".cache",
            "--out=" + out, "--overwrite=true", *flags)
        return os.path.join(out, "final")

    def trained_adapter(self, base, out, *flags):
        """Trains an adapter of a model; returns the merged model, the adapter and its GGUF file."""
        # PEFT has no adapters for gpt-oss's experts.
        targets = "all_but_experts" if "gpt_oss" in out else "all"
        merged = self.trained(out, "--init_from=" + base, "--lora_rank=4", "--lora_export=both",
                              "--lora_targets=" + targets, *flags, text=ADAPTER_TEXT)
        adapter, gguf = merged + "_adapter", out + ".gguf"
        self.converted(adapter, gguf, "--lora_export=adapter")
        return merged, adapter, gguf

    def converted(self, source, gguf, *flags):
        run(self.convert, "--in=" + source, "--out=" + gguf, "--overwrite", *flags)

    def continued(self, model, prompt, count):
        """Returns what //tools/generate writes: the prompt, and the likeliest tokens after it."""
        return run(self.generate, "--model=" + model, "--prompt=" + prompt, "--temperature=0",
                   "--max_tokens=%d" % count, "--threads=1").decode()[:-1]


def started(family, changes, out):
    """Returns the flag of a training run that starts with a family's test model, perhaps changed."""
    start = os.path.join(TESTDATA, family)
    if not changes:
        return "--init_from=" + start
    config = json.load(open(os.path.join(start, "config.json")))
    with open(out + "-config.json", "w") as file:
        json.dump({**config, **changes}, file)
    return "--model=" + out + "-config.json"


def gguf_file(programs, model, dtype, stem, program="convert"):
    """Returns a GGUF file of the model, of tensors of this type."""
    gguf = "%s-%s.gguf" % (stem, dtype)
    if program == "convert":
        programs.converted(model, gguf, "--dtype=" + dtype)
    else:
        run(program, gguf_file(programs, model, "fp32", stem), gguf, dtype, "1")
    return gguf


def reference_model(torch, transformers, model, dtype):
    """Returns transformers' model in float32, with the weights that the GGUF file has."""
    reference = transformers.AutoModelForCausalLM.from_pretrained(
        model, dtype=torch.float32, attn_implementation="eager").eval()
    rounded = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(dtype, torch.float32)
    with torch.no_grad():
        for name, parameter in reference.named_parameters():
            # Vectors, position embeddings, routers and convolutions stay float32 in a GGUF file.
            if parameter.dim() > 1 and not name.endswith(
                    ("wpe.weight", "mlp.gate.weight", "mlp.router.weight", "conv1d.weight")):
                parameter.copy_(parameter.to(rounded))
    return reference


def compare(torch, programs, label, server, reference, tolerance, model=None):
    """Compares what a server generates with transformers' model.

    With `model`, a directory, the arithmetic is fp32 throughout: tokens must be the same, and those
    that //tools/generate writes.
    """
    config = reference.config
    count = MISTRAL_NEW_TOKENS if config.model_type == "mistral" else NEW_TOKENS
    if tolerance < GELU_TOLERANCE and config.model_type.startswith(("gpt2", "gemma")):
        tolerance = GELU_TOLERANCE
    agreed, differences, complete, texts = 0, [], True, []
    for prompt in PROMPTS:
        ids = list(prompt.encode())
        text, tokens, rows = greedy(server, ids, count, config.vocab_size)
        complete &= len(tokens) == count
        complete &= all(len(row) == config.vocab_size for row in rows)
        found, same = hold_against_transformers(torch, reference, ids, tokens, rows)
        differences, agreed = differences + found, agreed + same
        texts.append(prompt + text)
    worst, median = max(differences), statistics.median(differences)
    # With other rounding, the two likeliest tokens may swap places.
    enough = agreed == count * len(PROMPTS) or model is None
    bounded = median if tolerance == QUANTISED_TOLERANCE else worst
    report(complete and enough and bounded < tolerance,
           "%s: %d of %d greedy tokens are those of transformers; all log-probabilities differ by at "
           "most %.2g, those of half of the tokens by at most %.2g"
           % (label, agreed, count * len(PROMPTS), worst, median))
    if model is not None:
        ours = [programs.continued(model, prompt, count) for prompt in PROMPTS]
        report(ours == texts, "%s: //tools/generate writes %s, llama.cpp %s"
               % (label, ours, "the same" if ours == texts else texts))


def compare_family(torch, transformers, programs, family, changes, scratch):
    out = os.path.join(scratch, family)
    model = programs.trained(out, started(family, changes, out))
    for dtype, tolerance in TOLERANCES.items():
        with Server(gguf_file(programs, model, dtype, out)) as server:
            compare(torch, programs, "%s %s" % (family, dtype), server,
                    reference_model(torch, transformers, model, dtype), tolerance,
                    model if dtype == "fp32" else None)
    reference = reference_model(torch, transformers, model, "fp32")
    if reference.config.hidden_size % 32 == 0:  # the size of a block of q8_0
        with Server(gguf_file(programs, model, "q8_0", out, "llama-quantize")) as server:
            compare(torch, programs, family + " q8_0", server, reference, QUANTISED_TOLERANCE)
    merged, adapter, lora = programs.trained_adapter(model, out + "-adapter")
    reference = reference_model(torch, transformers, merged, "fp32")
    with Server(out + "-fp32.gguf", lora) as server:
        compare(torch, programs, family + " adapter", server, reference, TOLERANCES["fp32"], adapter)


def compare_quantised(torch, transformers, programs, family, changes, program, dtype, scratch):
    """Compares an adapter on a quantised file with the merged model, whose base we dequantised."""
    out = os.path.join(scratch, "%s-%s" % (family, dtype))
    base = gguf_file(programs, programs.trained(out, started(family, changes, out)), dtype, out, program)
    merged, _, lora = programs.trained_adapter(base, out + "-adapter", "--base_dtype=gguf")
    reference = reference_model(torch, transformers, merged, "fp32")
    plain = out + "-dequantised.gguf"
    run("llama-quantize", "--allow-requantize", base, plain, "f32", "1")
    label = "%s %s adapter" % (family, dtype)
    with Server(plain, lora) as server:
        compare(torch, programs, label + ", dequantised", server, reference, TOLERANCES["fp32"], merged)
    with Server(base, lora) as server:
        compare(torch, programs, label, server, reference, QUANTISED_TOLERANCE)


def compare_tokenizer(programs, name, family, scratch):
    directory = os.path.join(TESTDATA, "tokenizers", name)
    config = json.load(open(os.path.join(TESTDATA, family, "config.json")))
    tokenizer = json.load(open(os.path.join(directory, "tokenizer.json")))
    size = max([*tokenizer["model"]["vocab"].values(),
                *(token["id"] for token in tokenizer["added_tokens"])]) + 1
    # The ids of the fixture's vocabulary.
    for key in ("bos_token_id", "eos_token_id"):
        config.pop(key, None)
    config["vocab_size"] = size
    start = os.path.join(scratch, name + "-config.json")
    with open(start, "w") as file:
        json.dump(config, file)
    model = programs.trained(os.path.join(scratch, name), "--model=" + start,
                             "--tokenizer=" + directory)
    gguf = os.path.join(scratch, name + ".gguf")
    programs.converted(model, gguf)
    cases = json.load(open(os.path.join(directory, "cases.json")))
    same, back, wrong, skipped = 0, 0, [], 0
    normal = (tokenizer.get("normalizer") or {}).get("type")
    with Server(gguf) as server:
        for case in cases:
            # llama.cpp has no normal forms of text.
            if normal and unicodedata.normalize(normal, case["text"]) != case["text"]:
                skipped += 1
                continue
            request = {"content": case["text"], "parse_special": True}
            ids = server.get("/tokenize", request)["tokens"]
            if ids == case["ids"]:
                same += 1
            else:
                wrong.append((case["text"], ids, case["ids"]))
            text = server.get("/detokenize", {"tokens": case["ids"]})["content"]
            back += text == case["decoded"]
        # Prompts are sent as text, so that llama.cpp adds the tokens that begin a text.
        texts = [prompt + greedy(server, prompt, NEW_TOKENS, 1)[0] for prompt in PROMPTS]
    left_out = ", without %d that are not in %s" % (skipped, normal) if skipped else ""
    report(not wrong and back == len(cases) - skipped,
           "%s: of %d texts%s, %d have Hugging Face's tokens in llama.cpp, and %d come back"
           % (name, len(cases) - skipped, left_out, same, back))
    for text_, found, expected in wrong[:5]:
        print("       %r: %s, expected %s" % (text_, found, expected))
    ours = [programs.continued(model, prompt, NEW_TOKENS) for prompt in PROMPTS]
    report(ours == texts, "%s: //tools/generate writes %s, llama.cpp %s"
           % (name, ours, "the same" if ours == texts else texts))


def main():
    programs, scratch = sys.argv[1:3]
    try:
        import torch
        import transformers
    except ImportError as error:
        print("no package:", error)
        sys.exit(77)
    for program in ("llama-server", "llama-quantize"):
        if not shutil.which(program):
            print("no program", program)
            sys.exit(77)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    version = subprocess.run(["llama-server", "--version"], capture_output=True, text=True,
                             check=True).stderr.splitlines()[0]
    print("llama.cpp %s; transformers %s; torch %s" % (version, transformers.__version__,
                                                     torch.__version__))
    programs = Programs(os.path.abspath(programs))
    scratch = os.path.abspath(scratch)
    os.makedirs(scratch, exist_ok=True)
    for family, changes in FAMILIES.items():
        compare_family(torch, transformers, programs, family, changes, scratch)
    for quantised in QUANTISED:
        compare_quantised(torch, transformers, programs, *quantised, scratch)
    for name, family in TOKENIZERS.items():
        compare_tokenizer(programs, name, family, scratch)
    print("%d comparisons failed" % len(failures))
    sys.exit(bool(failures))


main()
