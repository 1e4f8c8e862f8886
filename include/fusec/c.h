/* SPDX-License-Identifier: Apache-2.0
 *
 * The C interface of fusec: libfusec-c.so, which holds the compiler, the runtime and the ONNX importer.
 *
 * Errors. A function that can fail answers a fusec_error*, which is NULL when it succeeded. The caller owns it and
 * frees it with fusec_error_free. A NULL pointer, a handle that is not of the type that the function takes, and a wrong
 * argument give FUSEC_INVALID_ARGUMENT; the message names the parameter. After an error, what an `out` parameter points
 * at is NULL, or -1 for a fusec_value; buffers that the caller gave may have been written to. A handle that was freed
 * must not be used again: this cannot be detected. No function throws a C++ exception.
 *
 * Ownership. What a function `_new`, `_load...`, `_compile` or `_finish` makes belongs to the caller, who ends it with
 * the function `_free` of its type. `_free` of NULL does nothing. Handles may be freed in any order: what a session
 * needs of its engine, or an engine of its model, stays until the last user is freed. A text that is given back by a
 * `char** out` is ended by fusec_free. A `const char*` that is given in is read during the call only.
 *
 * Threads. Any function may be called from any thread. Models and engines may be used by several threads at once,
 * options by several threads that only read them. A builder or a session is for one thread at a time; make one session
 * per thread. An object must not be freed while another thread uses it.
 *
 * Text is UTF-8 and ends with a NUL. Functions `_json` answer one JSON document without line breaks; later versions may
 * add members to its objects, so a reader skips members that it does not know.
 *
 * Extents count elements. `extents` of all inputs are one flat array: the extents of input 0, then those of input 1,
 * and so on, as many of each as its rank (fusec_engine_input). An input of rank 0 takes no place.
 */
#ifndef FUSEC_C_H
#define FUSEC_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FUSEC_C_API __attribute__((visibility("default")))
#else
#define FUSEC_C_API
#endif

/* The version of this header. */
#define FUSEC_ABI_MAJOR 0
#define FUSEC_ABI_MINOR 4

typedef struct fusec_error fusec_error;
typedef struct fusec_options fusec_options;
typedef struct fusec_model fusec_model;
typedef struct fusec_builder fusec_builder;
typedef struct fusec_engine fusec_engine;
typedef struct fusec_session fusec_session;
typedef struct fusec_session_pool fusec_session_pool;

/* A value of a builder: an input, a constant or the result of an op. Valid ones are at least 0, and are used with the
 * builder that made them alone. */
typedef int32_t fusec_value;

/* --- Tensors -------------------------------------------------------------------------------------------------------
 * These structs have the layout of DLDevice, DLDataType, DLTensor, DLPackVersion and DLManagedTensorVersioned of DLPack
 * 1.x, so a pointer to one may be cast to a pointer to the other. */

/* fusec_device.type. FUSEC_DEVICE_CUDA_HOST and FUSEC_DEVICE_CUDA_MANAGED memory is used as memory of the host. */
enum { FUSEC_DEVICE_CPU = 1, FUSEC_DEVICE_CUDA = 2, FUSEC_DEVICE_CUDA_HOST = 3, FUSEC_DEVICE_CUDA_MANAGED = 13 };

typedef struct fusec_device {
  int32_t type;
  int32_t ordinal; /* of a GPU, as the driver counts */
} fusec_device;

/* fusec_dtype.code. fusec computes with FLOAT of 64, 32 and 16 bits, BFLOAT of 16, INT and UINT of 8, 16, 32 and 64,
 * and BOOL of 8 bits (one byte, 0 or 1). */
enum { FUSEC_DTYPE_INT = 0, FUSEC_DTYPE_UINT = 1, FUSEC_DTYPE_FLOAT = 2, FUSEC_DTYPE_BFLOAT = 4, FUSEC_DTYPE_BOOL = 6 };

typedef struct fusec_dtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes; /* 1 */
} fusec_dtype;

typedef struct fusec_tensor {
  void* data; /* may be NULL where there is no element */
  fusec_device device;
  int32_t ndim;
  fusec_dtype dtype;
  int64_t* shape;       /* ndim extents; may be NULL for ndim 0 */
  int64_t* strides;     /* ndim strides in elements, zero and negative ones too; NULL: dense, row-major */
  uint64_t byte_offset; /* from data to the first element */
} fusec_tensor;

