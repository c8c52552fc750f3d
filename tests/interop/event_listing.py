# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Prints what TensorBoard reads from the event files of a directory, as JSON.

  event_listing.py DIRECTORY

{"scalars": {tag: [[step, value], ...]}, "texts": {tag: [[step, text], ...]}}
"""

import json
import math
import sys

from tensorboard.backend.event_processing import event_accumulator

events = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
events.Reload()


def number(value):
    """Returns a JSON value, also for non-finite numbers."""
    return value if math.isfinite(value) else str(value)


scalars = {tag: [[event.step, number(event.value)] for event in events.Scalars(tag)]
           for tag in events.Tags()["scalars"]}
texts = {}
for tag in events.Tags()["tensors"]:
    if events.SummaryMetadata(tag).plugin_data.plugin_name == "text":
        texts[tag] = [[event.step, event.tensor_proto.string_val[0].decode()] for event in events.Tensors(tag)]
print(json.dumps({"scalars": scalars, "texts": texts}))
