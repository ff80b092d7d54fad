#include "model_file.hpp"

#include <hearth/modules/weight_file.hpp>
#include <hearth/runtime/base/file_reader.hpp>
#include <hearth/runtime/base/host_memory.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "onnx_parser.hpp"

namespace hearth::onnx {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostFileBytes = std::numeric_limits<std::int32_t>::max();

using Bytes = std::vector<std::byte>;

// The number of elements; empty for an overflow or a negative size.
std::optional<std::int64_t> count_of(const std::vector<std::int64_t>& dims) {
  std::int64_t count = 1;
  for (const std::int64_t size : dims) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) {
      return {};
    }
  }
  return count;
}

std::int64_t stored_bytes(OnnxType type, std::int64_t count) {
  const int bits = stored_bits(type);
  return bits < 8 ? (count * bits + 7) / 8 : count * (bits / 8);
}

// Number of elements in the typed fields. Two f16 never share an integer; u4 and i4 do.
std::int64_t typed_count(const TensorProto& tensor) {
  const OnnxType type = tensor.type();
  if (type == OnnxType::string) {
    return static_cast<std::int64_t>(tensor.strings.size());
  }
  if (type == OnnxType::f32) {
    return static_cast<std::int64_t>(tensor.reals.size());
  }
  if (type == OnnxType::f64) {
    return static_cast<std::int64_t>(tensor.doubles.size());
  }
  return static_cast<std::int64_t>(tensor.integers.size()) * (stored_bits(type) < 8 ? 2 : 1);
}

// Whether a name stays in the folder that it is relative to.
bool is_inside(const fs::path& name) {
  return !name.empty() && name.is_relative() &&
         std::ranges::none_of(name, [](const fs::path& step) { return step == ".."; });
}

struct Place {
  fs::path file;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::string problem = {};
};

// Finds the external bytes of a tensor, whose type and shape were checked.
Place place_of(const TensorProto& tensor, const fs::path& model) {
  const ExternalData& external = *tensor.external;
  Place place;
  const fs::path folder = model.has_parent_path() ? model.parent_path() : fs::path(".");
  const auto size = static_cast<std::uint64_t>(stored_bytes(tensor.type(), *count_of(tensor.dims)));
  place.offset_bytes = static_cast<std::uint64_t>(external.offset_bytes);
  place.size_bytes = size;
  if (!is_inside(external.location)) {
    place.problem =
        fmt::format("its external file '{}' is not inside the model's folder", external.location);
    return place;
  }
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  place.file = fs::canonical(folder / external.location, error);
  if (error) {
    place.problem = fmt::format("its external file '{}' does not exist", external.location);
    return place;
  }
  const auto [end, rest] = std::ranges::mismatch(root, place.file);
  if (end != root.end()) {
    place.problem = fmt::format("its external file '{}' is a link out of the model's folder",
                                external.location);
    return place;
  }
  const std::uint64_t has = fs::file_size(place.file, error);
  if (error || !fs::is_regular_file(place.file, error)) {
    place.problem = fmt::format("its external file '{}' is no regular file", external.location);
  } else if (place.offset_bytes > has || size > has - place.offset_bytes) {
    place.problem = fmt::format("its external file '{}' has {} bytes, the tensor needs {} from {}",
                                external.location,
                                has,
                                size,
                                place.offset_bytes);
  } else if (external.size_bytes && static_cast<std::uint64_t>(*external.size_bytes) != size) {
    place.problem = fmt::format(
        "the file gives it {} external bytes, its shape needs {}", *external.size_bytes, size);
  }
  return place;
}

template <class From, class To>
Bytes converted(const std::vector<From>& values) {
  Bytes bytes(values.size() * sizeof(To));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const To value = static_cast<To>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(To), &value, sizeof(To));
  }
  return bytes;
}

// The bytes of integers of the typed fields, as a file's raw bytes would be.
Bytes integer_bytes(const TensorProto& tensor) {
  const std::vector<std::int64_t>& values = tensor.integers;
  switch (stored_bits(tensor.type())) {
    case 16:
      return converted<std::int64_t, std::uint16_t>(values);
    case 32:
      return converted<std::int64_t, std::uint32_t>(values);
    case 64:
      return values.empty() ? Bytes{} : converted<std::int64_t, std::int64_t>(values);
    default:
      return converted<std::int64_t, std::uint8_t>(values);
  }
}

