/* SPDX-License-Identifier: Apache-2.0
 * Built against the installed tree: fusec/c.h stands alone and the library is found. */
#include <stdio.h>
#include <string.h>

#include "fusec/c.h"

int main(void) {
  fusec_error* error = fusec_options_set(NULL, "threads", "1");
  if (fusec_abi_version() >> 16 != FUSEC_ABI_MAJOR) return puts("the library is of another version"), 1;
  if (fusec_error_code(error) != FUSEC_INVALID_ARGUMENT || strstr(fusec_error_message(error), "options") == NULL) {
    return puts("NULL options are not refused"), 1;
  }
  fusec_error_free(error);
  return 0;
}
