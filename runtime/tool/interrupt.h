// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fusec::tool {

// From now on SIGINT, SIGTERM and SIGHUP remove the temporary files of the process and then end it as they do by
// default; those that are ignored stay so.
void clean_up_on_signals();

}  // namespace fusec::tool
