#include "safetensors_header.hpp"

#include <hearth/runtime/base/json_fault.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace hearth::detail {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array<TypeName, kDTypeCount> kTypeNames{{{DType::f32, "F32"},
                                                        {DType::f64, "F64"},
                                                        {DType::f16, "F16"},
                                                        {DType::bf16, "BF16"},
                                                        {DType::i32, "I32"},
                                                        {DType::i64, "I64"},
                                                        {DType::u8, "U8"},
                                                        {DType::boolean, "BOOL"},
                                                        {DType::i8, "I8"}}};

// Integers that the format has and tensors have not. They are read as wider ones.
struct WidenedType {
  std::string_view name;
  StoredType stored;
  DType dtype;
};
constexpr std::array<WidenedType, 4> kWidenedTypes{{{"I16", StoredType::i16, DType::i32},
                                                    {"U16", StoredType::u16, DType::i32},
                                                    {"U32", StoredType::u32, DType::i64},
                                                    {"U64", StoredType::u64, DType::i64}}};

// Finds the type of this name. Returns false if there is none.
bool find_type(std::string_view name, WeightFile::Entry& entry) {
  if (const auto* const known = std::ranges::find(kTypeNames, name, &TypeName::name);
      known != kTypeNames.end()) {
    entry.dtype = known->dtype;
    return true;
  }
  const auto* const wide = std::ranges::find(kWidenedTypes, name, &WidenedType::name);
  if (wide == kWidenedTypes.end()) {
    return false;
  }
  entry.dtype = wide->dtype;
  entry.stored = wide->stored;
  return true;
}

// Returns "F32, F64, ...".
std::string known_types() {
  std::string names;
  for (const TypeName& type : kTypeNames) {
    names += (names.empty() ? "" : ", ") + std::string(type.name);
  }
  for (const WidenedType& type : kWidenedTypes) {
    names += ", " + std::string(type.name);
  }
  return names;
}

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return Error{.code = ErrorCode::bad_format,
               .text = fmt::format(format, std::forward<Args>(args)...)};
}

std::optional<std::uint64_t> as_count(const Json& value) {
  if (!value.is_number_unsigned()) {
    return std::nullopt;
  }
  return value.get<std::uint64_t>();
}

// Shortens a value for an error, whatever the file holds (parse_json bounds its depth).
std::string excerpt(const Json& value) {
  constexpr std::size_t kMost = 60;
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

Result<std::vector<std::int64_t>> parse_dims(const std::string& name, const Json& value) {
  std::vector<std::int64_t> dims;
  for (const Json& dim : value.is_array() ? value : Json::array({-1})) {
    const std::optional<std::uint64_t> size = as_count(dim);
    if (!size || *size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return bad("tensor '{}': its shape is {}, not a list of sizes", name, excerpt(value));
    }
    dims.push_back(static_cast<std::int64_t>(*size));
  }
  return dims;
}

// Size of these elements; nothing if it exceeds the size of any file.
std::optional<std::uint64_t> bytes_of(const std::vector<std::int64_t>& dims,
                                      const WeightFile::Entry& entry) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56U;
  std::uint64_t bytes = stored_bytes(entry.stored, entry.dtype);
  bytes = std::ranges::find(dims, 0) == dims.end() ? bytes : 0;
  for (const std::int64_t dim : dims) {
    const auto size = static_cast<std::uint64_t>(dim);
    if (bytes != 0 && size > kMost / bytes) {
      return std::nullopt;
    }
    bytes *= size;
  }
  return bytes;
}

