#include <hearth/modules/safetensors.hpp>

#include "safetensors_header.hpp"

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

namespace hearth {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::size_t kLengthBytes = 8;

[[noreturn]] void throw_file_error(ErrorCode code,
                                   const std::filesystem::path& path,
                                   std::string_view text) {
  throw FileError(Error{.code = code, .text = fmt::format("file {}: {}", path.string(), text)});
}

void require_writable(std::span<const NamedTensor> tensors) {
  std::set<std::string_view> names;
  for (const NamedTensor& named : tensors) {
    const char* what = nullptr;
    if (named.tensor.is_empty()) {
      what = "is empty";
    } else if (named.name == "__metadata__") {
      what = "has the name that the format keeps for itself";
    } else if (!names.insert(named.name).second) {
      what = "stands twice";
    }
    if (what != nullptr) {
      throw_error(Error{.code = ErrorCode::invalid_argument,
                        .text = fmt::format("write_safetensors: tensor '{}' {}", named.name, what),
                        .module_path = named.name});
    }
  }
}

// Wide types first, so that every tensor is aligned; names of equal width in the given order.
std::vector<const NamedTensor*> file_order(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> order;
  order.reserve(tensors.size());
  for (const NamedTensor& named : tensors) {
    order.push_back(&named);
  }
  std::ranges::stable_sort(order, std::ranges::greater{}, [](const NamedTensor* named) {
    return size_bytes(named->tensor.dtype());
  });
  return order;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path,
                       std::span<const NamedTensor> tensors,
                       const Metadata& metadata) {
  require_writable(tensors);
  detail::SafetensorsHeader header{.entries = {}, .metadata = metadata};
  std::vector<Pending<std::vector<std::byte>>> readings;
  std::size_t offset = 0;
  for (const NamedTensor* named : file_order(tensors)) {
    const Tensor& tensor = named->tensor;
    const auto size = static_cast<std::size_t>(tensor.element_count() * size_bytes(tensor.dtype()));
    header.entries.push_back({named->name, tensor.dtype(), tensor.shape(), offset, size});
    readings.push_back(tensor.read_bytes());
    offset += size;
  }
  std::vector<std::vector<std::byte>> values;
  values.reserve(readings.size());
  for (Pending<std::vector<std::byte>>& reading : readings) {
    values.push_back(std::move(reading).get());
  }
  const std::string text = detail::print_header(header);
  const std::uint64_t length = text.size();
  const Status status = write_file_atomically(path, [&](FileWriter& writer) -> Status {
    HEARTH_TRY_STATUS(writer.write(std::as_bytes(std::span(&length, 1))));
    HEARTH_TRY_STATUS(writer.write(std::as_bytes(std::span(text))));
    for (const std::vector<std::byte>& bytes : values) {
      HEARTH_TRY_STATUS(writer.write(bytes));
    }
    return {};
  });
  if (!status.has_value()) {
    throw FileError(status.shared_error());
  }
}

SafetensorsFile SafetensorsFile::read(const std::filesystem::path& path) {
  Result<std::vector<std::byte>> content = read_file(path);
  if (!content.has_value()) {
    throw FileError(content.shared_error());
  }
  SafetensorsFile file;
  file.path_ = path;
  file.file_ = std::make_shared<const std::vector<std::byte>>(std::move(content).value());
  const std::span<const std::byte> bytes(*file.file_);
  std::uint64_t length = 0;
  if (bytes.size() < kLengthBytes) {
    throw_file_error(
        ErrorCode::bad_format,
        path,
        fmt::format("truncated: expected 8 bytes of header length, got {}", bytes.size()));
  }
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > detail::kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    throw_file_error(ErrorCode::bad_format,
                     path,
                     fmt::format("the header length at byte 0 is {}, but {} bytes follow (at most "
                                 "{} are allowed)",
                                 length,
                                 bytes.size() - kLengthBytes,
                                 detail::kMaxHeaderBytes));
  }
  file.data_begin_ = kLengthBytes + length;
  const auto text = bytes.subspan(kLengthBytes, length);
  Result<detail::SafetensorsHeader> header = detail::parse_header(
      {reinterpret_cast<const char*>(text.data()), text.size()}, bytes.size() - file.data_begin_);
  if (!header.has_value()) {
    throw_file_error(ErrorCode::bad_format, path, header.error().text);
  }
  file.metadata_ = std::move(header.value().metadata);
  file.entries_ = std::move(header.value().entries);
  return file;
}

bool SafetensorsFile::contains(std::string_view name) const noexcept {
  return std::ranges::find(entries_, name, &Entry::name) != entries_.end();
}

const SafetensorsFile::Entry& SafetensorsFile::at(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  if (found == entries_.end()) {
    std::vector<std::string_view> names;
    names.reserve(entries_.size());
    for (const Entry& entry : entries_) {
      names.push_back(entry.name);
    }
    throw_file_error(ErrorCode::not_found,
                     path_,
                     fmt::format("no tensor '{}'; there are: {}", name, fmt::join(names, ", ")));
  }
  return *found;
}

std::span<const std::byte> SafetensorsFile::bytes(const Entry& entry) const noexcept {
  return std::span(*file_).subspan(data_begin_ + entry.offset_bytes, entry.size_bytes);
}

Tensor SafetensorsFile::tensor(std::string_view name, const Device& device) const {
  const Entry& entry = at(name);
  const WeightScope weights(device);
  return Tensor::from_owned_bytes(device, bytes(entry), file_, entry.dtype, entry.shape);
}

void SafetensorsFile::require_exactly(std::span<const NamedTensor> expected) const {
  std::set<std::string_view> names;
  for (const NamedTensor& named : expected) {
    const std::string wanted = describe(named.tensor.dtype(), named.tensor.shape());
    names.insert(named.name);
    if (!contains(named.name)) {
      throw_file_error(ErrorCode::bad_format,
                       path_,
                       fmt::format("tensor '{}' is missing: expected {}", named.name, wanted));
    }
    const Entry& entry = at(named.name);
    if (entry.dtype != named.tensor.dtype() || entry.shape != named.tensor.shape()) {
      throw_file_error(ErrorCode::bad_format,
                       path_,
                       fmt::format("tensor '{}' is {}: expected {}",
                                   named.name,
                                   describe(entry.dtype, entry.shape),
                                   wanted));
    }
  }
  for (const Entry& entry : entries_) {
    if (!names.contains(entry.name)) {
      throw_file_error(ErrorCode::bad_format,
                       path_,
                       fmt::format("tensor '{}' ({}) belongs to no parameter of the model",
                                   entry.name,
                                   describe(entry.dtype, entry.shape)));
    }
  }
}

}  // namespace hearth