template <class From, class To>
Bytes widened(std::span<const std::byte> bytes) {
  Bytes wide(bytes.size() / sizeof(From) * sizeof(To));
  for (std::size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    From value{};
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    const auto held = static_cast<To>(value);
    std::memcpy(wide.data() + i * sizeof(To), &held, sizeof(To));
  }
  return wide;
}

// Two values a byte, the first one in the low bits.
Bytes unpacked(std::span<const std::byte> bytes, std::size_t count, bool is_signed) {
  Bytes wide(count);
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned both = std::to_integer<unsigned>(bytes[i / 2]);
    const unsigned half = i % 2 == 0 ? both & 15U : both >> 4U;
    wide[i] = static_cast<std::byte>(is_signed && half >= 8 ? half + 240 : half);
  }
  return wide;
}

// Elements of types that the device holds in wider ones.
Bytes held(OnnxType type, std::span<const std::byte> bytes, std::size_t count) {
  switch (type) {
    case OnnxType::u16:
      return widened<std::uint16_t, std::int32_t>(bytes);
    case OnnxType::i16:
      return widened<std::int16_t, std::int32_t>(bytes);
    case OnnxType::u32:
      return widened<std::uint32_t, std::int64_t>(bytes);
    case OnnxType::u4:
      return unpacked(bytes, count, false);
    case OnnxType::i4:
      return unpacked(bytes, count, true);
    default:
      return {bytes.begin(), bytes.end()};
  }
}

// Refuses values that the held type has not.
std::string value_problem(OnnxType type, std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (type == OnnxType::boolean && std::to_integer<unsigned>(bytes[i]) > 1) {
      return fmt::format("element {} is {}, no bool", i, std::to_integer<unsigned>(bytes[i]));
    }
    if (type == OnnxType::u64 && i % 8 == 7 && std::to_integer<unsigned>(bytes[i]) > 127) {
      return fmt::format("element {} is 2^63 or more, which i64 cannot hold", i / 8);
    }
  }
  return {};
}

[[noreturn]] void refuse(const fs::path& path,
                         const TensorProto& tensor,
                         std::string_view why,
                         SourceLoc loc) {
  detail::refuse_file(
      ErrorCode::bad_format, path, fmt::format("tensor '{}': {}", tensor.name, why), loc);
}

}  // namespace

ModelFile ModelFile::parse(std::vector<std::byte> bytes, const fs::path& path, SourceLoc loc) {
  ModelFile file;
  file.path_ = path;
  file.bytes_ = std::make_shared<const Bytes>(std::move(bytes));
  if (file.bytes_->size() > kMostFileBytes) {
    detail::refuse_file(ErrorCode::bad_format,
                        path,
                        fmt::format("{} bytes; a protobuf message has less than 2 GiB, and larger "
                                    "models keep their weights in other files",
                                    file.bytes_->size()),
                        loc);
  }
  try {
    file.model_ = std::make_shared<const ModelProto>(parse_model(*file.bytes_));
  } catch (const FileError& error) {
    detail::refuse_file(ErrorCode::bad_format, path, error.error().text, loc);
  }
  return file;
}

ModelFile ModelFile::of_tensors(std::vector<std::byte> bytes, const fs::path& path) {
  ModelFile file;
  file.path_ = path;
  file.bytes_ = std::make_shared<const Bytes>(std::move(bytes));
  file.model_ = std::make_shared<const ModelProto>();
  return file;
}

ModelFile ModelFile::read(const fs::path& path, SourceLoc loc) {
  Result<FileReader> reader = FileReader::open(path);
  if (!reader.has_value()) {
    detail::throw_file_error(reader.error(), loc);
  }
  Bytes bytes;
  const std::uint64_t size = reader.value().size_bytes();
  if (size > kMostFileBytes) {
    detail::refuse_file(ErrorCode::bad_format,
                        path,
                        fmt::format("{} bytes; an ONNX file has less than 2 GiB", size),
                        loc);
  }
  resize_on_host(bytes, static_cast<std::size_t>(size), "load_onnx", loc).value();
  const Status status = reader.value().read_at(0, bytes);
  if (!status.has_value()) {
    detail::throw_file_error(status.error(), loc);
  }
  return parse(std::move(bytes), path, loc);
}

