// SPDX-License-Identifier: Apache-2.0
// The alternatives of a schedule: which ones there are beside what the families decided, and how they are called.

#include <algorithm>

#include "compiler/lower/schedule/schedule.h"

namespace fusec::compiler {

namespace {

constexpr int kMinThreads = 64, kMaxThreads = 512, kMaxAccesses = 8;
constexpr int64_t kTaskFactor = 4;
constexpr int kMinTile = 32, kMaxTile = 128;
constexpr int kMinStrip = 4, kMaxStrip = 32;

struct Named {
  Decision ScheduleChoice::*what;
  const char *yes, *no;
};
constexpr Named kDecisions[] = {
    {&ScheduleChoice::tiles, "in tiles", "without tiles"},
    {&ScheduleChoice::holds, "held in registers", "read again"},
    {&ScheduleChoice::clusters, "in a cluster", "without a cluster"},
    {&ScheduleChoice::slices, "rows shared", "whole rows"},
    {&ScheduleChoice::passes, "passes in one launch", "a launch for each pass"},
    {&ScheduleChoice::streams, "past the caches", "through the caches"},
};

void add(std::string& text, const std::string& part) { text += (text.empty() ? "" : ", ") + part; }

}  // namespace

std::string to_string(const ScheduleChoice& choice) {
  std::string text;
  if (choice.threads > 0) add(text, std::to_string(choice.threads) + " threads");
  if (choice.accesses > 0) add(text, std::to_string(choice.accesses) + " accesses a thread");
  if (choice.task > 0) add(text, std::to_string(choice.task) + " elements a task");
  if (choice.tile_rows > 0) add(text, "tiles of " + std::to_string(choice.tile_rows) + " rows");
  if (choice.tile_columns > 0) add(text, "tiles of " + std::to_string(choice.tile_columns) + " columns");
  if (choice.strip > 0) add(text, "strips of " + std::to_string(choice.strip) + " accesses");
  for (const Named& d : kDecisions)
    if (choice.*d.what != Decision::open) add(text, choice.*d.what == Decision::yes ? d.yes : d.no);
  return text;
}

std::vector<ScheduleChoice> list_choices(const ScheduleChoice& made) {
  std::vector<ScheduleChoice> choices;
  const auto with = [&](auto ScheduleChoice::*what, auto value) {
    ScheduleChoice& choice = choices.emplace_back();
    choice.*what = value;
  };
  for (const Named& d : kDecisions)
    if (made.*d.what != Decision::open) with(d.what, made.*d.what == Decision::yes ? Decision::no : Decision::yes);
  const auto halve_and_double = [&](auto ScheduleChoice::*what, auto least, auto most) {
    const auto value = made.*what;
    if (value / 2 >= least) with(what, value / 2);
    if (value > 0 && value * 2 <= most) with(what, value * 2);
  };
  halve_and_double(&ScheduleChoice::tile_rows, kMinTile, kMaxTile);
  halve_and_double(&ScheduleChoice::tile_columns, kMinTile, kMaxTile);
  halve_and_double(&ScheduleChoice::strip, kMinStrip, kMaxStrip);
  if (made.threads > kMinThreads) with(&ScheduleChoice::threads, made.threads / 2);
  if (made.threads > 0 && made.threads < kMaxThreads) with(&ScheduleChoice::threads, made.threads * 2);
  if (made.accesses > 1) with(&ScheduleChoice::accesses, made.accesses / 2);
  if (made.accesses > 0 && made.accesses < kMaxAccesses) with(&ScheduleChoice::accesses, made.accesses * 2);
  if (made.task > 0) with(&ScheduleChoice::task, made.task / kTaskFactor);
  if (made.task > 0) with(&ScheduleChoice::task, made.task * kTaskFactor);
  return choices;
}

bool decide(const Scheduling& s, Decision ScheduleChoice::*what, bool wanted) {
  const Decision asked = s.choice.*what;
  const bool taken = asked == Decision::open ? wanted : asked == Decision::yes;
  s.made.*what = taken ? Decision::yes : Decision::no;
  return taken;
}

int decide(const Scheduling& s, int ScheduleChoice::*what, int wanted) {
  s.made.*what = s.choice.*what > 0 ? s.choice.*what : wanted;
  return s.made.*what;
}

}  // namespace fusec::compiler