typedef struct fusec_tensor_version {
  uint32_t major, minor;
} fusec_tensor_version;

/* A tensor with a function that ends it. */
typedef struct fusec_managed_tensor {
  fusec_tensor_version version; /* of DLPack: major is 1 */
  void* manager_ctx;
  void (*deleter)(struct fusec_managed_tensor* self); /* may be NULL */
  uint64_t flags;
  fusec_tensor tensor;
} fusec_managed_tensor;

/* --- Version, errors, log, memory ----------------------------------------------------------------------------------
 */

/* The version of the interface of the loaded library: major << 16 | minor. A program that was built for major M and
 * minor m works with a library of the same major and a minor of at least m. */
FUSEC_C_API uint32_t fusec_abi_version(void);

/* The version of fusec, such as "0.1.0". Lives as long as the library is loaded. */
FUSEC_C_API const char* fusec_version(void);

/* Codes of errors: whose turn it is to act. */
enum {
  FUSEC_OK = 0,
  FUSEC_INVALID_MODEL = 1,    /* the model breaks the ONNX rules, or a package is damaged */
  FUSEC_UNSUPPORTED = 2,      /* the model is fine, fusec lacks something; the message names what */
  FUSEC_INVALID_ARGUMENT = 3, /* the caller's mistake */
  FUSEC_DEVICE = 4,           /* a device, driver or library failed or is missing */
  FUSEC_OUT_OF_MEMORY = 5,
  FUSEC_COMPILE_FAILED = 6, /* a kernel did not compile; the message holds the compiler's log */
  FUSEC_CACHE = 7,          /* only ever a warning */
  FUSEC_INTERNAL = 8,       /* a defect of fusec */
  FUSEC_CANCELLED = 9       /* fusec_host.progress ended the call, which can be made again */
};

/* FUSEC_OK for NULL. */
FUSEC_C_API int fusec_error_code(const fusec_error* error);

/* One line that says what was found, the rule and where. "" for NULL. Lives as long as the error. */
FUSEC_C_API const char* fusec_error_message(const fusec_error* error);

FUSEC_C_API void fusec_error_free(fusec_error* error);

/* Severities of log messages. */
enum {
  FUSEC_LOG_DEBUG = 0,   /* what a stage took */
  FUSEC_LOG_INFO = 1,    /* what was compiled or loaded */
  FUSEC_LOG_WARNING = 2, /* a fault that does not fail the call, such as a cache that cannot be used */
  FUSEC_LOG_ERROR = 3    /* a mistake in a call that answers no error, such as freeing a handle of another type */
};

/* From now on `log` is called with each message of this process, with `user` as it is given here; NULL: each warning
 * and error is one line on stderr, as at the start. Calls come from any thread, several at once; `message` lives until
 * `log` returns, which must not call a function of this header. When fusec_set_log returns, no call of the function set
 * before is left, and none will come. Severities grow with importance; later versions may add some. */
FUSEC_C_API void fusec_set_log(void (*log)(void* user, int severity, const char* message), void* user);

/* Ends a text that a function of this header gave back by a `char** out`, and the bytes of fusec_compile_package_bytes.
 */
FUSEC_C_API void fusec_free(void* memory);

/* --- Devices -------------------------------------------------------------------------------------------------------
 */

/* The CPU, then the GPUs that this process can use:
 * [{"device": "cuda:0", "name": "...", "memory_bytes": 0, "driver": "13.0", "target": "sm_90"}, ...] */
FUSEC_C_API fusec_error* fusec_devices_json(char** out);

/* --- Options -------------------------------------------------------------------------------------------------------
 */

/* Options at their defaults. Every function that takes options takes NULL for the defaults, and reads the options
 * during the call only. */
FUSEC_C_API fusec_error* fusec_options_new(fusec_options** out);

/* Sets one option. Keys are the names of the flags of the `fusec` command without the dashes: "device" to "cuda:0",
 * "threads" to "4", "tf32" to "true" or "false". A key that names a list adds to it. FUSEC_INVALID_ARGUMENT for an
 * unknown key and for a value that the key does not take; the options are then as before. */
