#include "torch_tensors.hpp"
#include "weight_formats.hpp"
#include "zip_archive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace hearth::detail {
namespace {

// Where the bytes of a storage lie.
struct StoragePlace {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::string unreadable = {};
};
using Storages = std::map<std::string, StoragePlace>;

template <class... Args>
Error bad_torch(const FileReader& reader, fmt::format_string<Args...> format, Args&&... args) {
  return Error{
      .code = ErrorCode::bad_format,
      .text = fmt::format(
          "file {}: {}", reader.path().string(), fmt::format(format, std::forward<Args>(args)...))};
}

// Index of the last element from the first one on; nothing if it passes every storage.
std::optional<std::uint64_t> reach_of(const TorchTensor& tensor) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56U;
  std::uint64_t reach = 0;
  for (std::size_t axis = 0; axis < tensor.sizes.size(); ++axis) {
    const auto steps = static_cast<std::uint64_t>(tensor.sizes[axis] - 1);
    const auto stride = static_cast<std::uint64_t>(tensor.strides[axis]);
    if (stride != 0 && steps > kMost / stride) {
      return std::nullopt;
    }
    reach += steps * stride;
    if (reach > kMost) {
      return std::nullopt;
    }
  }
  return reach;
}

bool is_row_major(const TorchTensor& tensor) {
  std::int64_t wanted = 1;
  for (std::size_t axis = tensor.sizes.size(); axis-- > 0;) {
    if (tensor.sizes[axis] != 1 && tensor.strides[axis] != wanted) {
      return false;
    }
    wanted *= tensor.sizes[axis];
  }
  return true;
}

// Phases: a tensor that is not supported; the shape; the place of its elements in its storage.
Result<WeightFile::Entry> entry_of(const FileReader& reader,
                                   const TorchTensor& tensor,
                                   const Storages& storages) {
  WeightFile::Entry entry{.name = tensor.name, .shape = {}};
  entry.unsupported = tensor.unsupported;
  if (tensor.storage.empty() || !tensor.type.is_known) {
    return entry;
  }
  const auto storage = storages.find(tensor.storage);
  if (storage == storages.end()) {
    return bad_torch(
        reader, "tensor '{}': its storage '{}' is missing", tensor.name, tensor.storage);
  }
  entry.dtype = tensor.type.dtype;
  entry.stored = tensor.type.stored;
  Result<Shape> shape = make_shape(tensor.sizes);
  if (!shape.has_value() || !storage->second.unreadable.empty()) {
    entry.unsupported = shape.has_value() ? storage->second.unreadable : shape.error().text;
    return entry;
  }
  entry.shape = std::move(shape).value();
  if (entry.shape.element_count() == 0) {
    return entry;
  }
  const std::optional<std::uint64_t> reach = reach_of(tensor);
  const std::uint64_t width = tensor.type.size_bytes;
  const std::uint64_t room = storage->second.size_bytes / width;
  const auto first = static_cast<std::uint64_t>(tensor.offset);
  if (!reach || first >= room || *reach >= room - first) {
    return bad_torch(reader,
                     "tensor '{}': its elements from {} to {} do not lie in the {} of storage '{}'",
                     tensor.name,
                     first,
                     reach ? std::to_string(first + *reach) : "beyond any storage",
                     room,
                     tensor.storage);
  }
  entry.offset_bytes = storage->second.offset_bytes + first * width;
  entry.size_bytes = (*reach + 1) * width;
  if (!is_row_major(tensor)) {
    entry.strides = tensor.strides;
  }
  return entry;
}

Status add_entries(WeightFileContent& content, const TorchTree& tree, const Storages& storages) {
  const FileReader& reader = content.parts.front().reader;
  std::set<std::string> names;
  for (const TorchTensor& tensor : tree.tensors) {
    HEARTH_TRY(WeightFile::Entry entry, entry_of(reader, tensor, storages));
    if (!names.insert(entry.name).second) {
      return bad_torch(reader, "the name '{}' stands twice", entry.name);
    }
    content.entries.push_back(std::move(entry));
  }
  content.metadata = tree.words;
  content.main_part = tree.main_part;
  return {};
}

Result<TorchTree> tree_of(const FileReader& reader, const Pickle& pickle) {
  Result<TorchTree> tree = read_torch_tree(pickle);
  if (!tree.has_value()) {
    return bad_torch(reader, "{}", tree.error().text);
  }
  return tree;
}

// ---- zip ----

// The folder of the archive's members: "NAME/" of "NAME/data.pkl".
Result<std::string> folder_of(const FileReader& reader,
                              const std::map<std::string, ZipMember>& members) {
  constexpr std::string_view kPickle = "data.pkl";
  for (const auto& [name, member] : members) {
    const std::string folder = name.substr(0, name.find('/') + 1);
    if (name == folder + std::string(kPickle)) {
      return folder;
    }
  }
  return bad_torch(reader,
                   "a zip archive, but not of torch.save(): it has no {}; its first member of {} "
                   "is '{}'",
                   kPickle,
                   members.size(),
                   members.empty() ? "" : members.begin()->first);
}