// Parses dtype and shape, or stores why the tensor is unsupported. The data size of an unknown
// dtype is not checked against the shape, since its element size is unknown.
Status parse_type(WeightFile::Entry& entry, const Json& value) {
  const Json& type = value["dtype"];
  if (!type.is_string()) {
    return bad("tensor '{}': the type {} is no text", entry.name, excerpt(type));
  }
  HEARTH_TRY(const std::vector<std::int64_t> dims, parse_dims(entry.name, value["shape"]));
  if (!find_type(type.get_ref<const std::string&>(), entry)) {
    entry.unsupported = fmt::format("{}[{}] has a type that is none of {}",
                                    excerpt(type),
                                    fmt::join(dims, ", "),
                                    known_types());
    return {};
  }
  if (const auto wanted = bytes_of(dims, entry); wanted != entry.size_bytes) {
    return bad("tensor '{}': {}[{}] needs {} bytes, data_offsets {} give {}",
               entry.name,
               entry.stored == StoredType::same ? std::string(hearth::name(entry.dtype))
                                                : type.get<std::string>(),
               fmt::join(dims, ", "),
               wanted ? std::to_string(*wanted) : "too many",
               value["data_offsets"].dump(),
               entry.size_bytes);
  }
  Result<Shape> shape = make_shape(dims);
  if (shape.has_value()) {
    entry.shape = std::move(shape).value();
  } else {
    entry.unsupported = shape.error().text;
  }
  return {};
}

Result<WeightFile::Entry> parse_entry(const std::string& name,
                                      const Json& value,
                                      std::size_t data_size) {
  // Further members are ignored, as the format's own reader does.
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    return bad("tensor '{}': expected dtype, shape and data_offsets, got {}", name, excerpt(value));
  }
  WeightFile::Entry entry{.name = name, .shape = {}};
  const Json& offsets = value["data_offsets"];
  const bool is_pair = offsets.is_array() && offsets.size() == 2;
  const std::optional<std::uint64_t> begin = is_pair ? as_count(offsets[0]) : std::nullopt;
  const std::optional<std::uint64_t> end = is_pair ? as_count(offsets[1]) : std::nullopt;
  if (!begin || !end || *begin > *end || *end > data_size) {
    return bad("tensor '{}': data_offsets {} do not lie in the {} bytes of data{}",
               name,
               offsets.dump(),
               data_size,
               begin && end && *begin <= *end
                   ? ": the file is shorter than its header states: it is truncated or damaged"
                   : "");
  }
  entry.offset_bytes = *begin;
  entry.size_bytes = *end - *begin;
  HEARTH_TRY_STATUS(parse_type(entry, value));
  return entry;
}

// Parses the metadata; null counts as empty.
Result<Metadata> parse_metadata(const Json& value) {
  Metadata metadata;
  if (value.is_null()) {
    return metadata;
  }
  bool is_valid = value.is_object();
  for (const auto& [key, word] : value.items()) {
    is_valid = is_valid && word.is_string();
    if (is_valid) {
      metadata.emplace(key, word.get<std::string>());
    }
  }
  if (!is_valid) {
    return bad("{} is not an object of texts: {}", kMetadataKey, excerpt(value));
  }
  return metadata;
}

Status check_cover(const std::vector<WeightFile::Entry>& entries, std::size_t data_size) {
  std::size_t end = 0;
  for (const WeightFile::Entry& entry : entries) {
    if (entry.offset_bytes != end) {
      return bad("tensor '{}' begins at byte {} of the data, but the one before ends at {}",
                 entry.name,
                 entry.offset_bytes,
                 end);
    }
    end += entry.size_bytes;
  }
  if (end != data_size) {
    return bad("the tensors end at byte {} of the data, but there are {} bytes", end, data_size);
  }
  return {};
}

// Observes parser events for properties that the parsed value loses.
class JsonWatch {
 public:
  bool accept(int depth, Json::parse_event_t event, const Json& parsed) {
    constexpr int kMostDepth = 64;  // the format needs 4; further members may have more
    if (depth > kMostDepth) {
      is_deep = true;
      return false;  // not stored, so that a hostile file uses no stack
    }
    if (event == Json::parse_event_t::key) {
      record_key(depth, parsed.get_ref<const std::string&>());
    }
    return true;
  }

  std::string twice;  // a duplicate name, which would hide its first tensor
  bool is_deep = false;
  bool has_own_order = false;