FUSEC_C_API fusec_error* fusec_options_set(fusec_options* options, const char* key, const char* value);

FUSEC_C_API void fusec_options_free(fusec_options* options);

/* What the host gives in place of what fusec has of its own. Members may be NULL; alloc and free go together, and so do
 * num_threads and parallel_for. Functions are called from any thread, with `user` as it is here, and must not call a
 * function of this header; all but `progress` are called by several threads at once. They and `user` must stay until
 * what was made with the options is freed: engines, their sessions, and outputs. Later versions may add members. */
typedef struct fusec_host {
  size_t struct_size; /* sizeof(fusec_host); members beyond it are taken as NULL */
  void* user;
  /* Memory of arenas, workspaces and staging copies of sessions; weights and code stay in memory of fusec. device_type
   * is FUSEC_DEVICE_CPU or FUSEC_DEVICE_CUDA; `alignment` is a power of two; `stream` is the CUstream on which memory
   * of a GPU is used first. NULL: refused, and the call answers FUSEC_OUT_OF_MEMORY. */
  void* (*alloc)(void* user, int32_t device_type, int32_t ordinal, size_t bytes, size_t alignment, void* stream);
  /* What alloc gave, once; its use is over, or is on that stream. */
  void (*free)(void* user, void* memory, int32_t device_type, int32_t ordinal, void* stream);
  /* How many tasks of parallel_for run side by side, the calling thread included. */
  int (*num_threads)(void* user);
  /* Calls body(argument, begin, end) on ranges that cover 0 .. n-1, on any threads and in any order, and returns when
   * all calls have returned. Runs on the CPU are split by it. Calls of oneDNN then stay on the calling thread. */
  void (*parallel_for)(void* user, int64_t n, void (*body)(void* argument, int64_t begin, int64_t end), void* argument);
  /* Called while a compile, a load, the first run of some extents or a tuning goes on, by one thread at a time, with
   * the stage ("optimize", "lower", "tune", "emit", "link") and how much of it is done, 0 to 1. Not 0: the call ends
   * with FUSEC_CANCELLED as soon as the work at hand is done; what was made so far stays in the caches. */
  int (*progress)(void* user, const char* stage, double done);
} fusec_host;

/* The members are copied. NULL: as if all of them were NULL. A struct_size that is too small is FUSEC_INVALID_ARGUMENT.
 */
FUSEC_C_API fusec_error* fusec_options_set_host(fusec_options* options, const fusec_host* host);

/* All keys: [{"key": "numerics", "help": "...", "default": "precise", "accepts": "precise, exact, fast",
 * "used_by": "compile"}, ...]. default is null where the option is not set. used_by says who reads it: "compile"
 * (fusec_engine_compile, fusec_engine_load, fusec_compile_package), "import" (fusec_model_load_...), "load"
 * (fusec_engine_load) or "write" (fusec_compile_package). */
FUSEC_C_API fusec_error* fusec_options_keys_json(char** out);

/* --- Models --------------------------------------------------------------------------------------------------------
 */

/* Reads an ONNX model from a file, and tensor data that lies in files beside it. */
FUSEC_C_API fusec_error* fusec_model_load_onnx(const char* path, const fusec_options* options, fusec_model** out);

/* Reads an ONNX model from `size` bytes of memory, which are read during the call only. The `constant_count` inputs
 * that `constant_names` names are constants with the contents of `constants`, and no inputs of the model: for weights
 * and for shapes that a model leaves to its inputs. Their data is copied; they may lie on a GPU and have strides. Both
 * arrays may be NULL when constant_count is 0. */
FUSEC_C_API fusec_error* fusec_model_load_onnx_bytes(const void* bytes, size_t size, const char* const* constant_names,
                                                     const fusec_tensor* constants, size_t constant_count,
                                                     const fusec_options* options, fusec_model** out);

/* fusec_model_load_onnx_bytes with constants that share the memory of `constants`, as fusec_builder_constant_managed
 * does: dense memory of the host that nobody writes to. On success the model owns them all, and their deleters are
 * called, from any thread, when the model and everything made of it is freed. Where a deleter is NULL, the memory must
 * live as long, and the struct is read during the call only. After an error they still belong to the caller. */
