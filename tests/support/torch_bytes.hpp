// Bytes of files as torch.save() writes them, made without PyTorch: pickles, zip archives, and the
// older form. For tests and the seeds of fuzzers. Stateless. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::testing {

/// A number as its bytes, little-endian.
template <class T>
[[nodiscard]] std::string number_bytes(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
template <class T>
[[nodiscard]] std::string values_bytes(const std::vector<T>& values) {
  std::string bytes;
  for (const T value : values) {
    bytes += number_bytes(value);
  }
  return bytes;
}

// ---- opcodes ----

[[nodiscard]] inline std::string pickled_text(std::string_view text) {
  return "X" + number_bytes(static_cast<std::uint32_t>(text.size())) + std::string(text);
}
[[nodiscard]] inline std::string pickled_number(std::int32_t number) {
  return "J" + number_bytes(number);
}
[[nodiscard]] inline std::string pickled_numbers(const std::vector<std::int32_t>& numbers) {
  std::string ops = "(";
  for (const std::int32_t number : numbers) {
    ops += pickled_number(number);
  }
  return ops + "t";
}
/// A dict of names and pickled values.
[[nodiscard]] inline std::string pickled_dict(
    const std::vector<std::pair<std::string, std::string>>& items) {
  std::string ops = "}(";
  for (const auto& [name, value] : items) {
    ops += pickled_text(name) + value;
  }
  return ops + "u";
}
/// A whole pickle.
[[nodiscard]] inline std::string pickle_of(std::string_view ops) {
  return "\x80\x02" + std::string(ops) + ".";
}

struct TorchView {
  std::string type = "FloatStorage";
  std::string key = "0";
  std::int32_t storage_count = 0;  ///< Elements of the storage.
  std::int32_t offset = 0;
  std::vector<std::int32_t> sizes = {};
  std::vector<std::int32_t> strides = {};
  bool is_legacy = false;  ///< Whether the storage's identifier ends with a view of None.
};
/// A tensor, as torch._utils._rebuild_tensor_v2 makes it.
[[nodiscard]] inline std::string pickled_tensor(const TorchView& view) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled_text("storage") + "ctorch\n" +
         view.type + "\n" + pickled_text(view.key) + pickled_text("cpu") +
         pickled_number(view.storage_count) + (view.is_legacy ? "N" : "") + "tQ" +
         pickled_number(view.offset) + pickled_numbers(view.sizes) + pickled_numbers(view.strides) +
         "\x89" + "ccollections\nOrderedDict\n)RtR";
}

// ---- archives ----

/// A zip archive of stored members.
[[nodiscard]] inline std::string zip_of(
    const std::vector<std::pair<std::string, std::string>>& members, std::uint16_t method = 0) {
  std::string local;
  std::string directory;
  for (const auto& [name, content] : members) {
    const auto size = static_cast<std::uint32_t>(content.size());
    const std::string facts =
        number_bytes(std::uint16_t{20}) + number_bytes(std::uint16_t{0}) + number_bytes(method) +
        std::string(8, '\0') + number_bytes(size) + number_bytes(size) +
        number_bytes(static_cast<std::uint16_t>(name.size())) + number_bytes(std::uint16_t{0});
    directory += std::string("PK\x01\x02", 4) + number_bytes(std::uint16_t{20}) + facts +
                 std::string(10, '\0') + number_bytes(static_cast<std::uint32_t>(local.size())) +
                 name;
    local += std::string("PK\x03\x04", 4) + facts + name + content;
  }
  const auto count = static_cast<std::uint16_t>(members.size());
  return local + directory + std::string("PK\x05\x06", 4) + std::string(4, '\0') +
         number_bytes(count) + number_bytes(count) +
         number_bytes(static_cast<std::uint32_t>(directory.size())) +
         number_bytes(static_cast<std::uint32_t>(local.size())) + std::string(2, '\0');
}
/// A file of torch.save() since PyTorch 1.6: its root, and the bytes of each storage by its key.
[[nodiscard]] inline std::string torch_zip(
    std::string_view root, const std::vector<std::pair<std::string, std::string>>& storages) {
  std::vector<std::pair<std::string, std::string>> members{{"archive/data.pkl", pickle_of(root)},
                                                           {"archive/byteorder", "little"}};
  for (const auto& [key, bytes] : storages) {
    members.emplace_back("archive/data/" + key, bytes);
  }
  return zip_of(members);
}
/// A file of torch.save() before PyTorch 1.6.
[[nodiscard]] inline std::string torch_legacy(
    std::string_view root,
    const std::vector<std::pair<std::string, std::string>>& storages,
    std::uint64_t element_bytes = 4) {
  const std::string magic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12);
  std::string keys = "](";
  std::string bytes;
  for (const auto& [key, content] : storages) {
    keys += pickled_text(key);
    bytes += number_bytes(content.size() / element_bytes) + content;
  }
  return pickle_of(magic) + pickle_of(pickled_number(1001)) +
         pickle_of(pickled_dict({{"little_endian", "\x88"}})) + pickle_of(root) +
         pickle_of(keys + "e") + bytes;
}

}  // namespace hearth::testing
