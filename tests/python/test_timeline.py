# SPDX-License-Identifier: Apache-2.0
"""Reads the timelines of `fusec profile` with Perfetto's own messages."""
import importlib.util
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import DIGITS

PROGRAM = Path(os.environ.get("FUSEC_LIBRARY", "")).resolve().parent / "bin" / "fusec"


@unittest.skipUnless(PROGRAM.exists(), "the fusec command is not beside the library")
@unittest.skipUnless(importlib.util.find_spec("perfetto"), "the package perfetto is not installed; ./dev python-test installs it")
class Timelines(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def profile(self, name):
        path = Path(self.folder.name) / name
        command = [PROGRAM, "profile", DIGITS / "digits.onnx", "--device", "cpu", "--runs", "3", "--trace", path, "--json"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
        return json.loads(done.stdout), path.read_bytes()

    def test_perfetto_reads_every_slice(self):
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto
        profile, data = self.profile("t.pftrace")
        trace = perfetto.Trace()
        trace.ParseFromString(data)
        tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
        process = [t for t in tracks.values() if t.HasField("process")]
        self.assertEqual([t.process.process_name for t in process], ["digits.onnx"])
        begins, last, opened, leaving, ending = {}, {}, {}, [], []
        for packet in trace.packet:
            if not packet.HasField("track_event"):
                continue
            event = packet.track_event
            track = tracks[event.track_uuid].name
            self.assertGreaterEqual(packet.timestamp, last.get(track, 0))
            last[track] = packet.timestamp
            if event.type == perfetto.TrackEvent.TYPE_SLICE_BEGIN:
                self.assertFalse(opened.get(track), "slices of a track do not overlap")
                begins.setdefault(track, []).append(event)
            opened[track] = event.type == perfetto.TrackEvent.TYPE_SLICE_BEGIN
            leaving += event.flow_ids
            ending += event.terminating_flow_ids
        self.assertFalse(any(opened.values()))
        self.assertEqual(len(begins["runs"]), 3)
        self.assertEqual([e.name for e in begins["launches"]], [launch["name"] for launch in profile["launches"]] * 3)
        notes = {a.name: a for a in begins["launches"][0].debug_annotations}
        self.assertEqual(notes["origin"].string_value, profile["launches"][0]["origin"])
        self.assertEqual(notes["bytes"].int_value, profile["launches"][0]["bytes"])
        self.assertEqual(len(leaving), 3)
        self.assertEqual(sorted(leaving), sorted(ending))

    def test_both_formats_hold_the_same_tracks(self):
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto
        _, data = self.profile("t.perfetto-trace")
        trace = perfetto.Trace()
        trace.ParseFromString(data)
        _, text = self.profile("t.json")
        named = {e["args"]["name"] for e in json.loads(text)["traceEvents"] if e["name"] == "thread_name"}
        self.assertEqual(named, {p.track_descriptor.name for p in trace.packet if p.track_descriptor.name})


if __name__ == "__main__":
    unittest.main()