FUSEC_C_API fusec_error* fusec_model_load_onnx_managed(const void* bytes, size_t size,
                                                       const char* const* constant_names,
                                                       fusec_managed_tensor* const* constants, size_t constant_count,
                                                       const fusec_options* options, fusec_model** out);

/* Which nodes of an ONNX model fusec takes: [{"node": "conv1", "op": "Conv", "domain": "ai.onnx", "supported": true,
 * "reason": ""}, ...], one for each node of the main graph, in the order of the file. Values that unsupported nodes
 * make are taken to have the types that the model declares for them (value_info). */
FUSEC_C_API fusec_error* fusec_onnx_support_json(const void* bytes, size_t size, const fusec_options* options,
                                                 char** out);

/* {"inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 64]}, ...], "outputs": [...], "symbols": ["n"],
 * "ranges": [{"extent": "n", "least": 1, "most": 64}, ...]}. An extent is a number, or the text of an expression over
 * the symbols. ranges has the symbols and expressions whose values are bounded; most is null where there is no upper
 * bound. */
FUSEC_C_API fusec_error* fusec_model_io_json(const fusec_model* model, char** out);

FUSEC_C_API void fusec_model_free(fusec_model* model);

/* Compiles the model for each of the `target_count` targets ("cpu:x86-64-v3", "cuda:sm_90"; "cpu:native": this machine)
 * and writes one package to `path`, whose name ends in .fsc. The file appears whole or not at all. Needs no device. */
FUSEC_C_API fusec_error* fusec_compile_package(const fusec_model* model, const char* const* targets,
                                               size_t target_count, const char* path, const fusec_options* options);

/* The bytes of that file. fusec_free ends them. */
FUSEC_C_API fusec_error* fusec_compile_package_bytes(const fusec_model* model, const char* const* targets,
                                                     size_t target_count, const fusec_options* options, void** bytes,
                                                     size_t* size);

/* --- Builder: a model without ONNX ---------------------------------------------------------------------------------
 * A mistake in the graph (a shape that does not fit, two inputs of one name) is the error of its call, and
 * fusec_builder_finish answers it again. A mistake in how a function is called (an unknown op or attribute, a NULL)
 * leaves the builder as it was. */

FUSEC_C_API fusec_error* fusec_builder_new(fusec_builder** out);

FUSEC_C_API void fusec_builder_free(fusec_builder* builder);

/* An input. `dtype` is "f32", "f16", "bf16", "f64", "i8" ... "i64", "u8" ... "u64" or "bool". `shape` is a list of
 * extents such as "[n, 3, 2*n + 1]": numbers, symbols, and expressions over symbols with + - *, floordiv(a, b), mod(a,
 * b), min(a, b) and max(a, b). A symbol is a name, and takes its value when the engine runs. "[]" is a scalar. */
FUSEC_C_API fusec_error* fusec_builder_input(fusec_builder* builder, const char* name, const char* dtype,
                                             const char* shape, fusec_value* out);

/* The values that a symbol may have: `least` to `most`, both included; most < 0: no upper bound. Kernels may rely on
 * them, and a run with another value is refused. A later call for the same symbol takes the place of an earlier one. */
FUSEC_C_API fusec_error* fusec_builder_range(fusec_builder* builder, const char* symbol, int64_t least, int64_t most);

/* A constant of rank 0. `value` is rounded to the dtype. */
FUSEC_C_API fusec_error* fusec_builder_scalar(fusec_builder* builder, const char* dtype, double value,
                                              fusec_value* out);

/* A constant with the contents of `tensor`, which are copied. It may lie on a GPU and have strides. */
FUSEC_C_API fusec_error* fusec_builder_constant(fusec_builder* builder, const fusec_tensor* tensor, fusec_value* out);

/* fusec_builder_constant with a name, under which fusec_engine_set_weight replaces it in engines that were compiled
 * with the option "replaceable-weights". */
FUSEC_C_API fusec_error* fusec_builder_weight(fusec_builder* builder, const char* name, const fusec_tensor* tensor,
                                              fusec_value* out);

