// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/flags.h"

#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/command_line.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/train/flag_hints.h"

namespace {

const zeroth::TrainOptions kDefaults;

}  // namespace

ABSL_FLAG(std::string, data, kDefaults.data,
          "What to train on: a text file, a directory, a glob, a comma-separated list of these, or "
          "token files (NumPy .npy "
          "with a 1-D stream or 2-D rows of seq_len + 1; llm.c .bin). Required.");
ABSL_FLAG(std::string, model, kDefaults.model,
          "The model to start from scratch: gpt2_nano (the default), gpt2_124m, gpt2_355m, "
          "gpt2_774m, gpt2_1558m, llama_tiny, llama_1b, "
          "llama_8b.");
ABSL_FLAG(std::string, init_from, kDefaults.init_from,
          "A Hugging Face directory (config.json and safetensors) to take model and weights from, "
          "instead of --model.");
ABSL_FLAG(std::string, init_adapter, kDefaults.init_adapter,
          "A directory with a LoRA adapter of PEFT's or --lora_export's to go on from; rank, alpha "
          "and targets are its own, and so is --init_from if the adapter names a directory.");
ABSL_FLAG(std::string, tokenizer, kDefaults.tokenizer,
          "byte: every byte a token. A directory: GPT-2 BPE from its vocab.json and merges.txt. "
          "auto: those files of --init_from if it has them; byte for a model whose vocabulary is "
          "the 257 of bytes; another model takes no text without a tokenizer.");
ABSL_FLAG(std::string, device, kDefaults.device, "The kind of device to train on.");
ABSL_FLAG(
    std::string, comm, kDefaults.comm,
    "How ranks talk: auto (as the program that started this process says: torchrun, mpirun or "
    "srun; local without one), local (threads of this process), mpi (a process per rank on CPUs, "
    "started "
    "by mpirun or srun), or, in builds with --config=cuda, nccl (a process per GPU, started by "
    "torchrun, mpirun or srun).");
ABSL_FLAG(std::string, comm_timeout, kDefaults.comm_timeout,
          "How long a rank waits for the others before it reports which of them are missing.");
ABSL_FLAG(
    std::string, reduction, kDefaults.reduction,
    "How --comm=nccl reduces: tree (in a fixed order and float32, with the bits of every other "
    "back end) or nccl (as the library does).");
ABSL_FLAG(std::string, nccl_copy_engine, kDefaults.nccl_copy_engine,
          "Whether --comm=nccl gathers by the devices' copy engines, in memory that it registers, "
          "which leaves the multiprocessors to compute: on, off, or auto, where it can (NCCL 2.28, "
          "CUDA 12.5, the ranks of a shard group on one machine).");
ABSL_FLAG(std::string, strategy, kDefaults.strategy,
          "What is sharded: no_shard (nothing), shard_optimizer (optimizer state), shard_grad_op "
          "(gradients "
          "too), "
          "full_shard (parameters too), "
          "hybrid_shard (full_shard in groups of --shard_size ranks, replicated across groups).");
ABSL_FLAG(int, world_size, kDefaults.world_size,
          "Number of ranks; 0: as many as have been started, and 2 with --comm=local.");
ABSL_FLAG(int, shard_size, kDefaults.shard_size,
          "Ranks in a shard group, for hybrid_shard; divides the world size.");
ABSL_FLAG(
    std::string, memory_limit, kDefaults.memory_limit,
    "Memory that a rank may use, as 500MiB or 2GiB; more is refused, saying by how much. 0: no "
    "limit but the machine's.");
ABSL_FLAG(std::string, offload, kDefaults.offload,
          "What of a rank's state lies beyond its device's memory, in files under a CPU and in the "
          "host's memory under a GPU: none, all, or a list of parameters, gradients and optimizer. "
          "Changes memory and time, no result.");
ABSL_FLAG(std::string, offload_dir, kDefaults.offload_dir,
          "Directory for those files, which have no names and go with the run. Empty: the "
          "system's for temporary files.");
ABSL_FLAG(int, threads_per_rank, kDefaults.threads_per_rank,
          "CPU threads of one rank; 0 shares the machine's cores among its ranks.");
ABSL_FLAG(std::string, param_dtype, kDefaults.param_dtype,
          "What parameters are gathered and computed in: fp32, bf16 or fp16. What the "
          "optimizer keeps is --master_dtype and --optimizer_state_dtype.");
