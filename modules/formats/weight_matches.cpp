#include <hearth/modules/weight_file.hpp>

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

bool fits(const WeightFile::Entry& entry, const Tensor& wanted, bool may_cast) {
  const bool has_type = entry.dtype == wanted.dtype() || is_older_form(entry.dtype, wanted) ||
                        (may_cast && is_float(entry.dtype) && is_float(wanted.dtype()));
  return has_type && entry.shape == wanted.shape();
}

std::string describe_entry(const WeightFile::Entry& entry) {
  return entry.unsupported.empty() ? describe(entry.dtype, entry.shape) : entry.unsupported;
}

using Entries = std::map<std::string, const WeightFile::Entry*>;
using Chosen = std::vector<std::pair<std::string, const WeightFile::Entry*>>;

// Cuts the begin `part` and a dot off the names; other entries take no part.
Chosen part_of(const Chosen& entries, const std::string& part) {
  Chosen chosen;
  const std::string begin = part + ".";
  for (const auto& [name, entry] : entries) {
    if (name.starts_with(begin)) {
      chosen.emplace_back(name.substr(begin.size()), entry);
    }
  }
  return chosen;
}

// The begins of names up to their first dot, each once: "model, optimizer".
std::string parts_of(const Chosen& entries) {
  std::vector<std::string> parts;
  for (const auto& [name, entry] : entries) {
    const std::string part = name.substr(0, name.find('.'));
    if (std::ranges::find(parts, part) == parts.end()) {
      parts.push_back(part);
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Entries that take part, under their names before the renames. PyTorch's DataParallel puts
// "module." before every name, which is cut off unless the model has such names too.
Chosen chosen_of(const WeightFile& file,
                 std::span<const NamedTensor> expected,
                 const LoadWeightsOptions& options,
                 SourceLoc loc) {
  Chosen all;
  for (const WeightFile::Entry& entry : file.entries()) {
    all.emplace_back(entry.name, &entry);
  }
  const std::string& part = options.select.empty() ? file.main_part() : options.select;
  Chosen chosen = part.empty() ? all : part_of(all, part);
  if (chosen.empty() && !options.select.empty()) {
    detail::refuse_file(ErrorCode::bad_format,
                        file.path(),
                        fmt::format("no tensor's name begins with the selected '{}.'; its parts "
                                    "are: {}",
                                    part,
                                    parts_of(all)),
                        loc);
  }
  constexpr std::string_view kWrapper = "module.";
  const bool is_wrapped = !chosen.empty() && std::ranges::all_of(chosen, [&](const auto& each) {
    return each.first.starts_with(kWrapper);
  });
  const bool has_wrapper = std::ranges::any_of(
      expected, [&](const NamedTensor& named) { return named.name.starts_with(kWrapper); });
  return is_wrapped && !has_wrapper ? part_of(chosen, "module") : chosen;
}

// Indexes the entries by their new names.
Entries renamed(const WeightFile& file,
                const Chosen& chosen,
                const LoadWeightsOptions& options,
                SourceLoc loc) {
  const std::vector<Rename> renames = compiled(options.renames, loc);
  Entries by_name;
  for (const auto& [old_name, entry] : chosen) {
    std::string name = old_name;
    for (const Rename& rename : renames) {
      name = std::regex_replace(name, rename.pattern, rename.replacement);
    }
    const auto [at, is_new] = by_name.try_emplace(name, entry);
    if (!is_new) {
      detail::refuse_file(ErrorCode::bad_format,
                          file.path(),
                          fmt::format("tensors '{}' and '{}' are both renamed to '{}'",
                                      at->second->name,
                                      entry->name,
                                      name),
                          loc);
    }
  }
  return by_name;
}

// Whether both entries are the same bytes, as tied weights of PyTorch are.
bool is_same_bytes(const WeightFile::Entry& a, const WeightFile::Entry& b) {
  return a.size_bytes > 0 && a.part == b.part && a.offset_bytes == b.offset_bytes &&
         a.size_bytes == b.size_bytes && a.dtype == b.dtype && a.shape == b.shape &&
         a.strides == b.strides;
}

// Checks that the tensor of the file fits the model's.
void require_fit(const WeightFile& file,
                 const WeightFile::Entry& entry,
                 const NamedTensor& named,
                 const LoadWeightsOptions& options,
                 SourceLoc loc) {
  const std::string wanted = describe(named.tensor.dtype(), named.tensor.shape());
  if (!entry.unsupported.empty()) {
    detail::refuse_file(
        ErrorCode::bad_format,
        file.path(),
        fmt::format("tensor '{}': {}; the model expects {}", entry.name, entry.unsupported, wanted),
        loc);
  }
  if (!fits(entry, named.tensor, options.cast)) {
    detail::refuse_file(ErrorCode::bad_format,
                        file.path(),
                        fmt::format("tensor '{}' is {}: expected {}{}",
                                    entry.name,
                                    describe(entry.dtype, entry.shape),
                                    wanted,
                                    entry.name == named.name ? "" : " of '" + named.name + "'"),
                        loc);
  }
}

// Notes the entries that no tensor of the model took, in file order.
void record_unused(const WeightFile& file,
                   const Entries& left,
                   const LoadWeightsOptions& options,
                   WeightMatches& matches,
                   SourceLoc loc) {
  std::vector<const WeightFile::Entry*> taken;
  for (const auto& [name, in_file] : matches.names) {
    taken.push_back(&file.at(in_file, loc));
  }
  for (const WeightFile::Entry& entry : file.entries()) {
    const bool is_left =
        std::ranges::any_of(left, [&](const auto& each) { return each.second == &entry; });
    if (!is_left || std::ranges::any_of(taken, [&](const WeightFile::Entry* other) {
          return is_same_bytes(*other, entry);
        })) {
      continue;
    }
    if (!options.allow_unused) {
      detail::refuse_file(ErrorCode::bad_format,
                          file.path(),
                          fmt::format("tensor '{}' ({}) belongs to no parameter of the model",
                                      entry.name,
                                      describe_entry(entry)),
                          loc);
    }
    matches.unused.push_back(entry.name);
    if (!entry.unsupported.empty()) {
      matches.skipped.push_back(fmt::format("{}: {}", entry.name, entry.unsupported));
    }
  }
}

}  // namespace

WeightMatches WeightFile::match(std::span<const NamedTensor> expected,
                                const LoadWeightsOptions& options,
                                SourceLoc loc) const {
  require_there(loc);
  const auto refuse = [&](const std::string& text) {
    detail::refuse_file(ErrorCode::bad_format, path_, text, loc);
  };
  Entries by_name = renamed(*this, chosen_of(*this, expected, options, loc), options, loc);
  WeightMatches matches;
  for (const NamedTensor& named : expected) {
    detail::require_tensor("WeightFile::match", named.name, named.tensor, loc);
    const auto found = by_name.find(named.name);
    if (found == by_name.end()) {
      if (!options.allow_missing) {
        refuse(fmt::format("tensor '{}' is missing: expected {}",
                           named.name,
                           describe(named.tensor.dtype(), named.tensor.shape())));
      }
      matches.missing.push_back(named.name);
      continue;
    }
    require_fit(*this, *found->second, named, options, loc);
    matches.names.emplace(named.name, found->second->name);
    by_name.erase(found);
  }
  record_unused(*this, by_name, options, matches, loc);
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
