#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what a call of an engine takes beside the run: y = x + 1 of 16 numbers, the least of many means.

usage: FUSEC_LIBRARY=build/release/lib PYTHONPATH=bindings/python python3 tests/python/overhead.py
"""
import timeit

import numpy as np

import fusec
from fusec import _library

builder = fusec.Builder()
builder.output("y", builder.input("x", "f32", ["n"]) + 1)
engine = fusec.compile(builder)
x, out = np.ones(16, np.float32), np.empty(16, np.float32)
strided, ones = np.ones(32, np.float32)[::2], [1.0] * 16
session = engine.session()
session(x)
plan, run_raw, handle = session._plan(((16,),)), _library.function("session_run_raw"), session._handle.value
for name, call in (("fusec_session_run_raw by ctypes", lambda: run_raw(handle, plan.extents, plan.in_pointers, plan.out_pointers, None)),
                   ("session(x)", lambda: session(x)), ("engine(x)", lambda: engine(x)), ("engine(x, out=y)", lambda: engine(x, out=out)),
                   ("engine(x=x)", lambda: engine(x=x)), ("engine(strided)", lambda: engine(strided)), ("engine(a list)", lambda: engine(ones))):
    print(f"{name:32} {min(timeit.repeat(call, number=100, repeat=600)) * 1e4:5.2f} us")