/* A constant that shares the memory of `tensor`, which must be dense memory of the host that nobody writes to. On
 * success the builder owns `tensor`, and its deleter is called, from any thread, when the builder and everything made
 * of it is freed. After an error it still belongs to the caller. */
FUSEC_C_API fusec_error* fusec_builder_constant_managed(fusec_builder* builder, fusec_managed_tensor* tensor,
                                                        fusec_value* out);

/* The result of op `op` of the `arg_count` values `args`. `attributes` is a list of name=value with spaces between
 * them, such as "axis=-1 keep=true"; NULL and "" stand for none. A value is an integer, a number, a name, true or false
 * (1 or 0), an extent as in fusec_builder_input (without spaces, or in parentheses), a text in double quotes, with a
 * backslash before each quote and backslash in it, or a list of these in brackets: "perm=[0, 2, 1]". Attributes that an
 * op can do without may be left out. `out` may point to one of `args`. fusec_builder_ops_json lists all ops. */
FUSEC_C_API fusec_error* fusec_builder_op(fusec_builder* builder, const char* op, const fusec_value* args,
                                          size_t arg_count, const char* attributes, fusec_value* out);

/* The gradients of y by the `count` values `wrt`, into the `count` values `out`: of the sum of y * dy, each with the
 * dtype and shape of its wrt, as values like any other; zeros where y does not depend on it. `dy` has the dtype and
 * shape of y; with -1 for it, y has one element and dy is 1. Integers and bools are constants here. FUSEC_UNSUPPORTED
 * names the op between y and wrt that has no gradient; docs/gradients.md states the rules. `out` may be `wrt`. After an
 * error each of `out` is -1. */
FUSEC_C_API fusec_error* fusec_builder_gradients(fusec_builder* builder, fusec_value y, fusec_value dy,
                                                 const fusec_value* wrt, size_t count, fusec_value* out);

/* All ops: [{"op": "conv", "min_args": 2, "max_args": 3, "attributes": [{"name": "strides", "kind": "integers",
 * "required": false}, ...]}, ...]. max_args is -1 where there is no bound. kind is integer, number, flag, name, text,
 * dtype, extent, integers or extents. */
FUSEC_C_API fusec_error* fusec_builder_ops_json(char** out);

/* {"dtype": "f32", "shape": ["n", 64]} */
FUSEC_C_API fusec_error* fusec_builder_value_json(const fusec_builder* builder, fusec_value value, char** out);

/* Makes `value` an output of the model. */
FUSEC_C_API fusec_error* fusec_builder_output(fusec_builder* builder, const char* name, fusec_value value);

/* The model so far. The builder may go on, and must be freed as well. */
FUSEC_C_API fusec_error* fusec_builder_finish(const fusec_builder* builder, fusec_model** out);

/* --- Custom calls: functions of the host that a model calls between its kernels -------------------------------------
 * The builder's op "custom_call" makes one, with the attributes name, dtype and shape of the result, and `attributes`,
 * a text for the function. An import makes one of each node whose domain the option "call-domain" names: its name is
 * "domain.op_type", and the model declares the type of its result (value_info). */

/* Writes `output` from `inputs` and `attributes` alone, and answers FUSEC_OK, or another code as the error of the run.
 * Tensors are dense, on the platform's device, and aligned to their elements; the ordinal of a GPU is not given.
 * Several threads may call it at once. `stream`: of a GPU, the CUstream on which the function puts its work without
 * waiting for it; it may be in capture. */
typedef int (*fusec_call)(void* user, const fusec_tensor* inputs, size_t input_count, const fusec_tensor* output,
                          const char* attributes, void* stream);

/* From now on engines for the platform, "cpu" or "cuda", call `call` under this name; NULL removes it. An engine keeps
 * the function it was made with. Compiling and loading what calls a name that is not registered is FUSEC_UNSUPPORTED;
 * writing a package is not. */
FUSEC_C_API fusec_error* fusec_register_call(const char* name, const char* platform, fusec_call call, void* user);

/* --- Engines -------------------------------------------------------------------------------------------------------
 */