ABSL_FLAG(std::string, reduce_dtype, kDefaults.reduce_dtype,
          "What gradients are written and reduced in: fp32, bf16 or fp16. Sums over ranks are made "
          "in fp32 either way.");
ABSL_FLAG(
    std::string, grad_accum_dtype, kDefaults.grad_accum_dtype,
    "What gradients of the micro-batches of --grad_accum add up in where a rank holds them "
    "whole: fp32, or --reduce_dtype, in half of the memory, which loses what is small against "
    "the sum. Shards add up in fp32 either way.");
ABSL_FLAG(bool, fp32_norms, kDefaults.fp32_norms,
          "Norms compute in fp32 whatever --param_dtype is, as units of their own.");
ABSL_FLAG(bool, keep_low_precision_grads, kDefaults.keep_low_precision_grads,
          "What the optimizer reads is rounded to --reduce_dtype; false: fp32, as sums over ranks "
          "are made (more memory), where gradients are sharded.");
ABSL_FLAG(std::string, loss_scale, kDefaults.loss_scale,
          "What the loss is multiplied by, and gradients divided by again, so that small ones "
          "survive fp16: auto (dynamic for fp16, else none), dynamic, or a power of two.");
ABSL_FLAG(int64_t, loss_scale_growth_interval, kDefaults.loss_scale_growth_interval,
          "Steps without an overflow before a dynamic loss scale doubles.");
ABSL_FLAG(std::string, master_dtype, kDefaults.master_dtype,
          "What the optimizer keeps and updates parameters in: fp32, or bf16 with "
          "--param_dtype=bf16: no second copy of the weights, and updates are rounded "
          "stochastically.");
ABSL_FLAG(std::string, optimizer_state_dtype, kDefaults.optimizer_state_dtype,
          "What AdamW keeps its two moments in: fp32, bf16 (rounded stochastically) or int8 (8-bit "
          "codes and a scale for each 128 elements): 8, 4 or 2.06 bytes a parameter.");
ABSL_FLAG(
    std::string, reshard_after_forward, kDefaults.reshard_after_forward,
    "What full_shard and hybrid_shard do between a block's forward and its backward: true frees "
    "gathered parameters, false keeps them (more memory, a third less traffic), a number keeps "
    "them sharded over groups of that many ranks, in which backward gathers.");
ABSL_FLAG(bool, prefetch, kDefaults.prefetch, "Gather the next unit while this one computes.");
ABSL_FLAG(std::string, backward_prefetch, kDefaults.backward_prefetch,
          "When backward gathers the next unit: pre (beside this one's computation), post (after "
          "it: less memory in use, less overlap) or none (when it is needed).");
ABSL_FLAG(int, limit_all_gathers, kDefaults.limit_all_gathers,
          "Units, besides the root, that are gathered at a time: the one in use and those ahead.");
ABSL_FLAG(std::string, layout, kDefaults.layout,
          "Where parameters are cut: flat (a unit in equal shares) or rows (each parameter between "
          "rows of its first dimension, as FSDP2 does; one collective for each).");
ABSL_FLAG(double, gradient_divide_factor, kDefaults.gradient_divide_factor,
          "What sums of gradients over ranks are divided by; 0: the number of ranks.");
ABSL_FLAG(bool, quantized_weights, kDefaults.quantized_weights,
          "Gather parameters as int8 with a scale for each 256 (ZeRO++'s qwZ): a quarter of fp32's "
          "traffic. The optimizer's masters stay as they are.");
ABSL_FLAG(bool, quantized_gradients, kDefaults.quantized_gradients,
          "Reduce gradients as int8 in the same way, by an all-to-all (qgZ).");
ABSL_FLAG(std::string, activation_checkpointing, kDefaults.activation_checkpointing,
          "What keeps only its input in forward and is computed again in backward: none, block, "
          "attention or mlp. Changes memory and time, no result.");
ABSL_FLAG(bool, cuda_graphs, kDefaults.cuda_graphs,
          "Capture one step as a CUDA graph and launch that at every later one: the same bits, and "
          "next to no work for the host. Needs --device=cuda; with --comm=local, one rank.");
ABSL_FLAG(int64_t, min_wrap_numel, kDefaults.min_wrap_numel,
          "Make a unit of as many modules as hold at least this many parameters; 0: a unit per "
          "transformer block.");
ABSL_FLAG(bool, shard_optimizer_over_world, kDefaults.shard_optimizer_over_world,
          "For hybrid_shard: optimizer state and fp32 weights over all ranks, not over a group "
          "alone; parameters and gradients cross groups once a step, and 1 / shard_size of all "
          "parameters stays in memory while it runs. Changes no result.");
