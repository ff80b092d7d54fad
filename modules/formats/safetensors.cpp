#include <hearth/modules/safetensors.hpp>

#include "safetensors_header.hpp"

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace hearth {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::size_t kLengthBytes = 8;

[[noreturn]] void refuse(ErrorCode code,
                         const std::filesystem::path& path,
                         std::string_view text,
                         SourceLoc loc) {
  throw FileError(Error{
      .code = code, .text = fmt::format("file {}: {}", path.string(), text), .location = loc});
}

/// Checksum of the data and of the header, without the checksum's own entry.
std::string checksum_of(const detail::SafetensorsHeader& header,
                        detail::Spelling spelling,
                        std::span<const std::span<const std::byte>> data,
                        SourceLoc loc) {
  const std::string text = detail::print_header(header, spelling, loc);
  std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span(text))};
  pieces.insert(pieces.end(), data.begin(), data.end());
  return fmt::format("{:016x}", xxh3_64(pieces));
}

void require_checksum(const std::filesystem::path& path,
                      const std::string& written,
                      const std::string& found,
                      SourceLoc loc) {
  if (written != found) {
    refuse(ErrorCode::bad_format,
           path,
           fmt::format("damaged: its checksum is {}, but {} is {}", found, kChecksumName, written),
           loc);
  }
}

// Checks the bytes of a bool tensor: another program may have stored other values than 0 and 1.
void require_booleans(const std::filesystem::path& path,
                      const SafetensorsFile::Entry& entry,
                      std::span<const std::byte> bytes,
                      SourceLoc loc) {
  const auto other =
      std::ranges::find_if(bytes, [](std::byte byte) { return byte > std::byte{1}; });
  if (other != bytes.end()) {
    refuse(ErrorCode::bad_format,
           path,
           fmt::format("tensor '{}': byte {} of a BOOL is {}, neither 0 nor 1",
                       entry.name,
                       other - bytes.begin(),
                       std::to_integer<int>(*other)),
           loc);
  }
}

void require_writable(std::span<const NamedTensor> tensors, SourceLoc loc) {
  std::set<std::string_view> names;
  for (const NamedTensor& named : tensors) {
    const char* what = nullptr;
    if (!named.tensor.is_valid()) {
      what = "is empty";
    } else if (named.name == "__metadata__") {
      what = "has the name that the format keeps for itself";
    } else if (!names.insert(named.name).second) {
      what = "stands twice";
    }
    if (what != nullptr) {
      throw_error(Error{.code = ErrorCode::invalid_argument,
                        .text = fmt::format("write_safetensors: tensor '{}' {}", named.name, what),
                        .module_path = named.name,
                        .location = loc});
    }
  }
}

// Checks that the new file can be read again. Later, the defect would be found too late.
void require_readable(const std::string& header, std::size_t data_size_bytes, SourceLoc loc) {
  const Result<detail::ParsedHeader> parsed = detail::parse_header(header, data_size_bytes);
  if (!parsed.has_value()) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = "write_safetensors: the file would not be readable: " + parsed.error().text,
              .location = loc});
  }
}

// Orders tensors for the file: wide dtypes first, so that every tensor is aligned; else as given.
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

void detail::throw_file_error(Error error, SourceLoc loc) {
  error.location = loc;
  if (error.code == ErrorCode::out_of_memory) {
    throw OutOfMemory(std::move(error));
  }
  throw FileError(std::move(error));
}

void detail::require_own_names(const Metadata& metadata, std::string_view op, SourceLoc loc) {
  for (const auto& [name, text] : metadata) {
    if (name.starts_with(kOwnNames)) {
      throw_error(Error{
          .code = ErrorCode::invalid_argument,
          .text = fmt::format("{}: the note '{}' begins with '{}', as names of the library do: "
                              "give it another name",
                              op,
                              name,
                              kOwnNames),
          .op = std::string(op),
          .location = loc});
    }
  }
}

void write_safetensors(const std::filesystem::path& path,
                       std::span<const NamedTensor> tensors,
                       const Metadata& metadata,
                       SourceLoc loc) {
  require_writable(tensors, loc);
  detail::SafetensorsHeader header{.entries = {}, .metadata = metadata};
  std::vector<Pending<std::vector<std::byte>>> readings;
  std::size_t offset = 0;
  for (const NamedTensor* named : file_order(tensors)) {
    const Tensor& tensor = named->tensor;
    const auto size = static_cast<std::size_t>(tensor.element_count() * size_bytes(tensor.dtype()));
    header.entries.push_back({named->name, tensor.dtype(), tensor.shape(), offset, size});
    readings.push_back(tensor.read_bytes(loc));
    offset += size;
  }
  std::vector<std::vector<std::byte>> values;
  values.reserve(readings.size());
  for (Pending<std::vector<std::byte>>& reading : readings) {
    values.push_back(std::move(reading).get());
  }
  const std::vector<std::span<const std::byte>> pieces(values.begin(), values.end());
  header.metadata.erase(std::string(kChecksumName));
  constexpr detail::Spelling kOwn = detail::Spelling::own;
  header.metadata.emplace(kChecksumName, checksum_of(header, kOwn, pieces, loc));
  const std::string text = detail::print_header(header, kOwn, loc);
  require_readable(text, offset, loc);
  const std::uint64_t length = text.size();
  const Status status = write_file_atomically(path, [&](FileWriter& writer) -> Status {
    HEARTH_TRY_STATUS(writer.write(std::as_bytes(std::span(&length, 1))));
    HEARTH_TRY_STATUS(writer.write(std::as_bytes(std::span(text))));
    for (const std::span<const std::byte> bytes : pieces) {
      HEARTH_TRY_STATUS(writer.write(bytes));
    }
    return {};
  });
  if (!status.has_value()) {
    detail::throw_file_error(status.error(), loc);
  }
  if (!tensors.empty()) {
    tensors.front().tensor.device().log().debug([&] {
      return fmt::format(
          "saved {} tensors, {} bytes, in {}", tensors.size(), offset, path.string());
    });
  }
}

