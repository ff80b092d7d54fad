#include "weight_formats.hpp"

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/json_fault.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

namespace hearth::detail {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kWeightMap = "weight_map";
// Deeper values are dropped by the parser, so that a hostile index uses no stack.
constexpr int kMostIndexDepth = 8;

[[noreturn]] void refuse_index(const fs::path& path, const std::string& text, SourceLoc loc) {
  refuse_file(ErrorCode::bad_format, path, text, loc);
}

// Name of a tensor → name of its file, in the order of the files' names.
using WeightMap = std::map<std::string, std::map<std::string, bool>>;

Json parse_index(const fs::path& path, SourceLoc loc) {
  Result<std::vector<std::byte>> bytes = read_file(path);
  if (!bytes.has_value()) {
    throw_file_error(bytes.error(), loc);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.value().data()),
                              bytes.value().size());
  try {
    return Json::parse(text, [](int depth, Json::parse_event_t /*event*/, Json& /*value*/) {
      return depth <= kMostIndexDepth;
    });
  } catch (const Json::exception& error) {
    refuse_index(path, fmt::format("the index is not JSON: {}", json_fault(error)), loc);
  }
}

// Whether a name stays in the folder that it is relative to.
bool is_inside(const fs::path& name) {
  return !name.empty() && name.is_relative() &&
         std::ranges::none_of(name, [](const fs::path& step) { return step == ".."; });
}

WeightMap files_of(const Json& index, const fs::path& path, SourceLoc loc) {
  if (!index.is_object() || !index.contains(kWeightMap) || !index[kWeightMap].is_object()) {
    refuse_index(
        path,
        fmt::format("no index of weights: it is not a JSON object with an object '{}'", kWeightMap),
        loc);
  }
  WeightMap files;
  for (const auto& [tensor, file] : index[kWeightMap].items()) {
    if (!file.is_string()) {
      refuse_index(path, fmt::format("the index names no file for tensor '{}'", tensor), loc);
    }
    const std::string name = file.get<std::string>();
    if (!is_inside(name)) {
      refuse_index(
          path,
          fmt::format("the index names the file '{}' for tensor '{}', which is not inside its "
                      "folder",
                      name,
                      tensor),
          loc);
    }
    files[name].emplace(tensor, false);
  }
  return files;
}

Metadata metadata_of(const Json& index) {
  Metadata metadata;
  if (index.contains("metadata") && index["metadata"].is_object()) {
    for (const auto& [key, value] : index["metadata"].items()) {
      metadata.emplace(key, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  return metadata;
}

// Adds the tensors that the index assigns to this file.
void add_file(WeightFileContent& whole,
              const std::string& name,
              std::map<std::string, bool>& tensors,
              SourceLoc loc) {
  const fs::path file = whole.path.parent_path() / name;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    refuse_index(whole.path,
                 fmt::format("its file '{}' is missing, which holds '{}' and {} more",
                             name,
                             tensors.begin()->first,
                             tensors.size() - 1),
                 loc);
  }
  WeightFileContent one = read_one_file(file, loc);
  const auto first_part = static_cast<std::uint32_t>(whole.parts.size());
  for (FilePart& part : one.parts) {
    whole.parts.push_back(std::move(part));
  }
  for (WeightFile::Entry& entry : one.entries) {
    if (const auto wanted = tensors.find(entry.name); wanted != tensors.end()) {
      wanted->second = true;
      entry.part += first_part;
      whole.entries.push_back(std::move(entry));
    }
  }
  for (const auto& [tensor, is_found] : tensors) {
    if (!is_found) {
      refuse_index(whole.path,
                   fmt::format("tensor '{}' is not in '{}', where the index has it", tensor, name),
                   loc);
    }
  }
}

}  // namespace

WeightFileContent read_weight_index(const fs::path& path, SourceLoc loc) {
  const Json index = parse_index(path, loc);
  WeightMap files = files_of(index, path, loc);
  WeightFileContent whole;
  whole.path = path;
  whole.metadata = metadata_of(index);
  for (auto& [name, tensors] : files) {
    add_file(whole, name, tensors, loc);
  }
  return whole;
}

}  // namespace hearth::detail
