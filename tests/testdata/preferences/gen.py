# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the runs of README.md: `gen.py TESTDATA [RUN...]`, with TRL, PEFT, transformers and torch.

TRL trains llama_tiny in float64 on pairs.jsonl for three steps of four pairs. Its tokens are bytes,
as those of Zeroth's byte tokenizer.
"""

import json
import os
import random
import sys
import tempfile
from unittest import mock

import datasets
import peft
import tokenizers
import torch
import transformers
import trl
from safetensors.torch import save_file
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

STEPS, PAIRS = 3, 4
END = 256

class AnswersOnlyORPO(ORPOTrainer):
    """ORPO whose likelihood term is the mean log-probability of the chosen answer's tokens.

    TRL's is over the prompt, too, and weighs answers of a batch by their lengths.
    """

    def concatenated_forward(self, model, batch):
        outputs = list(super().concatenated_forward(model, batch))
        outputs[4] = -outputs[0].mean()
        return tuple(outputs)


class MismatchedInFileKTO(trl.KTOTrainer):
    """KTO whose mismatched answer is that of the record before in the file, of the last for the first.

    TRL's is that of the record before in the batch of one device.
    """

    def _prepare_dataset(self, *args, **kwargs):
        plain = datasets.Dataset.map

        def whole(dataset, function, *others, **options):
            if getattr(function, "__name__", "") == "add_kl_completion_ids":
                options["batch_size"] = len(dataset)
            return plain(dataset, function, *others, **options)

        with mock.patch.object(datasets.Dataset, "map", whole):
            return super()._prepare_dataset(*args, **kwargs)


KTO = {"loss_type": "kto", "beta": 0.4, "desirable_weight": 1.0, "undesirable_weight": 0.75}
# Folder: the trainer, its configuration's class and values, the learning rate, the rank.
RUNS = {
    "dpo": (trl.DPOTrainer, trl.DPOConfig, {"loss_type": "sigmoid", "beta": 0.5}, 1e-3, 0),
    "dpo_lora": (trl.DPOTrainer, trl.DPOConfig, {"loss_type": "sigmoid", "beta": 0.1}, 1e-2, 3),
    "ipo_lora": (trl.DPOTrainer, trl.DPOConfig, {"loss_type": "ipo", "beta": 0.2}, 1e-2, 3),
    "simpo": (
        CPOTrainer,
        CPOConfig,
        {"loss_type": "simpo", "beta": 2.0, "simpo_gamma": 0.7, "cpo_alpha": 0.0},
        1e-3,
        0,
    ),
    "orpo": (AnswersOnlyORPO, ORPOConfig, {"beta": 0.3}, 1e-3, 0),
    "kto": (MismatchedInFileKTO, trl.KTOConfig, KTO, 1e-3, 0),
    "kto_lora": (MismatchedInFileKTO, trl.KTOConfig, {**KTO, "beta": 0.1}, 1e-2, 3),
    "reward": (trl.RewardTrainer, trl.RewardConfig, {}, 1e-3, 0),
    "reward_lora": (
        trl.RewardTrainer,
        trl.RewardConfig,
        {"center_rewards_coefficient": 0.25},
        1e-2,
        3,
    ),
}


def byte_tokenizer(pad=None):
    """Every byte is its id, and 256 ends a text."""
    # The characters by which byte-level tokenizers write bytes.
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    spelled = {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}
    vocabulary = {spelled[b]: b for b in range(256)}
    core = tokenizers.Tokenizer(tokenizers.models.BPE({**vocabulary, "<end>": END}, []))
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<end>", pad_token=pad or "<end>"
    )


def write_pairs(path):
    """Pairs of which one fills more than half of a row of 64 tokens, so that each row has one."""
    random.seed(7)
    words = "red blue green small large round quick slow warm cold".split()
    pairs = []
    while len(pairs) < STEPS * PAIRS:
        prompt = f"A {random.choice(words)} "
        chosen, rejected = (" ".join(random.sample(words, random.randint(1, 4))) for _ in range(2))
        tokens = 2 * len(prompt) + len(chosen) + len(rejected) + 2
        if 34 <= tokens <= 64 and chosen != rejected:
            pairs.append({"prompt": prompt, "chosen": chosen, "rejected": rejected})
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(pair) + "\n" for pair in pairs)


def write_judgements(path):
    """Judgements that with their mismatched answers fill more than half of a row of 64 tokens."""
    random.seed(11)
    words = "red blue green small large round quick slow warm cold".split()
    judgements = []
    while len(judgements) < STEPS * PAIRS:
        judgements.append(
            {
                "prompt": f"A {words[len(judgements) % len(words)]} ",
                "completion": " ".join(random.sample(words, random.randint(2, 3))),
                "label": "ttftfftfftft"[len(judgements)] == "t",  # both in each step
            }
        )
        row = judgements[-1]
        before = judgements[-2] if len(judgements) > 1 else row
        tokens = 2 * len(row["prompt"]) + len(row["completion"]) + len(before["completion"]) + 2
        if not 34 <= tokens <= 64:
            judgements.pop()
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(judgement) + "\n" for judgement in judgements)


def run(folder, base, trainer_class, config_class, values, lr, rank):
    torch.manual_seed(3)
    scores = trainer_class is trl.RewardTrainer
    kind = transformers.AutoModelForSequenceClassification if scores else transformers.AutoModelForCausalLM
    labels = {"num_labels": 1} if scores else {}
    model = kind.from_pretrained(base, dtype=torch.float32, attn_implementation="eager", **labels)
    tokenizer = byte_tokenizer()
    if scores:
        # The score is that of the last token that is not padding, so padding is not the end.
        tokenizer = byte_tokenizer(pad=chr(256))
        model.config.pad_token_id = 0
        with torch.no_grad():
            model.score.weight.normal_(std=0.2)
    if scores and rank == 0:
        os.makedirs(folder, exist_ok=True)
        score = {"score.weight": model.score.weight.detach().clone()}
        save_file(score, os.path.join(folder, "score.safetensors"))
    if rank > 0:
        config = peft.LoraConfig(
            r=rank,
            lora_alpha=5,
            task_type="SEQ_CLS" if scores else "CAUSAL_LM",
            target_modules=["q_proj", "v_proj", "up_proj"],
        )
        model = peft.get_peft_model(model, config)
        model.save_pretrained(folder)
        os.remove(os.path.join(folder, "README.md"))
    os.makedirs(folder, exist_ok=True)
    model = model.double()

    class InOrder(trainer_class):
        def _get_train_sampler(self, *_, **__):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    judges = trainer_class is MismatchedInFileKTO
    data = "preferences/judgements.jsonl" if judges else "preferences/pairs.jsonl"
    with tempfile.TemporaryDirectory() as out:
        trainer = InOrder(
            model=model,
            args=config_class(
                output_dir=out,
                per_device_train_batch_size=PAIRS,
                max_steps=STEPS,
                learning_rate=lr,
                lr_scheduler_type="constant",
                weight_decay=0.1,
                adam_beta1=0.9,
                adam_beta2=0.95,
                adam_epsilon=1e-8,
                max_grad_norm=1.0,
                logging_steps=1,
                max_length=64,
                gradient_checkpointing=False,
                bf16=False,
                use_cpu=True,
                report_to=[],
                save_strategy="no",
                **values,
            ),
            train_dataset=datasets.load_dataset("json", data_files=data)["train"],
            processing_class=tokenizer,
        )
        for parameter in trainer.model.parameters():
            parameter.data = parameter.data.double()
        trainer.train()
    if rank > 0:
        state = peft.get_peft_model_state_dict(trainer.model)
        final = {name: value.to(torch.float32).contiguous() for name, value in state.items()}
        save_file(final, os.path.join(folder, "final.safetensors"))
    expected = {"lr": lr, "beta": values.get("beta", 1), "gamma": values.get("simpo_gamma", 0)}
    if scores:
        expected["center"] = values.get("center_rewards_coefficient", 0)
    for weight in ("desirable_weight", "undesirable_weight"):
        if judges:
            expected[weight] = values[weight]
    keys = ["rewards/chosen", "rewards/rejected", "kl" if judges else "rewards/accuracies"]
    if scores:
        keys = ["mean_reward", "margin", "accuracy"]
    for key in ("loss", "grad_norm", *keys):
        expected[key] = [line[key] for line in trainer.state.log_history if key in line]
        assert len(expected[key]) == STEPS, (key, trainer.state.log_history)
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(expected, file, indent=1)
    print(folder, expected)


def main():
    os.chdir(sys.argv[1])
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    write_pairs("preferences/pairs.jsonl")
    write_judgements("preferences/judgements.jsonl")
    for folder, (trainer, config, values, lr, rank) in RUNS.items():
        if sys.argv[2:] and folder not in sys.argv[2:]:
            continue
        run(os.path.join("preferences", folder), "llama_tiny", trainer, config, values, lr, rank)


main()