ABSL_FLAG(int64_t, batch_size, kDefaults.batch_size,
          "Sequences per rank and step; the global batch is this times --world_size "
          "and --grad_accum.");
ABSL_FLAG(int64_t, global_batch_size, kDefaults.global_batch_size,
          "Sequences of a step over all ranks and micro-batches, in the place of --batch_size: the "
          "same training at another --world_size. It must divide. 0: what --batch_size makes it.");
ABSL_FLAG(int64_t, grad_accum, kDefaults.grad_accum,
          "Micro-batches of --batch_size sequences that each rank adds up before an update.");
ABSL_FLAG(
    std::string, grad_sync, kDefaults.grad_sync,
    "When gradients are reduced, with --grad_accum: every micro-batch (less memory) or the last "
    "one only (less traffic; each rank keeps all gradients in full).");
ABSL_FLAG(int64_t, seq_len, kDefaults.seq_len, "Tokens per sequence.");
ABSL_FLAG(int64_t, steps, kDefaults.steps,
          "Optimizer steps; 0: the model is only evaluated on --eval_data, or, without that, only "
          "written to final/.");
ABSL_FLAG(double, lr, kDefaults.lr, "Peak learning rate.");
ABSL_FLAG(double, min_lr, kDefaults.min_lr,
          "Learning rate at the end of a linear or cosine schedule, at most --lr; -1: a tenth of "
          "--lr.");
ABSL_FLAG(std::string, lr_schedule, kDefaults.lr_schedule,
          "constant, linear or cosine, after the warm-up.");
ABSL_FLAG(int64_t, warmup_steps, kDefaults.warmup_steps,
          "Steps over which the learning rate rises to its peak.");
ABSL_FLAG(double, beta1, kDefaults.beta1, "AdamW: decay of the first moment.");
ABSL_FLAG(double, beta2, kDefaults.beta2, "AdamW: decay of the second moment.");
ABSL_FLAG(double, eps, kDefaults.eps, "AdamW: added to the root of the second moment.");
ABSL_FLAG(double, weight_decay, kDefaults.weight_decay,
          "AdamW: decay of parameters with two or more dimensions.");
ABSL_FLAG(double, clip_grad_norm, kDefaults.clip_grad_norm,
          "Largest global gradient norm; 0: no clipping.");
ABSL_FLAG(
    std::string, on_nonfinite, kDefaults.on_nonfinite,
    "What to do where a gradient is not finite, which never reaches the weights: stop and save "
    "the last good weights, or skip the step and count it.");
ABSL_FLAG(uint64_t, seed, kDefaults.seed, "Of initial weights, shuffling and sampling.");
ABSL_FLAG(bool, shuffle, kDefaults.shuffle,
          "Draw sequences in random order; false: in the data's order.");
ABSL_FLAG(std::string, eval_data, kDefaults.eval_data, "What to evaluate on, as --data.");
ABSL_FLAG(int64_t, eval_every, kDefaults.eval_every,
          "Steps between evaluations; 0: at the end only, if there is --eval_data.");
ABSL_FLAG(int64_t, eval_batches, kDefaults.eval_batches, "Batches of one evaluation.");
ABSL_FLAG(int64_t, sample_every, kDefaults.sample_every,
          "Steps between samples; 0: at the end only.");
ABSL_FLAG(
    int64_t, sample_tokens, kDefaults.sample_tokens,
    "Length of a sample; 0: no samples. Where no tokenizer belongs to the data there are none "
    "either.");
ABSL_FLAG(double, temperature, kDefaults.temperature, "Of samples; 0 takes the likeliest token.");
ABSL_FLAG(std::string, prompt, kDefaults.prompt, "What a sample continues.");
ABSL_FLAG(
    std::string, out, kDefaults.out,
    "Directory for metrics.jsonl, checkpoints and final/, the trained model. Empty: a new one "
    "for each run, zeroth_out/run-1, run-2, ..., of which zeroth_out/latest is the newest.");
ABSL_FLAG(bool, overwrite, kDefaults.overwrite,
          "Remove what an earlier run left in --out (metrics, checkpoints, models) when this one "
          "begins to train; false: refuse a directory in which there is such.");
ABSL_FLAG(int64_t, log_every, kDefaults.log_every,
          "Steps between printed lines where there is no terminal.");
