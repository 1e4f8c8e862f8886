# SPDX-License-Identifier: Apache-2.0
"""Why a node stays with torch."""


class Refused(Exception):
    """fusec cannot take a node; the message says why, without naming the node."""
