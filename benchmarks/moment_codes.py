# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""What 8-bit codes of AdamW's moments do to its updates: the table of docs/precision.md.

Gradients are Gaussian with a mean of half their deviation, and shrink to a third half-way, as in
training. Their sizes inside a block of 128 elements are log-normal: "spread" is the deviation of
the logarithm. Every code keeps moments of its own, encoded after each step; its update, m / sqrt(v)
after corrections, is compared with that of float64 moments. Needs NumPy:

  python3 benchmarks/moment_codes.py
"""

import numpy as np

BLOCK = 128
ELEMENTS = 64 * BLOCK
BETA1 = 0.9


def small_float(exponent_bits, mantissa_bits):
    """Magnitudes of a float with gradual underflow, the largest of them 1."""
    top = 2**exponent_bits - 1
    steps = np.arange(2**mantissa_bits) / 2**mantissa_bits
    values = [steps * 2.0**(1 - top)] + [(1 + steps) * 2.0**(e - top) for e in range(1, top + 1)]
    values = np.concatenate(values)
    return values / values[-1]


def dynamic_tree(bits):
    """Leading zeros count decades, the rest is a linear fraction (Dettmers et al., 2022)."""
    values = [np.zeros(1)]
    for decades in range(bits):
        count = 2**(bits - 1 - decades)
        values.append(10.0**-decades * (0.1 + 0.9 * (np.arange(count) + 0.5) / count))
    values = np.sort(np.concatenate(values))
    return values / values[-1]


def powers(count, power):
    """Evenly spaced in the power-th root."""
    return (np.arange(count + 1) / count)**power


def encode(code, values, stochastic, keeps_above_zero, rng):
    """Magnitudes as `code` represents them, blocks scaled to their largest."""
    blocks = values.reshape(-1, BLOCK)
    scale = blocks.max(axis=1, keepdims=True)
    ratio = blocks / np.where(scale > 0, scale, 1)
    above = np.clip(np.searchsorted(code, ratio, side="right"), 1, len(code) - 1)
    below = above - 1
    fraction = (ratio - code[below]) / (code[above] - code[below])
    threshold = 1 - rng.random(fraction.shape) if stochastic else 0.5
    chosen = np.where(fraction >= threshold, above, below)
    if keeps_above_zero:
        chosen = np.where((blocks > 0) & (chosen == 0), 1, chosen)
    return (code[chosen] * scale).reshape(-1)


# Name, code of m, code of v, rounded stochastically, v above zero stays so.
CODES = [
    ("float e4m3, float e5m3", small_float(4, 3), small_float(5, 3), True, True),
    ("the same, to nearest", small_float(4, 3), small_float(5, 3), False, True),
    ("float e3m4, float e5m3", small_float(3, 4), small_float(5, 3), True, True),
    ("float e4m3, float e4m4", small_float(4, 3), small_float(4, 4), True, True),
    ("linear, linear in sqrt", powers(127, 1), powers(255, 2), True, True),
    ("the same, to nearest", powers(127, 1), powers(255, 2), False, True),
    ("the same, zeros allowed", powers(127, 1), powers(255, 2), False, False),
    ("dynamic tree, to nearest", dynamic_tree(7), dynamic_tree(8), False, False),
    ("dynamic tree", dynamic_tree(7), dynamic_tree(8), True, True),
]


def measure(beta2, spread, rng):
    """(mean relative error, largest update) of every code; the latter for float64 too."""
    size = np.exp(spread * rng.standard_normal(ELEMENTS))
    steps = int(3 / (1 - beta2)) + 100
    exact_m, exact_v = np.zeros(ELEMENTS), np.zeros(ELEMENTS)
    state = [(np.zeros(ELEMENTS), np.zeros(ELEMENTS)) for _ in CODES]
    errors = [[] for _ in CODES]
    largest = np.zeros(len(CODES))
    exact_largest = 0.0
    for step in range(1, steps + 1):
        gradient = size * (3 if step < steps // 2 else 1) * (rng.standard_normal(ELEMENTS) + 0.5)
        correction1, correction2 = 1 - BETA1**step, 1 - beta2**step

        def advance(m, v):
            m = BETA1 * m + (1 - BETA1) * gradient
            v = beta2 * v + (1 - beta2) * gradient**2
            return m, v, m / correction1 / (np.sqrt(v / correction2) + 1e-8)

        exact_m, exact_v, exact = advance(exact_m, exact_v)
        for i, (_, m_code, v_code, stochastic, keeps) in enumerate(CODES):
            m, v, update = advance(*state[i])
            if step > 20:
                errors[i].append(np.linalg.norm(update - exact) / np.linalg.norm(exact))
                largest[i] = max(largest[i], np.abs(update).max())
                exact_largest = max(exact_largest, np.abs(exact).max())
            state[i] = (np.sign(m) * encode(m_code, np.abs(m), stochastic, False, rng),
                        encode(v_code, v, stochastic, keeps, rng))
    return [np.mean(error) for error in errors], largest, exact_largest


def main():
    rng = np.random.default_rng(1)
    for beta2 in (0.95, 0.999):
        for spread in (1.0, 2.0):
            errors, largest, exact = measure(beta2, spread, rng)
            print(f"beta2 {beta2}, spread {spread}: the largest exact update is {exact:.1f}")
            for (name, *_), error, most in zip(CODES, errors, largest):
                print(f"  {name:26s} error {error:8.3f}   largest update {most:10.1f}", flush=True)


if __name__ == "__main__":
    main()