 private:
  void record_key(int depth, const std::string& key) {
    if (depth == 1) {
      twice = names_.insert(key).second ? twice : key;
      tensor_ = key;
      members_.clear();
    } else if (depth == 2 && tensor_ != kMetadataKey) {
      members_ += key + ' ';
      has_own_order = has_own_order || members_ == "data_offsets shape dtype ";
    }
  }

  std::set<std::string> names_;
  std::string tensor_;
  std::string members_;
};

Result<Json> parse_json(std::string_view text, JsonWatch& watch) {
  const auto accept = [&watch](int depth, Json::parse_event_t event, Json& parsed) {
    return watch.accept(depth, event, parsed);
  };
  if (text.find('\0') != text.npos) {  // the parser would stop here without an error
    return bad("the header is not JSON: it has a zero byte");
  }
  Json root;
  try {
    root = Json::parse(text, accept);
  } catch (const Json::exception& error) {
    return bad("the header is not JSON: {}", json_fault(error));
  }
  if (watch.is_deep) {
    return bad("the header is nested deeper than 64 levels");
  }
  if (!watch.twice.empty()) {
    return bad("the name '{}' stands twice in the header", watch.twice);
  }
  if (!root.is_object()) {
    return bad("the header is not a JSON object");
  }
  return root;
}

}  // namespace

std::string print_header(const SafetensorsHeader& header, Spelling spelling, SourceLoc loc) {
  using Ordered = nlohmann::ordered_json;
  const auto refuse = [loc](std::string text) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument, .text = std::move(text), .location = loc});
  };
  Ordered root = Ordered::object();
  if (!header.metadata.empty()) {
    root[std::string(kMetadataKey)] = header.metadata;
  }
  std::map<std::string_view, const WeightFile::Entry*> by_name;
  for (const WeightFile::Entry& entry : header.entries) {
    by_name.emplace(entry.name, &entry);
  }
  for (const auto& [name, entry] : by_name) {
    const auto* const type = std::ranges::find(kTypeNames, entry->dtype, &TypeName::dtype);
    root[std::string(name)] = {
        {"data_offsets", {entry->offset_bytes, entry->offset_bytes + entry->size_bytes}},
        {"shape", entry->shape.dims()},
        {"dtype", type->name}};
  }
  std::string text;
  try {
    text = spelling == Spelling::own ? root.dump() : Json(root).dump();
  } catch (const Json::exception& error) {
    refuse(
        fmt::format("safetensors: a name or a metadata text is not UTF-8: {}", json_fault(error)));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderBytes) {
    refuse(
        fmt::format("safetensors: names and metadata make a header of {} bytes, and the format "
                    "allows {}",
                    text.size(),
                    kMaxHeaderBytes));
  }
  return text;
}

Result<ParsedHeader> parse_header(std::string_view text, std::size_t data_size_bytes) {
  JsonWatch watch;
  HEARTH_TRY(const Json root, parse_json(text, watch));
  ParsedHeader parsed{.header = {}, .has_own_order = watch.has_own_order};
  SafetensorsHeader& header = parsed.header;
  for (const auto& [name, value] : root.items()) {
    if (name == kMetadataKey) {
      HEARTH_TRY(header.metadata, parse_metadata(value));
    } else {
      HEARTH_TRY(WeightFile::Entry entry, parse_entry(name, value, data_size_bytes));
      header.entries.push_back(std::move(entry));
    }
  }
  // An empty tensor sorts before the tensor at the same offset.
  std::ranges::sort(header.entries, {}, [](const WeightFile::Entry& entry) {
    return std::pair(entry.offset_bytes, entry.size_bytes);
  });
  HEARTH_TRY_STATUS(check_cover(header.entries, data_size_bytes));
  return parsed;
}

bool has_sorted_spelling(std::string_view text, const SafetensorsHeader& header) noexcept {
  // Cannot occur in a name, where quotes are escaped.
  constexpr std::string_view kBegin = ":{\"data_offsets\":[";
  std::size_t count = 0;
  for (std::size_t at = text.find(kBegin); at != text.npos; at = text.find(kBegin, at + 1)) {
    ++count;
  }
  return count == header.entries.size();
}

}  // namespace hearth::detail
