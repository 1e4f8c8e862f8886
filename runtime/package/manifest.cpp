// SPDX-License-Identifier: Apache-2.0
// Prints and parses the JSON manifest of a package. The file may be malicious: the parser limits nesting, refuses
// integers out of range, and returns a Status for any other text.

#include <climits>
#include <new>
#include <nlohmann/json.hpp>

#include "runtime/package/package.h"

namespace fusec::runtime {
namespace {

using Json = nlohmann::json;  // keys sorted: equal manifests are equal bytes

constexpr const char* kNumerics[] = {"precise", "exact", "fast"};

// Thrown by the readers below, caught by parse_manifest.
struct Fault {
  std::string message;
};

constexpr int kMaxDepth = 16;  // of lists and objects inside each other; a manifest has 5

// A JSON value whose destructor allocates nothing. The destructor of nlohmann::json moves the elements of arrays and
// objects to a list, and terminates the process if it cannot allocate the list.
struct Parsed {
  Json json;
  Parsed() = default;
  Parsed(const Parsed&) = delete;
  ~Parsed() { take_apart(json); }

 private:
  static void take_apart(Json& value) noexcept {
    if (auto* const list = value.get_ptr<Json::array_t*>()) {
      for (Json& item : *list) take_apart(item);
      list->clear();
    } else if (auto* const object = value.get_ptr<Json::object_t*>()) {
      for (auto& [key, item] : *object) take_apart(item);
      object->clear();
    }
  }
};

// Builds a Json that outlives the reader, even if an exception is thrown.
class Reader : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  using json_sax_dom_parser::json_sax_dom_parser;
  bool start_object(std::size_t size) { return deeper() && json_sax_dom_parser::start_object(size); }
  bool start_array(std::size_t size) { return deeper() && json_sax_dom_parser::start_array(size); }
  bool end_object() { return --depth_, json_sax_dom_parser::end_object(); }
  bool end_array() { return --depth_, json_sax_dom_parser::end_array(); }

 private:
  bool deeper() {
    if (++depth_ > kMaxDepth) throw Fault{"lists and objects lie inside each other too deeply"};
    return true;
  }
  int depth_ = 0;
};

// get<int64_t>() would convert any number, with unspecified results out of range.
int64_t read_integer(const Json& number) {
  if (!number.is_number_integer() || (number.is_number_unsigned() && number.get<uint64_t>() > INT64_MAX))
    throw Fault{"not an integer: " + number.dump()};
  return number.get<int64_t>();
}
int read_small_integer(const Json& number) {
  const int64_t value = read_integer(number);
  if (value < 0 || value > INT_MAX) throw Fault{"not a count: " + number.dump()};
  return static_cast<int>(value);
}
std::vector<int64_t> read_integers(const Json& list) {
  std::vector<int64_t> numbers;
  for (const Json& number : list) numbers.push_back(read_integer(number));
  return numbers;
}

Json make_json(const std::vector<Dim>& dims) {
  Json list = Json::array();
  for (const Dim& d : dims) list.push_back(d.str());
  return list;
}

std::vector<Dim> read_dims(const Json& list) {
  std::vector<Dim> dims;
  for (const Json& item : list) {
    Result<Dim> d = Dim::parse(item.get<std::string>());
    if (d.status().code() == StatusCode::out_of_memory) throw std::bad_alloc();
    if (!d.ok()) throw Fault{d.status().message()};
    dims.push_back(*std::move(d));
  }
  return dims;
}

DType read_dtype(const Json& name) {
  const auto dtype = parse_dtype(name.get<std::string>());
  if (!dtype) throw Fault{"there is no dtype '" + name.get<std::string>() + "'"};
  return *dtype;
}

Json make_json(const std::vector<TensorInfo>& infos) {
  Json list = Json::array();
  for (const TensorInfo& info : infos) {
    Json item = {{"name", info.name}, {"dtype", to_string(info.dtype)}, {"shape", make_json(info.shape)}};
    if (!info.indexed_extents.empty()) item["indexed_extents"] = make_json(info.indexed_extents);
    list.push_back(std::move(item));
  }
  return list;
}

std::vector<TensorInfo> read_infos(const Json& list) {
  std::vector<TensorInfo> infos;
  for (const Json& item : list) {
    TensorInfo info;
    info.name = item.at("name").get<std::string>();
    info.dtype = read_dtype(item.at("dtype"));
    info.shape = read_dims(item.at("shape"));
    if (item.contains("indexed_extents")) info.indexed_extents = read_dims(item.at("indexed_extents"));
    infos.push_back(std::move(info));
  }
  return infos;
}

Json make_json(const std::map<std::string, ExtentRange>& ranges) {
  Json json = Json::object();
  for (const auto& [symbol, range] : ranges) json[symbol] = {{"least", range.least}, {"most", range.most}};
  return json;
}

std::map<std::string, ExtentRange> read_ranges(const Json& json) {
  std::map<std::string, ExtentRange> ranges;
  for (const auto& [symbol, json_range] : json.items()) {
    const ExtentRange range{read_integer(json_range.at("least")), read_integer(json_range.at("most"))};
    if (range.least < 0 || range.most < range.least) throw Fault{"the range of '" + symbol + "' has no values"};
    ranges[symbol] = range;
  }
  return ranges;
}

Json make_json(const PackagedTarget& packaged) {
  const Target& t = packaged.target;
  Json constants = Json::array();
  for (const PackagedConstant& c : packaged.constants) {
    constants.push_back({{"dtype", to_string(c.dtype)}, {"shape", c.shape}, {"offset", c.offset}});
  }
  Json item = {{"name", t.name}, {"constants", std::move(constants)}};
  if (t.kind == TargetKind::cuda) {
    item.update({{"kind", "cuda"}, {"sm", t.sm}, {"tile_products", t.has_tile_products}});
  } else {
    item.update({{"kind", "cpu"}, {"features", t.features}, {"vector_bytes", t.vector_bytes}});
  }
  return item;
}

PackagedTarget read_target(const Json& item) {
  PackagedTarget packaged;
  Target& t = packaged.target;
  t.name = item.at("name").get<std::string>();
  if (item.at("kind").get<std::string>() == "cuda") {
    t.kind = TargetKind::cuda;
    t.sm = read_small_integer(item.at("sm"));
    t.has_tile_products = item.value("tile_products", false);
  } else {
    t.features = item.at("features").get<std::vector<std::string>>();
    t.vector_bytes = read_small_integer(item.at("vector_bytes"));
  }
  for (const Json& c : item.at("constants")) {
    packaged.constants.push_back(
        {read_dtype(c.at("dtype")), read_integers(c.at("shape")), read_integer(c.at("offset"))});
  }
  return packaged;
}

Numerics read_numerics(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kNumerics); ++i) {
    if (name == kNumerics[i]) return static_cast<Numerics>(i);
  }
  throw Fault{"there are no numerics '" + name + "'"};
}

