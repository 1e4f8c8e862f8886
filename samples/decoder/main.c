/* SPDX-License-Identifier: Apache-2.0
 * Generates tokens by a decoder whose keys and values are inputs and outputs of the model: the outputs of one step are
 * inputs of the next, which is one token longer. One engine runs all lengths.
 *
 * usage: decoder MODEL HEADS DEPTH STEPS TOKEN...
 *   MODEL  a package (.fsc) or an ONNX file with the inputs tokens: i64[1, new] and, for each layer, keys and values:
 *          f32[1, HEADS, past, DEPTH], and the outputs logits: f32[1, new, words] and the longer keys and values
 */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fusec/c.h"

enum { kMaxLayers = 64, kStored = 2 * kMaxLayers };

static void check(fusec_error* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", fusec_error_message(error));
  fusec_error_free(error);
  exit(1);
}

static void* allocate(size_t bytes) {
  void* const memory = malloc(bytes > 0 ? bytes : 1);
  if (memory == NULL) {
    fprintf(stderr, "out of memory\n");
    exit(1);
  }
  return memory;
}

static fusec_engine* open_engine(const char* path) {
  fusec_engine* engine;
  fusec_model* model;
  const size_t length = strlen(path);
  if (length > 4 && strcmp(path + length - 4, ".fsc") == 0) {
    check(fusec_engine_load(path, NULL, &engine));
    return engine;
  }
  check(fusec_model_load_onnx(path, NULL, &model));
  check(fusec_engine_compile(model, NULL, &engine));
  fusec_model_free(model);
  return engine;
}

static fusec_tensor make_tensor(void* data, int64_t* shape, int rank, int code, int bits) {
  fusec_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.data = data;
  tensor.device.type = FUSEC_DEVICE_CPU;
  tensor.ndim = rank;
  tensor.dtype.code = (uint8_t)code;
  tensor.dtype.bits = (uint8_t)bits;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

static int64_t find_largest(const float* values, int64_t count) {
  int64_t best = 0, i;
  for (i = 1; i < count; ++i)
    if (values[i] > values[best]) best = i;
  return best;
}

static double microseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* What one step leaves to the next. */
struct decoder {
  fusec_session* session;
  size_t stored_count; /* keys and values of all layers */
  int64_t heads, depth;
  int64_t past; /* tokens that are stored */
  float *stored[kStored], *longer[kStored], *logits;
};

/* Runs `count` tokens behind the stored ones; the token that follows them. */
static int64_t run_step(struct decoder* d, int64_t* tokens, int64_t count) {
  fusec_tensor inputs[1 + kStored], outputs[1 + kStored];
  int64_t extents[2 + 4 * kStored], made[3 + 4 * kStored], token_shape[2], in_shape[4], out_shape[4];
  size_t i;
  token_shape[0] = 1, token_shape[1] = count;
  in_shape[0] = 1, in_shape[1] = d->heads, in_shape[2] = d->past, in_shape[3] = d->depth;
  memcpy(out_shape, in_shape, sizeof in_shape);
  out_shape[2] += count;
  memcpy(extents, token_shape, sizeof token_shape);
  for (i = 0; i < d->stored_count; ++i) memcpy(extents + 2 + 4 * i, in_shape, sizeof in_shape);
  check(fusec_session_output_shapes(d->session, extents, made)); /* logits come first: [1, count, words] */
  if (d->logits == NULL) d->logits = allocate((size_t)(count * made[2]) * sizeof(float)); /* the prompt is the longest */
  inputs[0] = make_tensor(tokens, token_shape, 2, FUSEC_DTYPE_INT, 64);
  outputs[0] = make_tensor(d->logits, made, 3, FUSEC_DTYPE_FLOAT, 32);
  for (i = 0; i < d->stored_count; ++i) {
    inputs[1 + i] = make_tensor(d->stored[i], in_shape, 4, FUSEC_DTYPE_FLOAT, 32);
    outputs[1 + i] = make_tensor(d->longer[i], out_shape, 4, FUSEC_DTYPE_FLOAT, 32);
  }
  check(fusec_session_run(d->session, inputs, 1 + d->stored_count, outputs, 1 + d->stored_count));
  for (i = 0; i < d->stored_count; ++i) {
    float* const taken = d->stored[i];
    d->stored[i] = d->longer[i];
    d->longer[i] = taken;
  }
  d->past += count;
  return find_largest(d->logits + (count - 1) * made[2], made[2]);
}

static void open_decoder(struct decoder* d, fusec_engine* engine, int64_t heads, int64_t depth, int64_t all) {
  size_t input_count, i;
  memset(d, 0, sizeof *d);
  check(fusec_engine_counts(engine, &input_count, NULL));
  check(fusec_session_new(engine, &d->session));
  d->stored_count = input_count - 1, d->heads = heads, d->depth = depth;
  if (d->stored_count > kStored || heads < 1 || depth < 1) {
    fprintf(stderr, "at most %d layers, and HEADS and DEPTH are at least 1\n", kMaxLayers);
    exit(2);
  }
  for (i = 0; i < d->stored_count; ++i) { /* room for all tokens that there will be */
    d->stored[i] = allocate((size_t)(all * heads * depth) * sizeof(float));
    d->longer[i] = allocate((size_t)(all * heads * depth) * sizeof(float));
  }
}

static void close_decoder(struct decoder* d) {
  size_t i;
  for (i = 0; i < d->stored_count; ++i) {
    free(d->stored[i]);
    free(d->longer[i]);
  }
  free(d->logits);
  fusec_session_free(d->session);
}

int main(int argc, char** argv) {
  struct decoder decoder;
  fusec_engine* engine;
  int64_t *tokens, count = argc - 5, steps, i;
  double begun, prompt, rest;

  if (argc < 6) {
    fprintf(stderr, "usage: decoder MODEL HEADS DEPTH STEPS TOKEN...\n");
    return 2;
  }
  steps = atoll(argv[4]);
  engine = open_engine(argv[1]);
  open_decoder(&decoder, engine, atoll(argv[2]), atoll(argv[3]), count + steps);
  tokens = allocate((size_t)(count + steps + 1) * sizeof *tokens);
  for (i = 0; i < count; ++i) tokens[i] = atoll(argv[5 + i]);

  begun = microseconds();
  tokens[count] = run_step(&decoder, tokens, count);
  prompt = microseconds() - begun;
  begun = microseconds();
  for (i = 0; i < steps; ++i) tokens[count + i + 1] = run_step(&decoder, tokens + count + i, 1);
  rest = microseconds() - begun;

  printf("tokens");
  for (i = 0; i <= steps; ++i) printf(" %lld", (long long)tokens[count + i]);
  printf("\nprompt %.1f us, then %.1f us a token\n", prompt, steps > 0 ? rest / (double)steps : 0.0);
  free(tokens);
  close_decoder(&decoder);
  fusec_engine_free(engine);
  return 0;
}
