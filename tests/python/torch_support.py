# SPDX-License-Identifier: Apache-2.0
"""What the tests of torch.compile share. Importing it without PyTorch skips the tests that import it."""
import contextlib
import logging
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed; ./dev test --frameworks installs it and runs these tests") from None

import fusec.torch
from support import TestCase


class Log(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append((record.levelname, record.getMessage()))


class TorchCase(TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(0)

    @contextlib.contextmanager
    def log(self):
        """What the backend tells the logger fusec: [(level, text)]. What the compiler tells it is left out."""
        logger, log = logging.getLogger("fusec"), Log()
        log.addFilter(lambda record: record.getMessage().startswith("torch.compile"))
        before, propagates = logger.level, logger.propagate
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(log)
        try:
            yield log.lines
        finally:
            logger.removeHandler(log)
            logger.setLevel(before)
            logger.propagate = propagates

    def compiled(self, function, strict=True, dynamic=None, **options):
        return torch.compile(function, backend=fusec.torch.backend, dynamic=dynamic, options={"strict": strict, "threads": 2, **options})

    def check(self, function, *arguments, tolerance=1e-5, **options):
        """Results, dtypes, shapes and strides are those of eager."""
        with torch.no_grad():
            expected, got = function(*arguments), self.compiled(function, **options)(*arguments)
        self.same(got, expected, tolerance)
        return got

    def same(self, got, expected, tolerance=1e-5):
        if isinstance(expected, (tuple, list)):
            self.assertEqual(len(got), len(expected))
            for a, b in zip(got, expected):
                self.same(a, b, tolerance)
        elif isinstance(expected, torch.Tensor):
            torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
            self.assertEqual(got.stride(), expected.stride())
        else:
            self.assertEqual(got, expected)