Manifest read_manifest(const Json& json) {
  Manifest m;
  m.producer = json.at("producer").get<std::string>();
  const Json& options = json.at("options");
  m.numerics = read_numerics(options.at("numerics").get<std::string>());
  if (options.contains("precision")) m.precision = read_dtype(options.at("precision"));
  m.tf32 = options.at("tf32").get<bool>();
  if (options.contains("batch_invariant")) m.batch_invariant = options.at("batch_invariant").get<bool>();
  m.use_library = options.at("library").get<bool>();
  m.model.inputs = read_infos(json.at("inputs"));
  m.model.outputs = read_infos(json.at("outputs"));
  m.model.symbols = json.at("symbols").get<std::vector<std::string>>();
  if (json.contains("ranges")) m.model.ranges = read_ranges(json.at("ranges"));
  for (const Json& item : json.at("targets")) m.targets.push_back(read_target(item));
  return m;
}

}  // namespace

std::string print_manifest(const Manifest& m) {
  Json options = {
      {"numerics", kNumerics[static_cast<std::size_t>(m.numerics)]}, {"tf32", m.tf32}, {"library", m.use_library}};
  if (m.batch_invariant) options["batch_invariant"] = true;
  if (m.precision) options["precision"] = to_string(*m.precision);
  Json targets = Json::array();
  for (const PackagedTarget& target : m.targets) targets.push_back(make_json(target));
  Json json = {{"producer", m.producer},
               {"options", std::move(options)},
               {"inputs", make_json(m.model.inputs)},
               {"outputs", make_json(m.model.outputs)},
               {"symbols", m.model.symbols},
               {"targets", std::move(targets)}};
  if (!m.model.ranges.empty()) json["ranges"] = make_json(m.model.ranges);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Manifest> parse_manifest(std::string_view text) {
  try {
    Parsed parsed;
    Reader reader(parsed.json, /*allow_exceptions_=*/true);
    (void)Json::sax_parse(text, &reader);
    return read_manifest(parsed.json);
  } catch (const Json::exception& fault) {
    return Status(StatusCode::invalid_model, fault.what());
  } catch (const Fault& fault) {
    return Status(StatusCode::invalid_model, fault.message);
  }
}

}  // namespace fusec::runtime