std::string ModelFile::text(ByteRange range) const {
  const std::span<const std::byte> part = std::span(*bytes_).subspan(range.begin, range.size);
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

std::string ModelFile::problem(const TensorProto& tensor) const {
  const OnnxType type = tensor.type();
  if (type != OnnxType::string && !device_type(type)) {
    return type == OnnxType::undefined
               ? fmt::format("element type {} is unknown", tensor.type_number)
               : fmt::format("element type {} is not supported", name(type));
  }
  const std::optional<std::int64_t> count = count_of(tensor.dims);
  const bool fits =
      count && *count < (std::int64_t{1} << 48) && make_shape(tensor.dims).has_value();
  if (!fits) {
    return fmt::format(
        "shape [{}]: a tensor has at most {} axes, sizes of 0 or more, and fewer than 2^48 "
        "elements",
        fmt::join(tensor.dims, ", "),
        kMaxRank);
  }
  if (tensor.external) {
    return type == OnnxType::string ? "strings cannot lie in another file"
                                    : place_of(tensor, path_).problem;
  }
  if (tensor.raw && type != OnnxType::string) {
    const std::int64_t wanted = stored_bytes(type, *count);
    return static_cast<std::int64_t>(tensor.raw->size) == wanted
               ? std::string{}
               : fmt::format("it has {} bytes, {}[{}] needs {}",
                             tensor.raw->size,
                             name(type),
                             fmt::join(tensor.dims, ", "),
                             wanted);
  }
  const std::int64_t has = typed_count(tensor);
  const bool is_enough = stored_bits(type) < 8 && type != OnnxType::string
                             ? has == *count || has == *count + 1
                             : has == *count;
  return is_enough ? std::string{}
                   : fmt::format("it has {} elements, its shape [{}] needs {}",
                                 has,
                                 fmt::join(tensor.dims, ", "),
                                 *count);
}

TensorBytes ModelFile::external(const TensorProto& tensor, SourceLoc loc) const {
  const Place place = place_of(tensor, path_);
  Result<FileReader> reader = FileReader::open(place.file);
  if (!reader.has_value()) {
    detail::throw_file_error(reader.error(), loc);
  }
  auto bytes = std::make_shared<Bytes>();
  resize_on_host(*bytes, static_cast<std::size_t>(place.size_bytes), "load_onnx", loc).value();
  const Status status = reader.value().read_at(place.offset_bytes, *bytes);
  if (!status.has_value()) {
    detail::throw_file_error(status.error(), loc);
  }
  return {.bytes = *bytes, .owner = bytes};
}

TensorBytes ModelFile::tensor(const TensorProto& tensor, SourceLoc loc) const {
  if (const std::string why = problem(tensor); !why.empty()) {
    refuse(path_, tensor, why, loc);
  }
  const OnnxType type = tensor.type();
  TensorBytes result;
  const auto own = [&result](Bytes bytes) {
    auto kept = std::make_shared<const Bytes>(std::move(bytes));
    result.bytes = *kept;
    result.owner = std::move(kept);
  };
  if (tensor.external) {
    result = external(tensor, loc);
  } else if (tensor.raw) {
    result.bytes = std::span(*bytes_).subspan(tensor.raw->begin, tensor.raw->size);
    result.owner = bytes_;
  } else if (type == OnnxType::f32) {
    own(converted<float, float>(tensor.reals));
  } else if (type == OnnxType::f64) {
    own(converted<double, double>(tensor.doubles));
  } else {
    own(integer_bytes(tensor));
  }
  if (const std::string why = value_problem(type, result.bytes); !why.empty()) {
    refuse(path_, tensor, why, loc);
  }
  if (is_widened(type) && type != OnnxType::u64) {
    own(held(type, result.bytes, static_cast<std::size_t>(*count_of(tensor.dims))));
  }
  result.dtype = *device_type(type);
  result.shape = Shape(tensor.dims);
  return result;
}

std::vector<std::string> ModelFile::strings(const TensorProto& tensor, SourceLoc loc) const {
  if (const std::string why = problem(tensor); !why.empty()) {
    refuse(path_, tensor, why, loc);
  }
  std::vector<std::string> all;
  for (const ByteRange& range : tensor.strings) {
    all.push_back(text(range));
  }
  return all;
}

}  // namespace hearth::onnx
