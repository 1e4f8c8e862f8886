/* SPDX-License-Identifier: Apache-2.0
 * Builds y = softmax(x) in C, compiles it once, and runs it on two rows. */
#include <stdio.h>
#include <stdlib.h>

#include "fusec/c.h"

/* Ends the program with the message of an error. */
static void check(fusec_error* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", fusec_error_message(error));
  fusec_error_free(error);
  exit(1);
}

int main(void) {
  fusec_builder* builder;
  fusec_model* model;
  fusec_engine* engine;
  fusec_session* session;
  fusec_value x, y;
  const float in[2][3] = {{0, 0, 0}, {0, 1, 2}};
  float out[2][3];
  int64_t extents[2] = {2, 3};
  const fusec_dtype f32 = {FUSEC_DTYPE_FLOAT, 32, 1};
  const fusec_device cpu = {FUSEC_DEVICE_CPU, 0};
  fusec_tensor input, output;
  int row;

  if (fusec_abi_version() >> 16 != FUSEC_ABI_MAJOR || (fusec_abi_version() & 0xffff) < FUSEC_ABI_MINOR) {
    fprintf(stderr, "this program was built for a newer fusec\n");
    return 1;
  }
  /* n is a symbol: one engine runs any number of rows. */
  check(fusec_builder_new(&builder));
  check(fusec_builder_input(builder, "x", "f32", "[n, 3]", &x));
  check(fusec_builder_op(builder, "softmax", &x, 1, "axis=-1", &y));
  check(fusec_builder_output(builder, "y", y));
  check(fusec_builder_finish(builder, &model));
  fusec_builder_free(builder);

  check(fusec_engine_compile(model, NULL, &engine));
  fusec_model_free(model);
  check(fusec_session_new(engine, &session));
  fusec_engine_free(engine);

  input.data = (void*)in;
  input.device = cpu;
  input.ndim = 2;
  input.dtype = f32;
  input.shape = extents;
  input.strides = NULL;
  input.byte_offset = 0;
  output = input;
  output.data = out;
  check(fusec_session_run(session, &input, 1, &output, 1));
  fusec_session_free(session);

  for (row = 0; row < 2; ++row) printf("%.4f %.4f %.4f\n", out[row][0], out[row][1], out[row][2]);
  return 0;
}