Status require_little_endian(const FileReader& reader, const ZipMember& member) {
  std::string order(std::min<std::uint64_t>(member.size_bytes, 16), '\0');
  HEARTH_TRY_STATUS(reader.read_at(member.offset_bytes, std::as_writable_bytes(std::span(order))));
  if (order != "little") {
    return bad_torch(reader, "its byte order is '{}': only little-endian files are read", order);
  }
  return {};
}

Storages storages_in(const std::map<std::string, ZipMember>& members, const std::string& folder) {
  Storages storages;
  const std::string begin = folder + "data/";
  for (const auto& [name, member] : members) {
    if (name.starts_with(begin)) {
      storages.emplace(name.substr(begin.size()),
                       StoragePlace{member.offset_bytes, member.size_bytes, member.unreadable});
    }
  }
  return storages;
}

// Phases: the directory; byte order; the pickle; its tensors.
Status read_zip(WeightFileContent& content) {
  const FileReader& reader = content.parts.front().reader;
  HEARTH_TRY(const auto members, read_zip_directory(reader));
  HEARTH_TRY(const std::string folder, folder_of(reader, members));
  if (const auto order = members.find(folder + "byteorder"); order != members.end()) {
    HEARTH_TRY_STATUS(require_little_endian(reader, order->second));
  }
  const ZipMember& pickled = members.at(folder + "data.pkl");
  if (!pickled.unreadable.empty()) {
    return bad_torch(reader, "{}", pickled.unreadable);
  }
  PickleStream stream(reader, pickled.offset_bytes, pickled.offset_bytes + pickled.size_bytes);
  HEARTH_TRY(const Pickle pickle, read_pickle(reader, stream));
  HEARTH_TRY(const TorchTree tree, tree_of(reader, pickle));
  return add_entries(content, tree, storages_in(members, folder));
}

// ---- the form before PyTorch 1.6 ----

Status check_system(const FileReader& reader, const Pickle& system) {
  const PickleValue& facts = system[system.root];
  for (std::size_t i = 0; i + 1 < facts.items.size(); i += 2) {
    if (system[facts.items[i]].text == "little_endian" && system[facts.items[i + 1]].integer == 0) {
      return bad_torch(reader, "its byte order is 'big': only little-endian files are read");
    }
  }
  return {};
}

// The storages lie one after the other, each behind its count of elements.
Result<Storages> read_storages(const FileReader& reader,
                               const Pickle& keys,
                               const std::map<std::string, TorchType>& types,
                               std::uint64_t place) {
  Storages storages;
  for (const PickleId id : keys[keys.root].items) {
    const PickleValue& key = keys[id];
    const std::string name =
        key.kind == PickleKind::integer ? std::to_string(key.integer) : key.text;
    const auto type = types.find(name);
    if (type == types.end() || type->second.size_bytes == 0) {
      return bad_torch(reader,
                       "the type of storage '{}' is unknown: {}",
                       name,
                       type == types.end() ? "no tensor has it" : type->second.name);
    }
    std::uint64_t count = 0;
    HEARTH_TRY_STATUS(reader.read_at(place, std::as_writable_bytes(std::span(&count, 1))));
    place += sizeof count;
    const std::uint64_t room = reader.size_bytes() - place;
    if (count > room / type->second.size_bytes) {
      return bad_torch(reader,
                       "storage '{}' has {} elements of {} bytes at byte {}, but {} bytes follow: "
                       "the file is truncated or damaged",
                       name,
                       count,
                       type->second.size_bytes,
                       place,
                       room);
    }
    const std::uint64_t size = count * type->second.size_bytes;
    storages.emplace(name, StoragePlace{.offset_bytes = place, .size_bytes = size});
    place += size;
  }
  return storages;
}

// Phases: the pickles of the mark, the version and the system; the tree; the list of storages;
// their bytes.
Status read_legacy(WeightFileContent& content) {
  const FileReader& reader = content.parts.front().reader;
  PickleStream stream(reader, 0, reader.size_bytes());
  HEARTH_TRY_STATUS(read_pickle(reader, stream).status());
  HEARTH_TRY_STATUS(read_pickle(reader, stream).status());
  HEARTH_TRY(const Pickle system, read_pickle(reader, stream));
  HEARTH_TRY_STATUS(check_system(reader, system));
  HEARTH_TRY(const Pickle pickle, read_pickle(reader, stream));
  HEARTH_TRY(const TorchTree tree, tree_of(reader, pickle));
  HEARTH_TRY(const Pickle keys, read_pickle(reader, stream));
  HEARTH_TRY(const Storages storages,
             read_storages(reader, keys, torch_storages(pickle), stream.place()));
  return add_entries(content, tree, storages);
}

}  // namespace

WeightFileContent read_torch_file(FileReader reader, TorchForm form, SourceLoc loc) {
  WeightFileContent content;
  content.path = reader.path();
  content.parts.push_back({.reader = std::move(reader)});
  const Status status = form == TorchForm::zip ? read_zip(content) : read_legacy(content);
  if (!status.has_value()) {
    throw_file_error(status.error(), loc);
  }
  return content;
}

}  // namespace hearth::detail