ABSL_FLAG(std::string, trace, kDefaults.trace,
          "File for a timeline of a few early steps of rank 0, for Perfetto or chrome://tracing.");
ABSL_FLAG(int64_t, lora_rank, kDefaults.lora_rank,
          "Train low-rank adapters of this rank beside frozen weights, and merge them into the "
          "model that is written; 0: train everything.");
ABSL_FLAG(double, lora_alpha, kDefaults.lora_alpha,
          "What adapters add is multiplied by this over --lora_rank.");
ABSL_FLAG(std::string, lora_targets, kDefaults.lora_targets,
          "Which linear layers of the blocks have adapters: all, or the ends of their names with "
          "commas in between, as q_proj,v_proj.");
ABSL_FLAG(double, lora_b_lr_scale, kDefaults.lora_b_lr_scale,
          "Learning rate of the adapters' second halves, those that begin as zeros, times --lr "
          "(LoRA+ advises 16); 1: as that of the first.");
ABSL_FLAG(double, skip_loss_zscore, kDefaults.skip_loss_zscore,
          "Skip the update of a step whose loss is more standard deviations than this above the "
          "mean of the last 128 steps; 0: never.");
ABSL_FLAG(double, skip_grad_norm_zscore, kDefaults.skip_grad_norm_zscore,
          "The same for the gradient norm before clipping; 0: never.");
ABSL_FLAG(double, ema_decay, kDefaults.ema_decay,
          "Keep an exponential moving average of the weights with this decay, as 0.999; it is "
          "evaluated beside the weights and written to final_ema/. 0: none.");
ABSL_FLAG(int64_t, checkpoint_every, kDefaults.checkpoint_every,
          "Steps between checkpoints of the whole training state in --out, from which --resume "
          "goes on with the same bits; 0: none. There is one at the end, too.");
ABSL_FLAG(
    int64_t, keep_last, kDefaults.keep_last,
    "Checkpoints to keep, the newest ones; 0: all. Older ones go once a newer one is complete.");
ABSL_FLAG(int64_t, keep_every, kDefaults.keep_every,
          "Keep the checkpoints of every so many steps as well; 0: none.");
ABSL_FLAG(std::string, resume, kDefaults.resume,
          "Go on from a checkpoint: a directory step-N, or one that holds such, of which the "
          "newest is taken; or auto: the newest in --out (without --out, in the run that "
          "zeroth_out/latest points to), and from the start if there is none. "
          "World size, strategy and types may be others.");
ABSL_FLAG(bool, allow_partial, kDefaults.allow_partial,
          "With --resume, take from the checkpoint what fits the model, and say what does not; "
          "false: refuse.");
ABSL_FLAG(bool, async_checkpoint, kDefaults.async_checkpoint,
          "Copy the state to host memory and write it from there while training goes on.");
ABSL_FLAG(std::string, async_when_busy, kDefaults.async_when_busy,
          "What a save does when two earlier ones are still being written: wait, or skip it.");
ABSL_FLAG(std::string, export_dtype, kDefaults.export_dtype,
          "Type of the weights that are written to final/: fp32 or bf16.");
ABSL_FLAG(
    std::string, max_shard_size, kDefaults.max_shard_size,
    "Most bytes of a weight file in final/, as 5GB or 500MiB; there are several with an index "
    "then. 0: one file.");
ABSL_FLAG(std::string, lora_export, kDefaults.lora_export,
          "What is written of a model with adapters: merged, a plain model in final/; adapter, the "
          "adapters alone, as the library PEFT reads them, in final_adapter/; or both.");

ABSL_FLAG(int64_t, deterministic_batch, kDefaults.deterministic_batch,
          "Micro-batches of --batch_size sequences in the global batch, which the ranks share and "
          "whose gradients are summed in one fixed tree: the same bits at every --world_size that "
          "is a power of two and divides it, under every --strategy, also across a --resume. Each "
          "is reduced by itself, and at most log2 of a rank's micro-batches fp32 shards of "
          "gradients are kept more. 0: the batch is what --world_size and --grad_accum make it.");

ABSL_FLAG(std::string, fp32_precision, kDefaults.fp32_precision,
          "What products in fp32 are made in, in PyTorch's words: ieee (fp32), or tf32 (operands "
          "rounded to 10 bits of mantissa for tensor cores, sums in fp32; attention stays fp32). "
          "tf32 needs --device=cuda and --param_dtype=fp32.");

