/* SPDX-License-Identifier: Apache-2.0
 * Goes through fusec/c.h as a program in C99 does: from a builder, from digits.onnx, and from a package to outputs, whose
 * values it checks.
 *
 *   embed <folder samples/digits> <folder to write to> */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fusec/c.h"

static int failures = 0;

static void fail(int line, const char* what, const char* why) {
  printf("line %d: %s: %s\n", line, what, why);
  ++failures;
}

#define CHECK(condition) \
  do {                   \
    if (!(condition)) fail(__LINE__, #condition, "does not hold"); \
  } while (0)

/* What follows an error makes no sense. */
#define OK(call)                                             \
  do {                                                       \
    fusec_error* error_ = (call);                            \
    if (error_ != NULL) {                                    \
      fail(__LINE__, #call, fusec_error_message(error_));    \
      fusec_error_free(error_);                              \
      exit(1);                                               \
    }                                                        \
  } while (0)

static void refused(int line, fusec_error* error, int code, const char* says) {
  if (error == NULL) {
    fail(line, says, "is not refused");
    return;
  }
  if (fusec_error_code(error) != code || strstr(fusec_error_message(error), says) == NULL) {
    fail(line, says, fusec_error_message(error));
  }
  fusec_error_free(error);
}
#define REFUSED(call, code, says) refused(__LINE__, (call), (code), (says))

static fusec_tensor tensor(void* data, uint8_t code, uint8_t bits, int32_t ndim, int64_t* shape) {
  fusec_tensor t;
  t.data = data;
  t.device.type = FUSEC_DEVICE_CPU;
  t.device.ordinal = 0;
  t.ndim = ndim;
  t.dtype.code = code;
  t.dtype.bits = bits;
  t.dtype.lanes = 1;
  t.shape = shape;
  t.strides = NULL;
  t.byte_offset = 0;
  return t;
}

static void expect_text(int line, char* text, const char* part) {
  if (strstr(text, part) == NULL) fail(line, part, text);
  fusec_free(text);
}
#define HAS(text, part) expect_text(__LINE__, (text), (part))

/* y = relu(x W + b) with W = [[1, -1], [2, 0]], b = [1, 1], for any number of rows. */
static fusec_model* build(void) {
  float w[4] = {1, -1, 2, 0}, b[2] = {1, 1};
  int64_t w_shape[2] = {2, 2}, b_shape[1] = {2};
  fusec_tensor weights = tensor(w, FUSEC_DTYPE_FLOAT, 32, 2, w_shape);
  fusec_tensor bias = tensor(b, FUSEC_DTYPE_FLOAT, 32, 1, b_shape);
  fusec_builder* builder;
  fusec_model* model;
  fusec_value args[2], y;
  char* text;

  OK(fusec_builder_new(&builder));
  OK(fusec_builder_input(builder, "x", "f32", "[n, 2]", &args[0]));
  OK(fusec_builder_constant(builder, &weights, &args[1]));
  OK(fusec_builder_op(builder, "matmul", args, 2, NULL, &args[0]));
  OK(fusec_builder_constant(builder, &bias, &args[1]));
  OK(fusec_builder_op(builder, "add", args, 2, "", &y));
  OK(fusec_builder_op(builder, "relu", &y, 1, "", &y));
  OK(fusec_builder_value_json(builder, y, &text));
  HAS(text, "{\"dtype\":\"f32\",\"shape\":[\"n\",2]}");
  OK(fusec_builder_output(builder, "y", y));
  OK(fusec_builder_finish(builder, &model));
  fusec_builder_free(builder);
  OK(fusec_model_io_json(model, &text));
  HAS(text, "\"symbols\":[\"n\"]");
  return model;
}

static void check_rows(const float* y) {
  CHECK(y[0] == 6 && y[1] == 0); /* [1, 2]: [1 + 4 + 1, -1 + 1] */
  CHECK(y[2] == 0 && y[3] == 4); /* [-3, 0]: [-3 + 1, 3 + 1] */
}

static void run_rows(fusec_engine* engine) {
  fusec_session* session;
  float x[4] = {1, 2, -3, 0}, columns[4] = {1, -3, 2, 0}, y[4];
  int64_t shape[2] = {2, 2}, strides[2] = {1, 2}, out_shape[2] = {0, 0};
  fusec_tensor in = tensor(x, FUSEC_DTYPE_FLOAT, 32, 2, shape), out = tensor(y, FUSEC_DTYPE_FLOAT, 32, 2, shape);
  void* inputs[1];
  void* outputs[1];
  inputs[0] = x;
  outputs[0] = y;

  OK(fusec_session_new(engine, &session));
  OK(fusec_session_prepare(session, shape));
  OK(fusec_session_output_shapes(session, shape, out_shape));
  CHECK(out_shape[0] == 2 && out_shape[1] == 2);
  memset(y, 0, sizeof y);
  OK(fusec_session_run(session, &in, 1, &out, 1));
  check_rows(y);
  memset(y, 0, sizeof y);
  OK(fusec_session_run_async(session, &in, 1, &out, 1, NULL)); /* over on the CPU */
  check_rows(y);
  memset(y, 0, sizeof y);
  OK(fusec_session_run_raw(session, shape, inputs, outputs, NULL));
  check_rows(y);
  memset(y, 0, sizeof y);
  in.data = columns; /* column by column */
  in.strides = strides;
  OK(fusec_session_run(session, &in, 1, &out, 1));
  check_rows(y);
  in.dtype.bits = 16;
  REFUSED(fusec_session_run(session, &in, 1, &out, 1), FUSEC_INVALID_ARGUMENT, "input 'x' must be f32");
  fusec_session_free(session);
}

static size_t file_size(const char* path) {
  FILE* file = fopen(path, "rb");
  long size;
  CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
  size = ftell(file);
  CHECK(size > 0 && fclose(file) == 0);
  return (size_t)size;
}

static void from_builder(const char* folder) {
  const char* const targets[1] = {"cpu:native"};
  char path[1024], *text;
  fusec_model* model = build();
  fusec_options* options;
  fusec_engine* engine;
  const char* name;
  fusec_dtype dtype;
  int32_t rank;
  size_t inputs, outputs, size;
  void* bytes;
  int fit;

  OK(fusec_options_new(&options));
  OK(fusec_options_set(options, "threads", "1"));
  REFUSED(fusec_options_set(options, "numerics", "sloppy"), FUSEC_INVALID_ARGUMENT, "precise, exact, fast");
  OK(fusec_engine_compile(model, options, &engine));
  OK(fusec_engine_counts(engine, &inputs, &outputs));
  CHECK(inputs == 1 && outputs == 1);
  OK(fusec_engine_output(engine, 0, &name, &dtype, &rank));
  CHECK(strcmp(name, "y") == 0 && rank == 2);
  CHECK(dtype.code == FUSEC_DTYPE_FLOAT && dtype.bits == 32 && dtype.lanes == 1);
  OK(fusec_engine_stats_json(engine, &text));
  HAS(text, "\"compile_ms\":");
  run_rows(engine);
  fusec_engine_free(engine);

  snprintf(path, sizeof path, "%s/embed.fsc", folder);
  OK(fusec_compile_package(model, targets, 1, path, options));
  OK(fusec_compile_package_bytes(model, targets, 1, options, &bytes, &size));
  CHECK(size == file_size(path));
  fusec_model_free(model);
  REFUSED(fusec_engine_load_bytes(bytes, size, options, &engine), FUSEC_INVALID_ARGUMENT, "trust");
  OK(fusec_options_set(options, "trust", "true"));
  OK(fusec_package_fit(bytes, size, options, &fit));
  CHECK(fit == FUSEC_FIT_BEST);
  OK(fusec_engine_load_bytes(bytes, size, options, &engine));
  fusec_free(bytes); /* the engine has a copy */
  run_rows(engine);
  fusec_engine_free(engine);
  OK(fusec_engine_load(path, options, &engine));
  OK(fusec_engine_io_json(engine, &text));
  HAS(text, "\"device\":\"cpu\"");
  run_rows(engine);
  fusec_engine_free(engine);
  fusec_options_free(options);
}

/* The bytes behind the header of a .npy file, and their number. */
static unsigned char* read_npy(const char* folder, const char* name, size_t* size) {
  char path[1024];
  unsigned char header[10], *bytes = malloc(1 << 20);
  FILE* file;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  file = fopen(path, "rb");
  if (file == NULL || bytes == NULL || fread(header, 1, 10, file) != 10 ||
      fseek(file, header[8] + 256 * header[9], SEEK_CUR) != 0) {
    fail(__LINE__, path, "cannot be read");
    exit(1);
  }
  *size = fread(bytes, 1, 1 << 20, file);
  fclose(file);
  return bytes;
}

static void* read_all(const char* path, size_t* size) {
  const size_t most = 8 << 20;
  void* bytes = malloc(most);
  FILE* file = fopen(path, "rb");
  if (file == NULL || bytes == NULL) {
    fail(__LINE__, path, "cannot be read");
    exit(1);
  }
  *size = fread(bytes, 1, most, file);
  fclose(file);
  return bytes;
}

/* How many of the digits get their label. */
static int64_t count_right(fusec_engine* engine, const unsigned char* pixels, const unsigned char* labels, int64_t count) {
  int64_t extents[4] = {0, 1, 8, 8}, i, k, right = 0;
  float* x = malloc((size_t)count * 64 * sizeof *x);
  float* y = malloc((size_t)count * 10 * sizeof *y);
  fusec_session* session;
  int32_t rank;
  void* inputs[1];
  void* outputs[1];

  OK(fusec_session_new(engine, &session));
  OK(fusec_engine_input(engine, 0, NULL, NULL, &rank));
  CHECK(rank == 4);
  extents[0] = count;
  for (i = 0; i < count * 64; ++i) x[i] = (float)pixels[i] / 16; /* the network takes 0 .. 1 */
  inputs[0] = x;
  outputs[0] = y;
  OK(fusec_session_run_raw(session, extents, inputs, outputs, NULL));
  for (i = 0; i < count; ++i) {
    int64_t best = 0;
    for (k = 1; k < 10; ++k) {
      if (y[10 * i + k] > y[10 * i + best]) best = k;
    }
    right += best == labels[i];
  }
  fusec_session_free(session);
  free(x);
  free(y);
  return right;
}

static void from_onnx(const char* folder) {
  char path[1024];
  size_t count, pixel_bytes, model_bytes;
  unsigned char* labels = read_npy(folder, "labels.npy", &count);
  unsigned char* pixels = read_npy(folder, "images.npy", &pixel_bytes);
  void* bytes;
  fusec_model* model;
  fusec_engine* engine;

  CHECK(count == 360 && pixel_bytes == 360 * 64);
  snprintf(path, sizeof path, "%s/digits.onnx", folder);
  OK(fusec_model_load_onnx(path, NULL, &model));
  OK(fusec_engine_compile(model, NULL, &engine));
  fusec_model_free(model);
  CHECK(count_right(engine, pixels, labels, (int64_t)count) == 358);
  fusec_engine_free(engine);

  bytes = read_all(path, &model_bytes);
  OK(fusec_model_load_onnx_bytes(bytes, model_bytes, NULL, NULL, 0, NULL, &model));
  memset(bytes, 0, model_bytes); /* it is read during the call only */
  OK(fusec_engine_compile(model, NULL, &engine));
  CHECK(count_right(engine, pixels, labels, (int64_t)count) == 358);
  fusec_model_free(model);
  fusec_engine_free(engine);
  REFUSED(fusec_model_load_onnx_bytes(bytes, model_bytes, NULL, NULL, 0, NULL, &model), FUSEC_INVALID_MODEL, "");
  REFUSED(fusec_model_load_onnx("absent.onnx", NULL, &model), FUSEC_INVALID_ARGUMENT, "absent.onnx");
  free(bytes);
  free(labels);
  free(pixels);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    printf("usage: embed <folder samples/digits> <folder to write to>\n");
    return 2;
  }
  CHECK(fusec_abi_version() == ((uint32_t)FUSEC_ABI_MAJOR << 16 | FUSEC_ABI_MINOR));
  from_builder(argv[2]);
  from_onnx(argv[1]);
  return failures == 0 ? 0 : 1;
}
