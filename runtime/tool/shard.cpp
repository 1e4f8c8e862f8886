// SPDX-License-Identifier: Apache-2.0
#include "runtime/tool/shard.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

namespace fusec::tool {
namespace {

using runtime::Shard;

constexpr uint64_t kMaxShards = 1'000'000;

// The variables in which a launcher tells a process its number and how many there are. Empty: it tells no count.
struct Launcher {
  const char *index, *count;
};
constexpr Launcher kLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
    {"JOB_COMPLETION_INDEX", ""},
    {"RANK", "WORLD_SIZE"},
};

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > kMaxShards) return std::nullopt;
  return number;
}

Status refuse(const std::string& text, const std::string& why) {
  return Status(StatusCode::invalid_argument, fmt::format("--shard {}: {}", text, why));
}

Result<Shard> make_shard(const std::string& text, std::string_view index, std::string_view count) {
  const std::optional<uint64_t> i = parse_number(index), n = parse_number(count);
  if (!i || !n || *n == 0) return refuse(text, "give I/N, such as 0/8 to 7/8, auto or auto/N");
  if (*i >= *n) return refuse(text, fmt::format("there is no part {} of {}: they are 0 to {}", *i, *n, *n - 1));
  return Shard{*i, *n};
}

// As the launcher says; `count`, if not empty, in place of its count.
Result<Shard> find_shard(const std::string& text, std::string_view count, const Environment& environment) {
  const char* const given = environment("FUSEC_SHARD");
  if (given != nullptr && count.empty()) {
    const std::string_view both = given;
    const std::size_t slash = both.find('/');
    if (slash == std::string_view::npos) return refuse(text, fmt::format("FUSEC_SHARD is '{}', and not I/N", given));
    return make_shard(text, both.substr(0, slash), both.substr(slash + 1));
  }
  for (const Launcher& launcher : kLaunchers) {
    const char* const index = environment(launcher.index);
    if (index == nullptr) continue;
    const char* const all = *launcher.count != 0 ? environment(launcher.count) : nullptr;
    if (count.empty() && all == nullptr)
      return refuse(text, fmt::format("{} says no number of processes; give auto/N", launcher.index));
    return make_shard(text, index, count.empty() ? std::string_view(all) : count);
  }
  return refuse(text,
                "no launcher says which process this is (FUSEC_SHARD, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID, "
                "JOB_COMPLETION_INDEX, RANK); give I/N");
}

}  // namespace

Result<Shard> parse_shard(const std::string& text, const Environment& environment) {
  const std::size_t slash = text.find('/');
  const std::string_view whole = text, first = whole.substr(0, slash),
                         second = slash == std::string::npos ? std::string_view() : whole.substr(slash + 1);
  if (first != "auto") return make_shard(text, first, second);
  if (slash != std::string::npos && second.empty()) return make_shard(text, "", "");
  return find_shard(text, second, environment);
}

}  // namespace fusec::tool