ABSL_FLAG(bool, allow_slow_kernels, kDefaults.allow_slow_kernels,
          "Go on where the device's library has no algorithm for a large matrix product: a plain "
          "kernel computes it, about a hundred times slower, and the run names it. Otherwise that "
          "is an error. Needs --device=cuda.");

ABSL_FLAG(
    std::string, fp8, kDefaults.fp8,
    "Products of the blocks' linear layers in 8-bit floats: tensorwise (inputs and weights as "
    "e4m3, gradients of outputs as e5m2, one scale a tensor, from its largest magnitude just "
    "then, as torchao's recipe of this name) or none. Needs --param_dtype=bf16 or fp16; "
    "layers whose sizes are no multiples of 16 stay in that, and are named at the start. On "
    "a CPU the same numbers, more slowly.");

ABSL_FLAG(
    std::string, attention_backend, kDefaults.attention_backend,
    "What computes attention on GPUs: cudnn (cuDNN 9, loaded at run time; bf16 and fp16), "
    "flash (Zeroth's own kernels), or auto: cudnn where it is found and has an engine for the "
    "shape, else flash. The run says at its start which it is.");

namespace zeroth {

absl::StatusOr<TrainOptions> ParseCommandLine(int argc, char** argv, const std::string& version) {
  absl::SetProgramUsageMessage(
      "Trains a GPT-2 or Llama model on text, sharded over ranks.\n\n  ./bazelw run //train -- "
      "--data=README.md\n\n"
      "Relative paths are taken from the directory that the command was given in.");
  ShowFlagsOf("train/flags.cc", version);
  ZEROTH_RETURN_IF_ERROR(CheckFlags(argc, argv));
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unexpected argument '", rest[1], "': flags start with --, as in --data=FILE; see --help"));
  }
  TrainOptions options;
  options.data = absl::GetFlag(FLAGS_data);
  options.model = absl::GetFlag(FLAGS_model);
  options.init_from = absl::GetFlag(FLAGS_init_from);
  options.init_adapter = absl::GetFlag(FLAGS_init_adapter);
  options.tokenizer = absl::GetFlag(FLAGS_tokenizer);
  options.device = absl::GetFlag(FLAGS_device);
  options.comm = absl::GetFlag(FLAGS_comm);
  options.strategy = absl::GetFlag(FLAGS_strategy);
  options.world_size = absl::GetFlag(FLAGS_world_size);
  options.comm_timeout = absl::GetFlag(FLAGS_comm_timeout);
  options.reduction = absl::GetFlag(FLAGS_reduction);
  options.nccl_copy_engine = absl::GetFlag(FLAGS_nccl_copy_engine);
  options.shard_size = absl::GetFlag(FLAGS_shard_size);
  options.memory_limit = absl::GetFlag(FLAGS_memory_limit);
  options.offload = absl::GetFlag(FLAGS_offload);
  options.offload_dir = absl::GetFlag(FLAGS_offload_dir);
  options.threads_per_rank = absl::GetFlag(FLAGS_threads_per_rank);
  options.param_dtype = absl::GetFlag(FLAGS_param_dtype);
  options.reduce_dtype = absl::GetFlag(FLAGS_reduce_dtype);
  options.grad_accum_dtype = absl::GetFlag(FLAGS_grad_accum_dtype);
  options.fp32_norms = absl::GetFlag(FLAGS_fp32_norms);
  options.keep_low_precision_grads = absl::GetFlag(FLAGS_keep_low_precision_grads);
  options.loss_scale = absl::GetFlag(FLAGS_loss_scale);
  options.loss_scale_growth_interval = absl::GetFlag(FLAGS_loss_scale_growth_interval);
  options.master_dtype = absl::GetFlag(FLAGS_master_dtype);
  options.optimizer_state_dtype = absl::GetFlag(FLAGS_optimizer_state_dtype);
  options.reshard_after_forward = absl::GetFlag(FLAGS_reshard_after_forward);
  options.prefetch = absl::GetFlag(FLAGS_prefetch);
  options.backward_prefetch = absl::GetFlag(FLAGS_backward_prefetch);
  options.limit_all_gathers = absl::GetFlag(FLAGS_limit_all_gathers);
  options.layout = absl::GetFlag(FLAGS_layout);
  options.gradient_divide_factor = absl::GetFlag(FLAGS_gradient_divide_factor);
  options.quantized_weights = absl::GetFlag(FLAGS_quantized_weights);
  options.quantized_gradients = absl::GetFlag(FLAGS_quantized_gradients);
  options.activation_checkpointing = absl::GetFlag(FLAGS_activation_checkpointing);
  options.cuda_graphs = absl::GetFlag(FLAGS_cuda_graphs);
  options.min_wrap_numel = absl::GetFlag(FLAGS_min_wrap_numel);
  options.shard_optimizer_over_world = absl::GetFlag(FLAGS_shard_optimizer_over_world);
  options.batch_size = absl::GetFlag(FLAGS_batch_size);
  options.global_batch_size = absl::GetFlag(FLAGS_global_batch_size);
  options.grad_accum = absl::GetFlag(FLAGS_grad_accum);
  options.grad_sync = absl::GetFlag(FLAGS_grad_sync);
  options.seq_len = absl::GetFlag(FLAGS_seq_len);
  options.steps = absl::GetFlag(FLAGS_steps);
  options.lr = absl::GetFlag(FLAGS_lr);
  options.min_lr = absl::GetFlag(FLAGS_min_lr);
  options.lr_schedule = absl::GetFlag(FLAGS_lr_schedule);
  options.warmup_steps = absl::GetFlag(FLAGS_warmup_steps);
  options.beta1 = absl::GetFlag(FLAGS_beta1);
  options.beta2 = absl::GetFlag(FLAGS_beta2);
  options.eps = absl::GetFlag(FLAGS_eps);
  options.weight_decay = absl::GetFlag(FLAGS_weight_decay);
  options.clip_grad_norm = absl::GetFlag(FLAGS_clip_grad_norm);
  options.on_nonfinite = absl::GetFlag(FLAGS_on_nonfinite);
  options.seed = absl::GetFlag(FLAGS_seed);
  options.shuffle = absl::GetFlag(FLAGS_shuffle);
  options.eval_data = absl::GetFlag(FLAGS_eval_data);
  options.eval_every = absl::GetFlag(FLAGS_eval_every);
  options.eval_batches = absl::GetFlag(FLAGS_eval_batches);
  options.sample_every = absl::GetFlag(FLAGS_sample_every);
  options.sample_tokens = absl::GetFlag(FLAGS_sample_tokens);
  options.temperature = absl::GetFlag(FLAGS_temperature);
  options.prompt = absl::GetFlag(FLAGS_prompt);
  options.out = absl::GetFlag(FLAGS_out);
  options.overwrite = absl::GetFlag(FLAGS_overwrite);
  options.log_every = absl::GetFlag(FLAGS_log_every);
  options.trace = absl::GetFlag(FLAGS_trace);
  options.lora_rank = absl::GetFlag(FLAGS_lora_rank);
  options.lora_alpha = absl::GetFlag(FLAGS_lora_alpha);
  options.lora_targets = absl::GetFlag(FLAGS_lora_targets);
  options.lora_b_lr_scale = absl::GetFlag(FLAGS_lora_b_lr_scale);
  options.skip_loss_zscore = absl::GetFlag(FLAGS_skip_loss_zscore);
  options.skip_grad_norm_zscore = absl::GetFlag(FLAGS_skip_grad_norm_zscore);
  options.ema_decay = absl::GetFlag(FLAGS_ema_decay);
  options.checkpoint_every = absl::GetFlag(FLAGS_checkpoint_every);
  options.keep_last = absl::GetFlag(FLAGS_keep_last);
  options.keep_every = absl::GetFlag(FLAGS_keep_every);
  options.resume = absl::GetFlag(FLAGS_resume);
  options.allow_partial = absl::GetFlag(FLAGS_allow_partial);
  options.async_checkpoint = absl::GetFlag(FLAGS_async_checkpoint);
  options.async_when_busy = absl::GetFlag(FLAGS_async_when_busy);
  options.deterministic_batch = absl::GetFlag(FLAGS_deterministic_batch);
  options.export_dtype = absl::GetFlag(FLAGS_export_dtype);
  options.max_shard_size = absl::GetFlag(FLAGS_max_shard_size);
  options.lora_export = absl::GetFlag(FLAGS_lora_export);
  options.fp32_precision = absl::GetFlag(FLAGS_fp32_precision);
  options.allow_slow_kernels = absl::GetFlag(FLAGS_allow_slow_kernels);
  options.fp8 = absl::GetFlag(FLAGS_fp8);
  options.attention_backend = absl::GetFlag(FLAGS_attention_backend);
  ZEROTH_RETURN_IF_ERROR(Validate(options));
  return options;
}

}  // namespace zeroth