/* Compiles the model for the device of the options. */
FUSEC_C_API fusec_error* fusec_engine_compile(const fusec_model* model, const fusec_options* options,
                                              fusec_engine** out);

/* Loads the code of a package (.fsc) that fits the device of the options. A package is a program: it is opened only if
 * it belongs to the user or root and nobody else may write it, or with the options "trust" or "verify-key". */
FUSEC_C_API fusec_error* fusec_engine_load(const char* path, const fusec_options* options, fusec_engine** out);

/* Loads the package that `size` bytes of memory are, which are copied. Nothing tells whose they are, so one of the
 * options "trust" and "verify-key" must be given. */
FUSEC_C_API fusec_error* fusec_engine_load_bytes(const void* bytes, size_t size, const fusec_options* options,
                                                 fusec_engine** out);

/* How well a package suits a device. */
enum {
  FUSEC_FIT_NONE = 0,  /* it has no code that the device can run */
  FUSEC_FIT_OTHER = 1, /* it runs; compiled for the device itself it would be faster, or start faster */
  FUSEC_FIT_BEST = 2   /* it has code for the device itself */
};

/* Of the package that these bytes are and the device of the options. Options as for fusec_engine_load_bytes. */
FUSEC_C_API fusec_error* fusec_package_fit(const void* bytes, size_t size, const fusec_options* options, int* out);

FUSEC_C_API void fusec_engine_free(fusec_engine* engine);

/* As fusec_model_io_json, with the members "device": "cuda:0" and "target": "sm_90". */
FUSEC_C_API fusec_error* fusec_engine_io_json(const fusec_engine* engine, char** out);

/* What compiling took and made: {"compile_ms": 0.0, "stages": [{"stage": "optimize", "ms": 0.0}, ...],
 * "distinct_kernels": 0, "compiled_kernels": 0, "cached_kernels": 0, "shared_kernels": 0, "server_kernels": 0,
 * "code_bytes": 0, "constant_bytes": 0, "notes": [...], ...} */
FUSEC_C_API fusec_error* fusec_engine_stats_json(const fusec_engine* engine, char** out);

/* The numbers of inputs and outputs. Either pointer may be NULL. */
FUSEC_C_API fusec_error* fusec_engine_counts(const fusec_engine* engine, size_t* inputs, size_t* outputs);

/* Of input or output `index`: its name, which lives as long as the engine; its dtype; its rank. Each of the three
 * pointers may be NULL. */
FUSEC_C_API fusec_error* fusec_engine_input(const fusec_engine* engine, size_t index, const char** name,
                                            fusec_dtype* dtype, int32_t* rank);
FUSEC_C_API fusec_error* fusec_engine_output(const fusec_engine* engine, size_t index, const char** name,
                                             fusec_dtype* dtype, int32_t* rank);

/* What a run with inputs of these extents consists of: {"symbols": {"n": 8}, "launches": 0, "arena_bytes": 0, "steps":
 * [{"origin": "...", "implementation": "...", "bytes": 0, ...}, ...], ...} */
FUSEC_C_API fusec_error* fusec_engine_plan_json(const fusec_engine* engine, const int64_t* input_extents, char** out);

/* The weights that fusec_engine_set_weight replaces: [{"name": "w", "dtype": "f32", "shape": [64]}, ...]. They are
 * those that the option "replaceable-weights" named when the engine, or its package, was compiled. */
FUSEC_C_API fusec_error* fusec_engine_weights_json(const fusec_engine* engine, char** out);

/* Replaces the contents of a weight for all sessions of the engine: weights and what is packed of them belong to the
 * engine, and sessions share them. Runs that begin from here on see the new ones, runs under way finish with the old
 * ones. `data` has the dtype and shape of the weight, and is copied. The next run of a session does again what depends
 * on weights, and compiles nothing. */
FUSEC_C_API fusec_error* fusec_engine_set_weight(fusec_engine* engine, const char* name, const fusec_tensor* data);

/* --- Sessions: run an engine ---------------------------------------------------------------------------------------
 */

FUSEC_C_API fusec_error* fusec_session_new(const fusec_engine* engine, fusec_session** out);

FUSEC_C_API void fusec_session_free(fusec_session* session);

