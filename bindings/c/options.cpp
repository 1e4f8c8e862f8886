// SPDX-License-Identifier: Apache-2.0
// Options by key: those of fusec::Options, and the few of importing models, opening packages and writing them.

#include "bindings/c/options.h"

#include <charconv>
#include <map>
#include <memory>
#include <optional>

#include "bindings/c/json.h"
#include "ir/graph/limits.h"

namespace fusec::c {
namespace {

Status reject_value(const OptionKey& key, const std::string& value) {
  return Status(StatusCode::invalid_argument,
                std::string(key.key) + " '" + value + "' is not valid; it takes " + key.accepts);
}

template <class T>
bool parse_integer(std::string_view text, T& to) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, to);
  return error == std::errc() && rest == end;
}

// NAME=VALUE, of a list in which the last VALUE of a NAME is taken.
template <class T>
Status set_named(std::map<std::string, T>& to, const OptionKey& key, const std::string& text,
                 std::optional<T> (*parse)(std::string_view)) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) return reject_value(key, text);
  const std::optional<T> value = parse(std::string_view(text).substr(equals + 1));
  if (!value) return reject_value(key, text);
  to[text.substr(0, equals)] = *value;
  return {};
}

Status set_random_weights(fusec_options& options, const OptionKey& key, const std::string& value) {
  uint64_t seed = 0;
  if (!parse_integer(value, seed)) return reject_value(key, value);
  options.import.random_weights = seed;
  return {};
}

Status set_trust(fusec_options& options, const OptionKey& key, const std::string& value) {
  const bool yes = value == "true" || value == "1";
  if (!yes && value != "false" && value != "0") return reject_value(key, value);
  options.package.trust = yes;
  return {};
}

struct ExtraRow {
  OptionKey key;
  const char* used_by;
  Status (*set)(fusec_options& options, const OptionKey& key, const std::string& value);
};

const ExtraRow kExtraRows[] = {
    {{"external-root", "a folder, added to a list", "",
      "DIR: data files of weights are looked for here too, after the model's folder"},
     "import",
     [](fusec_options& o, const OptionKey&, const std::string& v) {
       return o.import.external_roots.push_back(v), Status();
     }},
    {{"random-weights", "an integer, at least 0", "", "SEED: fills weights whose data file is absent"},
     "import",
     set_random_weights},
    {{"fix", "NAME=EXTENT, added to a list", "", "N=8: the symbol N of the model's shapes is this number"},
     "import",
     [](fusec_options& o, const OptionKey& k, const std::string& v) {
       return set_named(o.import.symbols, k, v, ir::parse_extent);
     }},
    {{"range", "NAME=1:64, NAME=:64 or NAME=2:, added to a list", "",
      "the values that a symbol of the model's shapes may have: the compiler relies on them, and a run with another is "
      "refused"},
     "import",
     [](fusec_options& o, const OptionKey& k, const std::string& v) {
       return set_named(o.import.ranges, k, v, ir::parse_range);
     }},
    {{"call-domain", "a domain of ONNX nodes, added to a list", "",
      "DOMAIN: its nodes are custom calls of functions that the host registers as DOMAIN.OP"},
     "import",
     [](fusec_options& o, const OptionKey&, const std::string& v) {
       return o.import.call_domains.push_back(v), Status();
     }},
    {{"trust", "true, false, 1, 0", "false",
      "run a package (.fsc) whoever owns it or may write it: a package is a program"},
     "load",
     set_trust},
    {{"verify-key", "a file", "",
      "FILE.pem, an Ed25519 public key: the package must be signed by it, and may then belong to anyone"},
     "load",
     [](fusec_options& o, const OptionKey&, const std::string& v) -> Status {
       FUSEC_ASSIGN(o.package.verify_key, read_public_key(v));
       return {};
     }},
    {{"sign", "a file", "", "FILE.pem, an Ed25519 private key that signs the package"},
     "write",
     [](fusec_options& o, const OptionKey&, const std::string& v) -> Status {
       FUSEC_ASSIGN(o.sign, read_signing_key(v));
       return {};
     }},
};

void write_key(JsonWriter& json, const OptionKey& key, const char* used_by) {
  json.open('{').member("key", key.key).member("help", key.help).key("default");
  *key.initial == '\0' ? json.null() : json.value(key.initial);
  json.member("accepts", key.accepts).member("used_by", used_by).close('}');
}

}  // namespace

Status check_options(const fusec_options* options) {
  return options == nullptr ? Status() : check_handle(options, "options");
}

Options compile_options(const fusec_options* options) {
  Options out = options == nullptr ? Options() : options->compile;
  out.on_log = [](Severity severity, const std::string& text) { log_message(static_cast<int>(severity), text); };
  return out;
}

}  // namespace fusec::c

using namespace fusec::c;

fusec_error* fusec_options_new(fusec_options** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    *out = new fusec_options;
    return {};
  });
}

fusec_error* fusec_options_set(fusec_options* options, const char* key, const char* value) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_handle(options, "options"));
    FUSEC_TRY(check_pointer(key, "key"));
    FUSEC_TRY(check_pointer(value, "value"));
    for (const ExtraRow& row : kExtraRows) {
      if (row.key.key == std::string_view(key)) return row.set(*options, row.key, value);
    }
    return fusec::set_option(options->compile, key, value);
  });
}

void fusec_options_free(fusec_options* options) { free_handle(options, "options"); }

fusec_error* fusec_options_keys_json(char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    JsonWriter json;
    json.open('[');
    for (const fusec::OptionKey& key : fusec::option_keys()) write_key(json, key, "compile");
    for (const ExtraRow& row : kExtraRows) write_key(json, row.key, row.used_by);
    return give_json(json.close(']'), out);
  });
}
