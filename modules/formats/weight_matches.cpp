#include <hearth/modules/safetensors.hpp>

#include <hearth/runtime/model_tensor.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <utility>

namespace hearth {
namespace {

struct Rename {
  std::regex pattern;
  std::string replacement;
};

std::vector<Rename> compiled(const std::vector<WeightRename>& renames, SourceLoc loc) {
  std::vector<Rename> all;
  for (const WeightRename& rename : renames) {
    try {
      all.push_back({std::regex(rename.pattern), rename.replacement});
    } catch (const std::regex_error& error) {
      throw_error(Error{.code = ErrorCode::invalid_argument,
                        .text = fmt::format("load_weights: the pattern '{}' is no regular "
                                            "expression: {}",
                                            rename.pattern,
                                            error.what()),
                        .location = loc});
    }
  }
  return all;
}

// Whether an older version wrote state or statistics in 16 bits, which widen without loss.
bool is_older_form(DType dtype, const Tensor& wanted) {
  return detail::TensorAccess::has_mark(wanted, detail::MemberMark::wide) &&
         dtype != wanted.dtype() && accumulation_dtype(dtype) == wanted.dtype();
}

bool fits(const SafetensorsFile::Entry& entry, const Tensor& wanted, bool may_cast) {
  const bool has_type = entry.dtype == wanted.dtype() || is_older_form(entry.dtype, wanted) ||
                        (may_cast && is_float(entry.dtype) && is_float(wanted.dtype()));
  return has_type && entry.shape == wanted.shape();
}

std::string describe_entry(const SafetensorsFile::Entry& entry) {
  return entry.unsupported.empty() ? describe(entry.dtype, entry.shape) : entry.unsupported;
}

[[noreturn]] void refuse_weights(const std::filesystem::path& file,
                                 const std::string& text,
                                 SourceLoc loc) {
  throw FileError(Error{.code = ErrorCode::bad_format,
                        .text = fmt::format("file {}: {}", file.string(), text),
                        .location = loc});
}

using Entries = std::map<std::string, const SafetensorsFile::Entry*>;

// Indexes the entries by their new names.
Entries renamed(const SafetensorsFile& file, const LoadWeightsOptions& options, SourceLoc loc) {
  const std::vector<Rename> renames = compiled(options.renames, loc);
  Entries by_name;
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    std::string name = entry.name;
    for (const Rename& rename : renames) {
      name = std::regex_replace(name, rename.pattern, rename.replacement);
    }
    const auto [at, is_new] = by_name.try_emplace(name, &entry);
    if (!is_new) {
      refuse_weights(
          file.path(),
          fmt::format(
              "tensors '{}' and '{}' are both renamed to '{}'", at->second->name, entry.name, name),
          loc);
    }
  }
  return by_name;
}

}  // namespace

WeightMatches SafetensorsFile::match(std::span<const NamedTensor> expected,
                                     const LoadWeightsOptions& options,
                                     SourceLoc loc) const {
  require_there(loc);
  const auto refuse = [&](const std::string& text) { refuse_weights(path_, text, loc); };
  Entries by_name = renamed(*this, options, loc);
  WeightMatches matches;
  for (const NamedTensor& named : expected) {
    detail::require_tensor("SafetensorsFile::match", named.name, named.tensor, loc);
    const std::string wanted = describe(named.tensor.dtype(), named.tensor.shape());
    const auto found = by_name.find(named.name);
    if (found == by_name.end()) {
      if (!options.allow_missing) {
        refuse(fmt::format("tensor '{}' is missing: expected {}", named.name, wanted));
      }
      matches.missing.push_back(named.name);
      continue;
    }
    const Entry& entry = *found->second;
    if (!entry.unsupported.empty()) {
      refuse(fmt::format(
          "tensor '{}': {}; the model expects {}", entry.name, entry.unsupported, wanted));
    }
    if (!fits(entry, named.tensor, options.cast)) {
      refuse(fmt::format("tensor '{}' is {}: expected {}{}",
                         entry.name,
                         describe(entry.dtype, entry.shape),
                         wanted,
                         entry.name == named.name ? "" : " of '" + named.name + "'"));
    }
    matches.names.emplace(named.name, entry.name);
    by_name.erase(found);
  }
  for (const Entry& entry : entries_) {  // in file order
    if (std::ranges::none_of(by_name, [&](const auto& left) { return left.second == &entry; })) {
      continue;
    }
    if (!options.allow_unused) {
      refuse(fmt::format("tensor '{}' ({}) belongs to no parameter of the model",
                         entry.name,
                         describe_entry(entry)));
    }
    matches.unused.push_back(entry.name);
  }
  if (matches.names.empty() && !expected.empty()) {
    refuse(
        fmt::format("none of its {} tensors is one of the model's: it begins with '{}', the "
                    "model with '{}'",
                    entries_.size(),
                    entries_.empty() ? "" : entries_.front().name,
                    expected.front().name));
  }
  return matches;
}

}  // namespace hearth