SafetensorsFile SafetensorsFile::read(const std::filesystem::path& path, SourceLoc loc) {
  Result<std::vector<std::byte>> content = read_file(path);
  if (!content.has_value()) {
    detail::throw_file_error(content.error(), loc);
  }
  SafetensorsFile file;
  file.path_ = path;
  file.file_ = std::make_shared<const std::vector<std::byte>>(std::move(content).value());
  const std::span<const std::byte> bytes(*file.file_);
  std::uint64_t length = 0;
  if (bytes.size() < kLengthBytes) {
    refuse(ErrorCode::bad_format,
           path,
           fmt::format("truncated: expected 8 bytes of header length, got {}", bytes.size()),
           loc);
  }
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > detail::kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    refuse(ErrorCode::bad_format,
           path,
           fmt::format("no safetensors file, or a damaged one: the header length at byte 0 is {}, "
                       "but {} bytes follow (at most {} are allowed)",
                       length,
                       bytes.size() - kLengthBytes,
                       detail::kMaxHeaderBytes),
           loc);
  }
  file.data_begin_ = kLengthBytes + length;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const auto data = bytes.subspan(file.data_begin_);
  Result<detail::ParsedHeader> parsed = detail::parse_header(text, data.size());
  if (!parsed.has_value()) {
    refuse(ErrorCode::bad_format, path, parsed.error().text, loc);
  }
  detail::SafetensorsHeader& header = parsed.value().header;
  const bool is_own = parsed.value().has_own_order;
  const auto checksum = header.metadata.extract(std::string(kChecksumName));
  if (is_own && checksum.empty()) {
    refuse(
        ErrorCode::bad_format,
        path,
        fmt::format("damaged: it is spelled as this library does it, and has no {}", kChecksumName),
        loc);
  }
  if (!checksum.empty()) {
    const bool is_checked = is_own || detail::has_sorted_spelling(text, header);
    file.checksum_ = is_checked ? Checksum::right : Checksum::foreign;
  }
  if (file.checksum_ == Checksum::right) {
    const auto spelling = is_own ? detail::Spelling::own : detail::Spelling::sorted;
    require_checksum(path, checksum.mapped(), checksum_of(header, spelling, {&data, 1}, loc), loc);
  }
  file.metadata_ = std::move(header.metadata);
  file.entries_ = std::move(header.entries);
  return file;
}

bool SafetensorsFile::contains(std::string_view name) const noexcept {
  return std::ranges::find(entries_, name, &Entry::name) != entries_.end();
}

void SafetensorsFile::require_there(SourceLoc loc) const {
  if (file_ == nullptr) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "SafetensorsFile: it was moved from",
                      .op = "SafetensorsFile",
                      .location = loc});
  }
}

const SafetensorsFile::Entry& SafetensorsFile::at(std::string_view name, SourceLoc loc) const {
  require_there(loc);
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  if (found == entries_.end()) {
    std::vector<std::string_view> names;
    names.reserve(entries_.size());
    for (const Entry& entry : entries_) {
      names.push_back(entry.name);
    }
    refuse(ErrorCode::not_found,
           path_,
           fmt::format("no tensor '{}'; there are: {}", name, fmt::join(names, ", ")),
           loc);
  }
  return *found;
}

std::span<const std::byte> SafetensorsFile::bytes(const Entry& entry) const noexcept {
  return std::span(*file_).subspan(data_begin_ + entry.offset_bytes, entry.size_bytes);
}

Tensor SafetensorsFile::tensor(std::string_view name, const Device& device, SourceLoc loc) const {
  const Entry& entry = at(name, loc);
  if (!entry.unsupported.empty()) {
    refuse(ErrorCode::bad_format,
           path_,
           fmt::format("tensor '{}': {}", entry.name, entry.unsupported),
           loc);
  }
  if (entry.dtype == DType::boolean) {
    require_booleans(path_, entry, bytes(entry), loc);
  }
  const WeightScope weights(device);
  return Tensor::from_owned_bytes(device, bytes(entry), file_, entry.dtype, entry.shape, loc);
}

void SafetensorsFile::require_exactly(std::span<const NamedTensor> expected, SourceLoc loc) const {
  static_cast<void>(match(expected, {}, loc));
}

void SafetensorsFile::record_load(const Device& device) const {
  device.log().debug([&] {
    return fmt::format(
        "loaded {} tensors, {} bytes, from {} to {}{}",
        entries_.size(),
        file_->size() - data_begin_,
        path_.string(),
        device.name(),
        checksum_ == Checksum::foreign
            ? fmt::format("; another program wrote it: its {} was not compared", kChecksumName)
            : std::string());
  });
}

}  // namespace hearth
