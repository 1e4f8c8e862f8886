// SPDX-License-Identifier: Apache-2.0
// Who could have put a file where it is, or changed it. What the user and root alone can change is trusted, no matter
// what it holds; anything else is refused before it is opened.
#pragma once

#include <sys/stat.h>

#include <string>

#include "fusec/status.h"

namespace fusec::runtime {

// none: the effective user or root owns the file or folder, and nobody else may write it, or only into a sticky folder,
// such as /tmp, where others cannot replace what is not theirs.
enum class OwnerFault { none, foreign, writable };
OwnerFault owner_fault(const struct stat& info);

// `cache` unless the effective user or root owns the file or folder `label` and neither group nor others may write it.
Status check_owner(const struct stat& info, const std::string& label);

// check_owner of every folder on the way to `path` and of `path` itself where it is a folder, in the way that the
// system looks it up: links are followed, and must be the user's or root's. What is missing ends the way, and is no
// fault.
Status check_folders(const std::string& path);

// For a file that another library opens by its name: check_owner, a regular file, no link, and check_folders of its
// folder. A file that is missing is no fault.
Status check_file(const std::string& path);

}  // namespace fusec::runtime
