// SPDX-License-Identifier: Apache-2.0
// Removes the process's temporary files when a signal ends it. The handler restores the default action, so the process
// still ends by the signal.

#include "runtime/tool/interrupt.h"

#include <signal.h>

#include "ir/support/temporary_files.h"

namespace fusec::tool {
namespace {

// The signal is blocked in here, and has its default action again: it ends the process when this returns.
void end(int signal) {
  ir::remove_temporary_files();
  (void)raise(signal);
}

}  // namespace

void clean_up_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old;
    if (sigaction(signal, nullptr, &old) != 0 || old.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = end;
    action.sa_flags = SA_RESETHAND;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(signal, &action, nullptr);
  }
}

}  // namespace fusec::tool