/* The extents of all outputs, one flat array as those of the inputs, for inputs with these extents. Either pointer may
 * be NULL where it has no extents. */
FUSEC_C_API fusec_error* fusec_session_output_shapes(fusec_session* session, const int64_t* input_extents,
                                                     int64_t* output_extents);

/* Does everything that the first run with these input extents would do beside running. */
FUSEC_C_API fusec_error* fusec_session_prepare(fusec_session* session, const int64_t* input_extents);

/* Runs. `inputs` and `outputs` are in the order of the engine; input_count and output_count must be its numbers of
 * them. Outputs are memory of the caller with the dtypes of the engine and the extents of fusec_session_output_shapes;
 * they are written. With an engine on a GPU each tensor lies on the host or on that GPU. Strided and misaligned memory
 * is allowed, at the price of a copy. The run is over when the function returns. On a GPU it uses a stream of its own:
 * earlier work on the tensors must be over. */
FUSEC_C_API fusec_error* fusec_session_run(fusec_session* session, const fusec_tensor* inputs, size_t input_count,
                                           const fusec_tensor* outputs, size_t output_count);

/* Puts a run on `stream` (a cudaStream_t or CUstream of the engine's GPU; NULL: the legacy default stream) and returns
 * at once. Memory of the tensors, which lies on the GPU, and the session must live until the run is over; the structs,
 * shapes and strides are read during the call only. Indices out of range are clamped and not reported.
 *
 * The stream may be in capture, also one of the mode "global", once these input extents were run or prepared
 * (fusec_session_prepare): the run becomes a part of the caller's graph, and a tensor that would have to be copied is
 * an error. The session must live as long as the graph, whose launches must not overlap each other or other runs of
 * this session. On the CPU this is fusec_session_run, and `stream` is not looked at. */
FUSEC_C_API fusec_error* fusec_session_run_async(fusec_session* session, const fusec_tensor* inputs, size_t input_count,
                                                 const fusec_tensor* outputs, size_t output_count, void* stream);

/* fusec_session_run_async for dense row-major tensors on the device of the engine: input_extents as above, and one
 * pointer for each input and each output. It is the cheapest call: once these extents were seen by this function, it
 * allocates no memory as long as at most 16 sets of extents take turns. On the CPU the run is over when it returns.
 * Either array of pointers may be NULL where it has no members, input_extents where it has no extents. */
FUSEC_C_API fusec_error* fusec_session_run_raw(fusec_session* session, const int64_t* input_extents,
                                               void* const* inputs, void* const* outputs, void* stream);

/* {"runs": 0, "prepared": 0, "arena_bytes": 0, "staged_copies": 0, "notes": [...], ...} */
FUSEC_C_API fusec_error* fusec_session_stats_json(const fusec_session* session, char** out);

/* Runs many times on the inputs, traced and untraced, and tells where the time of a run goes, in microseconds:
 * {"source": "cupti", "runs": 20, "measured_us": 0, "sum_us": 0, "gaps_us": 0, "host_us": 0, "launches": [...], ...} as
 * `fusec profile --json` does. `runs` is the number of traced runs, and as many are untraced; 0: 20. Inputs are as for
 * fusec_session_run; the results are dropped. */
FUSEC_C_API fusec_error* fusec_session_profile_json(fusec_session* session, const fusec_tensor* inputs,
                                                    size_t input_count, int64_t runs, char** out);

/* --- Pools of sessions, for hosts that call from many threads -------------------------------------------------------
 */

/* At most `size` sessions of the engine, which are made when they are first needed. */
FUSEC_C_API fusec_error* fusec_session_pool_new(const fusec_engine* engine, size_t size, fusec_session_pool** out);

/* A session for the calling thread, until fusec_session_pool_release; waits while all of them are out. Any thread may
 * call both. */
FUSEC_C_API fusec_error* fusec_session_pool_acquire(fusec_session_pool* pool, fusec_session** out);
FUSEC_C_API fusec_error* fusec_session_pool_release(fusec_session_pool* pool, fusec_session* session);

/* Once all sessions are released. */
FUSEC_C_API void fusec_session_pool_free(fusec_session_pool* pool);

#ifdef __cplusplus
}
#endif

#endif
