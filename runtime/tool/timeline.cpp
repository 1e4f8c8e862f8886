// SPDX-License-Identifier: Apache-2.0
// Both formats hold the same tracks and slices. The protobuf is written field by field: a number and a type, then a
// varint, eight bytes, or a length and bytes.

#include "runtime/tool/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <tuple>

#include "runtime/tool/io/output.h"

namespace fusec::tool {
namespace {

constexpr int kProcess = 1;

int64_t ns(double us) { return std::llround(1e3 * us); }

struct Track {
  std::string name;
  int64_t id = 0;  // from 1 on, in the order of the viewer
  std::vector<const ProfileSlice*> slices;
};

// What the caller sees comes first, then launches and copies, then the tracks with numbers.
int rank_of(const std::string& name) {
  constexpr const char* kFirst[] = {"runs", "host", "launches", "copies"};
  for (int i = 0; i < 4; ++i)
    if (name.starts_with(kFirst[i])) return i;
  return 4;
}

std::vector<Track> tracks_of(const Profile& profile) {
  std::map<std::tuple<int, std::size_t, std::string>, Track> by_order;
  for (const ProfileSlice& slice : profile.slices) {
    Track& track = by_order[{rank_of(slice.track), slice.track.size(), slice.track}];
    track.name = slice.track;
    track.slices.push_back(&slice);
  }
  std::vector<Track> tracks;
  for (auto& [order, track] : by_order) {
    tracks.push_back(std::move(track));
    tracks.back().id = static_cast<int64_t>(tracks.size());
  }
  return tracks;
}

// By slice, the arrows that leave it or end at it: a run has one to its first launch or copy on each track.
struct Arrows {
  std::map<const ProfileSlice*, std::vector<int64_t>> leave, end;
};
Arrows arrows_of(const std::vector<Track>& tracks) {
  std::map<int64_t, const ProfileSlice*> calls;
  for (const Track& track : tracks)
    for (const ProfileSlice* slice : track.slices)
      if (slice->kind == SliceKind::call) calls[slice->run] = slice;
  Arrows arrows;
  int64_t next = 1;
  for (const Track& track : tracks) {
    int64_t run = -1;
    for (const ProfileSlice* slice : track.slices) {
      if ((slice->kind != SliceKind::launch && slice->kind != SliceKind::copy) || slice->run == run) continue;
      run = slice->run;
      if (!calls.contains(run)) continue;
      arrows.leave[calls[run]].push_back(next);
      arrows.end[slice].push_back(next++);
    }
  }
  return arrows;
}

std::vector<std::pair<std::string, Json>> facts_of(const Profile& profile, const ProfileSlice& slice) {
  std::vector<std::pair<std::string, Json>> facts = {{"run", slice.run}};
  if (slice.bytes > 0) facts.emplace_back("bytes", slice.bytes);
  if (slice.launch < 0) return facts;
  const LaunchProfile& launch = profile.launches[static_cast<std::size_t>(slice.launch)];
  facts.emplace_back("launch", slice.launch);
  facts.emplace_back("origin", launch.info.origin);
  facts.emplace_back("bytes", launch.info.bytes);
  if (launch.info.generated) {
    facts.emplace_back("predicted_us", launch.info.predicted_us);
    facts.emplace_back("bound_us", launch.info.bound_us);
  }
  return facts;
}

Json metadata(const char* what, int64_t track, Json value) {
  return {{"ph", "M"}, {"name", what}, {"pid", kProcess}, {"tid", track}, {"args", std::move(value)}};
}

class Message {
 public:
  void varint(int field, uint64_t value) {
    put(static_cast<uint64_t>(field) << 3);
    put(value);
  }
  void fixed64(int field, uint64_t value) {
    put(static_cast<uint64_t>(field) << 3 | 1);
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void real(int field, double value) { fixed64(field, std::bit_cast<uint64_t>(value)); }
  void text(int field, const std::string& value) {
    put(static_cast<uint64_t>(field) << 3 | 2);
    put(value.size());
    bytes_ += value;
  }
  void message(int field, const Message& value) { text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void put(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

// Numbers of the fields of perfetto.protos, which are the same in all its versions.
namespace field {
constexpr int kTracePacket = 1;
constexpr int kPacketTimestamp = 8, kPacketSequence = 10, kPacketEvent = 11, kPacketTrack = 60;
constexpr int kTrackUuid = 1, kTrackName = 2, kTrackProcess = 3, kTrackParent = 5;
constexpr int kProcessPid = 1, kProcessName = 6;
constexpr int kEventAnnotation = 4, kEventType = 9, kEventTrack = 11, kEventCategory = 22, kEventName = 23;
constexpr int kEventFlow = 47, kEventLastFlow = 48;
constexpr int kAnnotationInt = 4, kAnnotationDouble = 5, kAnnotationString = 6, kAnnotationName = 10;
}  // namespace field
constexpr uint64_t kBegin = 1, kEnd = 2;  // of a slice
constexpr uint64_t kRoot = 1000;          // uuid of the process; tracks have theirs after it

class PerfettoTrace {
 public:
  void process(const std::string& name) {
    Message process, track;
    process.varint(field::kProcessPid, kProcess);
    process.text(field::kProcessName, name);
    track.varint(field::kTrackUuid, kRoot);
    track.message(field::kTrackProcess, process);
    add_track(track);
  }
  void track(const Track& of) {
    Message track;
    track.varint(field::kTrackUuid, uuid(of));
    track.text(field::kTrackName, of.name);
    track.varint(field::kTrackParent, kRoot);
    add_track(track);
  }
  void event(const Track& of, double us, Message event) {
    event.varint(field::kEventTrack, uuid(of));
    Message packet;
    packet.varint(field::kPacketTimestamp, static_cast<uint64_t>(std::max<int64_t>(ns(us), 0)));
    packet.varint(field::kPacketSequence, 1);
    packet.message(field::kPacketEvent, event);
    trace_.message(field::kTracePacket, packet);
  }
  const std::string& bytes() const { return trace_.bytes(); }

 private:
  static uint64_t uuid(const Track& track) { return kRoot + static_cast<uint64_t>(track.id); }
  void add_track(const Message& track) {
    Message packet;
    packet.varint(field::kPacketSequence, 1);
    packet.message(field::kPacketTrack, track);
    trace_.message(field::kTracePacket, packet);
  }
  Message trace_;
};

Message begin_event(const Profile& profile, const ProfileSlice& slice, Arrows& arrows) {
  Message event;
  event.varint(field::kEventType, kBegin);
  event.text(field::kEventCategory, to_string(slice.kind));
  event.text(field::kEventName, slice.name);
  for (const auto& [name, value] : facts_of(profile, slice)) {
    Message annotation;
    annotation.text(field::kAnnotationName, name);
    if (value.is_string()) {
      annotation.text(field::kAnnotationString, value.get<std::string>());
    } else if (value.is_number_float()) {
      annotation.real(field::kAnnotationDouble, value.get<double>());
    } else {
      annotation.varint(field::kAnnotationInt, static_cast<uint64_t>(value.get<int64_t>()));
    }
    event.message(field::kEventAnnotation, annotation);
  }
  for (const int64_t id : arrows.leave[&slice]) event.fixed64(field::kEventFlow, static_cast<uint64_t>(id));
  for (const int64_t id : arrows.end[&slice]) event.fixed64(field::kEventLastFlow, static_cast<uint64_t>(id));
  return event;
}

}  // namespace

Result<TimelineFormat> timeline_format(const std::string& format, const std::string& path) {
  if (format == "chrome") return TimelineFormat::chrome;
  if (format == "perfetto") return TimelineFormat::perfetto;
  if (!format.empty()) {
    return Status(StatusCode::invalid_argument, "--format '" + format + "': chrome or perfetto");
  }
  if (path.ends_with(".json")) return TimelineFormat::chrome;
  if (path.ends_with(".pftrace") || path.ends_with(".perfetto-trace")) return TimelineFormat::perfetto;
  return Status(
      StatusCode::invalid_argument,
      "--trace '" + path + "': a name ends in .json, .pftrace or .perfetto-trace, or --format says the format");
}

std::string chrome_json(const Profile& profile, const std::string& model) {
  Json events = Json::array({metadata("process_name", 0, {{"name", model}})});
  const std::vector<Track> tracks = tracks_of(profile);
  Arrows arrows = arrows_of(tracks);
  for (const Track& track : tracks) {
    events.push_back(metadata("thread_name", track.id, {{"name", track.name}}));
    events.push_back(metadata("thread_sort_index", track.id, {{"sort_index", track.id}}));
  }
  const auto arrow = [&](const char* phase, const Track& track, const ProfileSlice& slice, int64_t id) {
    events.push_back({{"ph", phase},
                      {"name", "run"},
                      {"cat", "run"},
                      {"id", id},
                      {"pid", kProcess},
                      {"tid", track.id},
                      {"ts", static_cast<double>(ns(slice.start_us)) / 1e3}});
    if (*phase == 'f') events.back()["bp"] = "e";  // it ends at the slice around it
  };
  for (const Track& track : tracks) {
    for (const ProfileSlice* slice : track.slices) {
      Json facts = Json::object();
      for (auto& [name, value] : facts_of(profile, *slice)) facts[name] = std::move(value);
      events.push_back({{"ph", "X"},
                        {"name", slice->name},
                        {"cat", to_string(slice->kind)},
                        {"pid", kProcess},
                        {"tid", track.id},
                        {"ts", static_cast<double>(ns(slice->start_us)) / 1e3},
                        {"dur", static_cast<double>(ns(slice->end_us) - ns(slice->start_us)) / 1e3},
                        {"args", std::move(facts)}});
      for (const int64_t id : arrows.leave[slice]) arrow("s", track, *slice, id);
      for (const int64_t id : arrows.end[slice]) arrow("f", track, *slice, id);
    }
  }
  return Json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}}.dump(-1, ' ', false,
                                                                                  Json::error_handler_t::replace);
}

std::string perfetto_protobuf(const Profile& profile, const std::string& model) {
  PerfettoTrace trace;
  trace.process(model);
  const std::vector<Track> tracks = tracks_of(profile);
  Arrows arrows = arrows_of(tracks);
  for (const Track& track : tracks) {
    trace.track(track);
    for (const ProfileSlice* slice : track.slices) {
      trace.event(track, slice->start_us, begin_event(profile, *slice, arrows));
      Message end;
      end.varint(field::kEventType, kEnd);
      trace.event(track, slice->end_us, std::move(end));
    }
  }
  return trace.bytes();
}

Status write_timeline(const Profile& profile, const std::string& model, TimelineFormat format,
                      const std::string& path) {
  const std::string bytes =
      format == TimelineFormat::chrome ? chrome_json(profile, model) : perfetto_protobuf(profile, model);
  std::ofstream out(path, std::ios::binary);
  out << bytes << std::flush;
  return out ? Status() : Status(StatusCode::invalid_argument, fmt::format("'{}' cannot be written", path));
}

}  // namespace fusec::tool
