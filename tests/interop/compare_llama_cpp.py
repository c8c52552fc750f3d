#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Trains small models, exports them, and lets llama.cpp and transformers compute with them.

  compare_llama_cpp.py PROGRAMS SCRATCH

PROGRAMS is bazel-bin, with //train, //tools/convert and //tools/generate. Models and files go to
SCRATCH. Needs llama-server and llama-quantize on PATH, and a Python with torch, transformers and
numpy; exits with 77 where one is missing. Prints a line for each comparison, and exits with 1 if
one fails.

For each family and each type of GGUF tensors it compares llama.cpp on our GGUF file with transformers
on our Hugging Face directory: the tokens that greedy generation picks, and the log-probabilities of
the whole vocabulary at each of them. In fp32 //tools/generate must write the same text. For each
tokenizer it compares the token ids of the texts in tests/testdata/tokenizers, which are Hugging
Face's, with those of llama.cpp, which has the vocabulary from our GGUF file.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import unicodedata
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TESTDATA = os.path.join(ROOT, "tests", "testdata")
FAMILIES = [
    "gpt2_tiny", "llama_tiny", "llama31_tiny", "mistral_tiny", "qwen2_tiny", "qwen3_tiny",
    "qwen3_moe_tiny", "olmo2_tiny",
]
# A tokenizer of testdata, and the family of a model for it.
TOKENIZERS = {"gpt2_json": "gpt2_tiny", "llama3": "llama31_tiny", "qwen2": "qwen2_tiny"}
# For log-probabilities. llama.cpp looks GPT-2's GELU up in a table of half-precision numbers. In
# matmuls it rounds activations to the type of the weights, which transformers does not; to 8 bits
# in q8_0, whose weights are rounded too.
TOLERANCES = {"fp32": 1e-4, "fp16": 2e-2, "bf16": 1e-1, "q8_0": 5e-1}
GPT2_TOLERANCE = 5e-3
# Text with few tables: a model that has seen them writes spaces only.
TEXT = "docs/faq.md"
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
    """llama-server with one GGUF file; caches and attention are float32."""

    def __init__(self, path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            ["llama-server", "-m", path, "--host", "127.0.0.1", "--port", str(self.port),
             "-c", "64", "-np", "1", "-t", "1", "-ctk", "f32", "-ctv", "f32", "-fa", "off",
             "--no-warmup", "-fit", "off", "-ngl", "0"],
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
    """Returns the largest difference of log-probabilities, and how many tokens are the likeliest."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt + tokens])).logits[0].double()
    expected = torch.log_softmax(logits, dim=-1)[len(prompt) - 1 : -1]
    worst, agreed = 0.0, 0
    for row, token, found in zip(expected, tokens, rows):
        agreed += int(row.argmax()) == token
        for id_, logprob in found.items():
            worst = max(worst, abs(float(row[id_]) - logprob))
    return worst, agreed


class Programs:
    def __init__(self, folder):
        self.train = os.path.join(folder, "train", "train")
        self.convert = os.path.join(folder, "tools", "convert", "convert")
        self.generate = os.path.join(folder, "tools", "generate", "generate")

    def trained(self, out, *flags):
        """Trains on a page of the project; returns the Hugging Face directory."""
        run(self.train, "--data=" + os.path.join(ROOT, TEXT), "--seq_len=32", "--batch_size=8",
            "--world_size=2", "--threads_per_rank=1", "--steps=300", "--lr=5e-3",
            "--sample_tokens=0", "--tensorboard=false", "--cache_dir=" + out + ".cache",
            "--out=" + out, "--overwrite=true", *flags)
        return os.path.join(out, "final")

    def continued(self, model, prompt, count):
        """Returns what //tools/generate writes: the prompt, and the likeliest tokens after it."""
        return run(self.generate, "--model=" + model, "--prompt=" + prompt, "--temperature=0",
                   "--max_tokens=%d" % count, "--threads=1").decode()[:-1]


def gguf_file(programs, model, dtype, scratch):
    """Returns a GGUF file of the model, of tensors of this type."""
    stem = os.path.join(scratch, os.path.basename(os.path.dirname(model)))
    gguf = "%s-%s.gguf" % (stem, dtype)
    if dtype == "q8_0":
        run("llama-quantize", stem + "-fp32.gguf", gguf, "q8_0", "1")
    else:
        run(programs.convert, "--in=" + model, "--out=" + gguf, "--dtype=" + dtype)
    return gguf


def reference_model(torch, transformers, model, dtype):
    """Returns transformers' model in float32, with the weights that the GGUF file has."""
    reference = transformers.AutoModelForCausalLM.from_pretrained(
        model, dtype=torch.float32, attn_implementation="eager").eval()
    rounded = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(dtype, torch.float32)
    with torch.no_grad():
        for name, parameter in reference.named_parameters():
            # Vectors, position embeddings and routers stay float32 in a GGUF file.
            if parameter.dim() > 1 and not name.endswith(("wpe.weight", "mlp.gate.weight")):
                parameter.copy_(parameter.to(rounded))
    return reference


def compare_family(torch, transformers, programs, family, scratch):
    model = programs.trained(os.path.join(scratch, family),
                             "--init_from=" + os.path.join(TESTDATA, family))
    config = json.load(open(os.path.join(model, "config.json")))
    count = MISTRAL_NEW_TOKENS if config["model_type"] == "mistral" else NEW_TOKENS
    for dtype, tolerance in TOLERANCES.items():
        if dtype == "q8_0" and config.get("hidden_size", 1) % 32:
            continue  # its blocks of 32 do not divide the rows
        if config["model_type"] == "gpt2":
            tolerance = max(tolerance, GPT2_TOLERANCE)
        gguf = gguf_file(programs, model, dtype, scratch)
        reference = reference_model(torch, transformers, model, dtype)
        agreed, compared, worst, complete, texts = 0, 0, 0.0, True, []
        with Server(gguf) as server:
            for prompt in PROMPTS:
                ids = list(prompt.encode())
                text, tokens, rows = greedy(server, ids, count, config["vocab_size"])
                complete &= len(tokens) == count
                complete &= all(len(row) == config["vocab_size"] for row in rows)
                difference, same = hold_against_transformers(torch, reference, ids, tokens, rows)
                worst, agreed = max(worst, difference), agreed + same
                compared += sum(map(len, rows))
                texts.append(prompt + text)
        # With other rounding, the two likeliest tokens may swap places.
        enough = agreed == count * len(PROMPTS) or dtype != "fp32"
        report(complete and enough and worst < tolerance,
               "%s %s: %d of %d greedy tokens are those of transformers; %d log-probabilities "
               "differ by at most %.2g" % (family, dtype, agreed, count * len(PROMPTS), compared,
                                           worst))
        if dtype == "fp32":
            ours = [programs.continued(model, prompt, count) for prompt in PROMPTS]
            report(ours == texts, "%s: //tools/generate writes %s, llama.cpp %s"
                   % (family, ours, "the same" if ours == texts else texts))


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
    run(programs.convert, "--in=" + model, "--out=" + gguf)
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
    for family in FAMILIES:
        compare_family(torch, transformers, programs, family, scratch)
    for name, family in TOKENIZERS.items():
        compare_tokenizer(programs, name, family, scratch)
    print("%d comparisons failed" % len(failures))
    sys.exit(bool(failures))


main()
