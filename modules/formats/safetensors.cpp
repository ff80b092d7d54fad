#include <hearth/modules/safetensors.hpp>

#include "safetensors_header.hpp"

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/file_reader.hpp>
#include <hearth/runtime/base/host_memory.hpp>
#include <hearth/runtime/base/log.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>
#include <vector>

namespace hearth {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::size_t kLengthBytes = 8;

using detail::refuse_file;

/// Checksum of the data and of the header, without the checksum's own entry.
std::string checksum_of(const detail::SafetensorsHeader& header,
                        std::span<const std::span<const std::byte>> data,
                        SourceLoc loc) {
  const std::string text = detail::print_header(header, detail::Spelling::own, loc);
  Xxh3 hash;
  hash.add(std::as_bytes(std::span(text)));
  for (const std::span<const std::byte> piece : data) {
    hash.add(piece);
  }
  return fmt::format("{:016x}", hash.value());
}

/// Checks the checksum of a file of ours, piece by piece.
void require_checksum(const detail::FilePart& part,
                      const std::string& written,
                      const detail::SafetensorsHeader& header,
                      detail::Spelling spelling,
                      SourceLoc loc) {
  constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20U;
  const std::string text = detail::print_header(header, spelling, loc);
  Xxh3 hash;
  hash.add(std::as_bytes(std::span(text)));
  const std::uint64_t end = part.reader.size_bytes();
  std::vector<std::byte> piece(std::min(kPieceBytes, end - part.data_begin_bytes));
  for (std::uint64_t at = part.data_begin_bytes; at < end; at += piece.size()) {
    piece.resize(std::min(kPieceBytes, end - at));
    const Status status = part.reader.read_at(at, piece);
    if (!status.has_value()) {
      detail::throw_file_error(status.error(), loc);
    }
    hash.add(piece);
  }
  const std::string found = fmt::format("{:016x}", hash.value());
  if (written != found) {
    refuse_file(
        ErrorCode::bad_format,
        part.reader.path(),
        fmt::format("damaged: its checksum is {}, but {} is {}", found, kChecksumName, written),
        loc);
  }
}

/// The header's text, of which the file holds `length` bytes.
std::string header_text(const FileReader& reader, std::uint64_t length, SourceLoc loc) {
  Result<std::vector<std::byte>> bytes =
      host_vector<std::byte>(length, "file " + reader.path().string());
  const Status status =
      bytes.has_value() ? reader.read_at(kLengthBytes, bytes.value()) : Status(bytes.status());
  if (!status.has_value()) {
    detail::throw_file_error(status.error(), loc);
  }
  return {reinterpret_cast<const char*>(bytes.value().data()), length};
}

/// The length of the header, once it is possible.
std::uint64_t header_length(const FileReader& reader, SourceLoc loc) {
  const std::uint64_t size = reader.size_bytes();
  if (size < kLengthBytes) {
    refuse_file(ErrorCode::bad_format,
                reader.path(),
                fmt::format("truncated: expected 8 bytes of header length, got {}", size),
                loc);
  }
  std::uint64_t length = 0;
  const Status status = reader.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  if (!status.has_value()) {
    detail::throw_file_error(status.error(), loc);
  }
  if (length > detail::kMaxHeaderBytes || length > size - kLengthBytes) {
    refuse_file(
        ErrorCode::bad_format,
        reader.path(),
        fmt::format("no safetensors file, or a damaged one: the header length at byte 0 is {}, "
                    "but {} bytes follow (at most {} are allowed)",
                    length,
                    size - kLengthBytes,
                    detail::kMaxHeaderBytes),
        loc);
  }
  return length;
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
  header.metadata.emplace(kChecksumName, checksum_of(header, pieces, loc));
  const std::string text = detail::print_header(header, detail::Spelling::own, loc);
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

// Phases: open; length and text of the header; its entries; the checksum of a file of ours.
detail::SafetensorsContent detail::read_safetensors(const std::filesystem::path& path,
                                                    SourceLoc loc) {
  Result<FileReader> opened = FileReader::open(path);
  if (!opened.has_value()) {
    throw_file_error(opened.error(), loc);
  }
  const std::uint64_t length = header_length(opened.value(), loc);
  const std::string text = header_text(opened.value(), length, loc);
  FilePart part{.reader = std::move(opened).value(), .data_begin_bytes = kLengthBytes + length};
  Result<ParsedHeader> parsed =
      parse_header(text, part.reader.size_bytes() - part.data_begin_bytes);
  if (!parsed.has_value()) {
    refuse_file(ErrorCode::bad_format, path, parsed.error().text, loc);
  }
  SafetensorsHeader& header = parsed.value().header;
  const bool is_own = parsed.value().has_own_order;
  const auto checksum = header.metadata.extract(std::string(kChecksumName));
  if (is_own && checksum.empty()) {
    refuse_file(
        ErrorCode::bad_format,
        path,
        fmt::format("damaged: it is spelled as this library does it, and has no {}", kChecksumName),
        loc);
  }
  SafetensorsContent content;
  content.is_verified = !checksum.empty() && (is_own || has_sorted_spelling(text, header));
  if (content.is_verified) {
    require_checksum(
        part, checksum.mapped(), header, is_own ? Spelling::own : Spelling::sorted, loc);
  } else if (!checksum.empty()) {
    content.file.remark =
        fmt::format("; another program wrote it: its {} was not compared", kChecksumName);
  }
  content.file.path = path;
  content.file.parts.push_back(std::move(part));
  content.file.metadata = std::move(header.metadata);
  content.file.entries = std::move(header.entries);
  return content;
}

SafetensorsFile SafetensorsFile::read(const std::filesystem::path& path, SourceLoc loc) {
  detail::SafetensorsContent content = detail::read_safetensors(path, loc);
  return {std::move(content.file), content.is_verified};
}

}  // namespace hearth
