// SPDX-License-Identifier: Apache-2.0
// Tensors whose data lies in other files: locations that leave the model's folder, and ranges outside of the file.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/import/hostile_make.h"

namespace fusec::importer {

namespace {

using proto::TensorProto;

using Entries = std::vector<std::pair<std::string, std::string>>;

SpoiledTensor external(const std::string& name, const std::string& message, const Entries& entries) {
  return {name, message, [entries](TensorProto& w) {
            w.clear_raw_data();
            w.set_data_location(TensorProto::EXTERNAL);
            for (const auto& [key, value] : entries) {
              auto* entry = w.add_external_data();
              entry->set_key(key);
              entry->set_value(value);
            }
          }};
}

// What the locations below name: `w` and `sub/w` are 64 bytes each.
void make_files(const std::string& folder) {
  namespace fs = std::filesystem;
  const auto write = [](const fs::path& path) { std::ofstream(path) << std::string(64, 'w'); };
  write(folder + "/w");
  fs::create_directory(folder + "/sub");
  write(folder + "/sub/w");
  fs::create_symlink("w", folder + "/link");
  fs::create_symlink("link", folder + "/link_to_link");
  fs::create_symlink("loop", folder + "/loop");
  fs::create_symlink("absent", folder + "/dangling");
  fs::create_directory_symlink("sub", folder + "/linked");
  fs::create_symlink("/etc/passwd", folder + "/passwd");
  fs::create_symlink("/dev/zero", folder + "/zero");
  fs::create_directory_symlink("/proc/self", folder + "/self");
  write(folder + "/hard");
  fs::create_hard_link(folder + "/hard", folder + "/harder");
  if (::mkfifo((folder + "/fifo").c_str(), 0600) != 0) throw std::runtime_error("mkfifo");
}

void add_locations(HostileList& list) {
  const auto at = [](const std::string& name, const std::string& location, const std::string& message) {
    return external("external_" + name, message, {{"location", location}});
  };
  add_spoiled(list, {
                        at("absolute", "/etc/passwd", "absolute"),
                        at("proc", "/proc/self/environ", "absolute"),
                        at("device", "/dev/zero", "absolute"),
                        at("parent", "../../../../etc/passwd", "leaves"),
                        at("parent_alone", "..", "leaves"),
                        at("parent_inside", "sub/../w", "leaves"),
                        at("parent_after_folder", "a/../../b", "leaves"),
                        at("parent_after_dot", "./../w", "leaves"),
                        at("parent_at_end", "sub/..", "leaves"),
                        at("parent_of_nothing", "//../w", "absolute"),
                        at("backslashes", "..\\..\\w", "not there"),
                        at("address", "*/_ORT_MEM_ADDR_/*", "not there"),
                        at("url", "http://example.com/w", "not there"),
                        at("symlink", "link", "symbolic link"),
                        at("symlink_to_symlink", "link_to_link", "symbolic link"),
                        at("symlink_to_itself", "loop", "symbolic link"),
                        at("symlink_to_nothing", "dangling", "symbolic link"),
                        at("symlink_out", "passwd", "symbolic link"),
                        at("symlink_to_device", "zero", "symbolic link"),
                        at("parent_symlink", "linked/w", "symbolic link"),
                        at("parent_symlink_to_proc", "self/environ", "symbolic link"),
                        at("hard_link", "harder", "hard link"),
                        at("fifo", "fifo", "regular file"),
                        at("folder", "sub", "regular file"),
                        at("folder_with_slash", "sub/", "regular file"),
                        at("file_with_slash", "w/x", "non-folder"),
                        at("empty", "", "empty name"),
                        at("dot", ".", "regular file"),
                        at("nul", std::string("w\0x", 3), "NUL"),
                        at("long", std::string(1 << 20, 'w'), "4096 bytes"),
                        at("long_part", std::string(1000, 'w'), "not there"),
                        at("lines", "a\nb\x1b[2J", "a\\x0ab\\x1b"),
                        at("missing", "absent", "'absent' is not there"),
                    });
}

void add_ranges(HostileList& list) {
  const auto range = [](const std::string& name, const std::string& key, const std::string& value,
                        const std::string& message) {
    return external("external_" + name, message, {{"location", "w"}, {key, value}});
  };
  add_spoiled(list, {
                        range("offset_negative", "offset", "-4", "offset"),
                        range("offset_past_end", "offset", "60", "has only 64"),
                        range("offset_huge", "offset", kInt64Max, "has only 64"),
                        range("offset_overflow", "offset", "99999999999999999999999", "offset"),
                        range("offset_not_a_number", "offset", "0x10", "offset"),
                        range("offset_with_space", "offset", " 4", "offset"),
                        range("length_wrong", "length", "8", "length 8"),
                        range("length_huge", "length", "1000000000000000", "length"),
                        range("length_negative", "length", "-1", "length"),
                        range("length_empty", "length", "", "length"),
                        range("unknown_key", "__class__", "x", "unknown key"),
                        range("key_with_lines", "a\nb", "x", "a\\x0ab"),
                        range("key_twice", "location", "sub/w", "twice"),
                        external("external_nowhere", "empty name", {}),
                        {"external_and_inline", "both external and inline",
                         [](TensorProto& w) { w.set_data_location(TensorProto::EXTERNAL); }},
                        {"external_of_1_tb", "has only 64",
                         [](TensorProto& w) {
                           external("", "", {{"location", "w"}}).edit(w);
                           w.set_dims(0, int64_t{1} << 38);
                         }},
                    });
}

}  // namespace

void add_hostile_files(HostileList& list, const std::string& folder) {
  make_files(folder);
  add_locations(list);
  add_ranges(list);
}

}  // namespace fusec::importer
