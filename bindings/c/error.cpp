// SPDX-License-Identifier: Apache-2.0
// Version, errors, the log, and memory that the caller frees.

#include "bindings/c/error.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include "fusec/host.h"
#include "fusec/version.h"

namespace fusec::c {
namespace {

// In the order of StatusCode.
static_assert(static_cast<int>(StatusCode::ok) == FUSEC_OK);
static_assert(static_cast<int>(StatusCode::invalid_model) == FUSEC_INVALID_MODEL);
static_assert(static_cast<int>(StatusCode::unsupported) == FUSEC_UNSUPPORTED);
static_assert(static_cast<int>(StatusCode::invalid_argument) == FUSEC_INVALID_ARGUMENT);
static_assert(static_cast<int>(StatusCode::device) == FUSEC_DEVICE);
static_assert(static_cast<int>(StatusCode::out_of_memory) == FUSEC_OUT_OF_MEMORY);
static_assert(static_cast<int>(StatusCode::compile_failed) == FUSEC_COMPILE_FAILED);
static_assert(static_cast<int>(StatusCode::cache) == FUSEC_CACHE);
static_assert(static_cast<int>(StatusCode::internal) == FUSEC_INTERNAL);
static_assert(static_cast<int>(StatusCode::cancelled) == FUSEC_CANCELLED);

static_assert(static_cast<int>(Severity::debug) == FUSEC_LOG_DEBUG);
static_assert(static_cast<int>(Severity::info) == FUSEC_LOG_INFO);
static_assert(static_cast<int>(Severity::warning) == FUSEC_LOG_WARNING);
static_assert(static_cast<int>(Severity::error) == FUSEC_LOG_ERROR);

constinit fusec_error no_memory{.code = FUSEC_OUT_OF_MEMORY, .message = "out of memory"};

// No lock is held while the function runs: it may wait for a lock of the host, such as Python's, whose owner is about
// to log something itself.
struct Log {
  std::mutex changes;  // held by fusec_set_log
  std::mutex mutex;    // of function, user and slot
  void (*function)(void*, int, const char*) = nullptr;
  void* user = nullptr;
  unsigned slot = 0;                   // of the function: it alternates
  std::atomic<unsigned> running[2]{};  // calls of the function of each slot that have not returned
};
constinit Log current_log;

char* append(char* at, const char* text, std::size_t size) {
  std::memcpy(at, text, size);
  return at + size;
}

}  // namespace

const char* handle_type(Magic magic) {
  constexpr const char* kTypes[] = {"error", "options", "model", "builder", "engine", "session", "session pool"};
  const Magic type = magic - make_magic(1);
  return type < std::size(kTypes) ? kTypes[type] : nullptr;
}

fusec_error* make_error(const Status& status) noexcept {
  if (status.ok()) return nullptr;
  const std::string& message = status.message();
  if (status.code() == StatusCode::out_of_memory && message == no_memory.message) return &no_memory;
  std::size_t size = message.size() + 1;
  for (const std::string& note : status.notes()) size += note.size() + 2;
  void* const memory = std::malloc(sizeof(fusec_error) + size);
  if (memory == nullptr) return &no_memory;
  auto* const text = static_cast<char*>(memory) + sizeof(fusec_error);
  char* end = append(text, message.data(), message.size());
  for (const std::string& note : status.notes()) end = append(append(end, "; ", 2), note.data(), note.size());
  *end = '\0';
  return new (memory) fusec_error{.code = static_cast<int>(status.code()), .message = text};
}

Status reject_null(const char* parameter) {
  return Status(StatusCode::invalid_argument, std::string("parameter '") + parameter + "' is NULL");
}

Status reject_type(const char* parameter, Magic found, Magic expected) {
  const char* const type = handle_type(found);
  return Status(StatusCode::invalid_argument, std::string("parameter '") + parameter + "' must be a handle of type " +
                                                  handle_type(expected) + ", given is " +
                                                  (type == nullptr ? "no handle, or one that was freed" : type));
}

void log_message(int severity, const std::string& message) {
  std::unique_lock lock(current_log.mutex);
  if (auto* const function = current_log.function) {
    void* const user = current_log.user;
    std::atomic<unsigned>& running = current_log.running[current_log.slot];
    ++running;
    lock.unlock();
    function(user, severity, message.c_str());
    if (--running == 0) running.notify_all();
    return;
  }
  lock.unlock();
  if (severity >= FUSEC_LOG_WARNING)
    (void)std::fprintf(stderr, "fusec: %s: %s\n", severity == FUSEC_LOG_WARNING ? "warning" : "error", message.c_str());
}

void log_mistake(const Status& status) noexcept {
  try {
    log_message(FUSEC_LOG_ERROR, status.message());
  } catch (...) {
    // There is no memory for the message.
  }
}

Status give_text(const std::string& text, char** out) {
  auto* const memory = static_cast<char*>(std::malloc(text.size() + 1));
  if (memory == nullptr) return Status::exhausted();
  std::memcpy(memory, text.c_str(), text.size() + 1);
  *out = memory;
  return {};
}

}  // namespace fusec::c

using namespace fusec::c;

uint32_t fusec_abi_version(void) { return uint32_t{FUSEC_ABI_MAJOR} << 16 | FUSEC_ABI_MINOR; }

const char* fusec_version(void) { return fusec::version(); }

int fusec_error_code(const fusec_error* error) {
  if (error == nullptr) return FUSEC_OK;
  return read_magic(error) == fusec_error::kMagic ? error->code : FUSEC_INVALID_ARGUMENT;
}

const char* fusec_error_message(const fusec_error* error) {
  if (error == nullptr) return "";
  return read_magic(error) == fusec_error::kMagic ? error->message : "parameter 'error' is not a handle of type error";
}

void fusec_error_free(fusec_error* error) {
  if (error == nullptr || error == &no_memory) return;
  if (const auto wrong = fusec::ir::guarded([&] { return check_handle(error, "error"); }); !wrong.ok()) {
    return log_mistake(wrong);
  }
  *const_cast<volatile Magic*>(&error->magic) = 0;
  std::free(error);
}

void fusec_set_log(void (*log)(void* user, int severity, const char* message), void* user) {
  const std::lock_guard only(current_log.changes);
  std::unique_lock lock(current_log.mutex);
  std::atomic<unsigned>& running = current_log.running[current_log.slot];
  current_log.slot ^= 1;
  current_log.function = log;
  current_log.user = user;
  lock.unlock();
  for (unsigned left = running; left != 0; left = running) running.wait(left);
}

void fusec_free(void* memory) { std::free(memory); }
