#include <hearth/parallel/batch_rows.hpp>

#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

namespace hearth::detail {
namespace {

std::size_t bytes_per_row(DType dtype, const Shape& shape) {
  std::int64_t bytes = size_bytes(dtype);
  for (const std::int64_t size : shape.dims().subspan(1)) {
    bytes *= size;
  }
  return static_cast<std::size_t>(bytes);
}

Shape with_rows(Shape shape, std::int64_t rows) {
  shape.set(0, rows);
  return shape;
}

Tensor upload(const Device& device, const RequestInput& input) {
  return Tensor::from_owned_bytes(
      device, input.bytes(), input.owner(), input.dtype(), input.shape());
}

Tensor join_tensors(const Device& device,
                    std::span<const RequestRef> requests,
                    std::size_t input,
                    std::int64_t padded_rows) {
  std::vector<Tensor> parts;
  std::int64_t rows = 0;
  for (const RequestRef& request : requests) {
    parts.push_back(request->inputs[input].tensor().to(device));
    rows += request->rows;
  }
  if (rows < padded_rows) {
    const Tensor first = slice(parts.front(), 0, {.start = 0, .stop = 1});
    parts.insert(parts.end(), static_cast<std::size_t>(padded_rows - rows), first);
  }
  return parts.size() == 1 ? std::move(parts.front()) : concat(parts, 0);
}

double unit_roundoff(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return 0x1p-53;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

template <class T>
std::string float_difference(const HostRows& in_batch, const HostRows& alone) {
  const std::vector<T> got = in_batch.values<T>();
  const std::vector<T> want = alone.values<T>();
  const auto number = [](T value) {
    if constexpr (std::is_same_v<T, double>) {
      return value;
    } else {
      return static_cast<double>(static_cast<float>(value));
    }
  };
  double largest = 0;
  for (const T& value : want) {
    const double size = std::fabs(number(value));
    largest = std::isfinite(size) ? std::max(largest, size) : largest;
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double a = number(got[i]);
    const double b = number(want[i]);
    const bool is_equal = a == b || (std::isnan(a) && std::isnan(b));
    if (!is_equal &&
        !(std::isfinite(b) && std::fabs(a - b) <= row_tolerance(alone.dtype, b, largest))) {
      return fmt::format("element {} is {} in the batch and {} alone", i, a, b);
    }
  }
  return {};
}

}  // namespace

double row_tolerance(DType dtype, double alone, double largest) noexcept {
  const bool is_narrow = dtype == DType::f16 || dtype == DType::bf16;
  const double inner = unit_roundoff(is_narrow ? DType::f32 : dtype);
  const double relative = (is_narrow ? 2 * unit_roundoff(dtype) : 0) + 16 * inner;
  const double absolute = (is_narrow ? 0x1p-24 : 0) + 2 * inner * (kProofTerms + 4) * largest;
  return absolute + relative * std::fabs(alone);
}

Tensor join_rows(const Device& device,
                 std::span<const RequestRef> requests,
                 std::size_t input,
                 std::int64_t padded_rows) {
  const RequestInput& first = requests.front()->inputs[input];
  if (first.is_by_value()) {
    return upload(device, first);
  }
  if (!first.is_on_host()) {
    return join_tensors(device, requests, input, padded_rows);
  }
  if (requests.size() == 1 && padded_rows == requests.front()->rows) {
    return upload(device, first);
  }
  const std::size_t row_bytes = bytes_per_row(first.dtype(), first.shape());
  const std::size_t size = row_bytes * static_cast<std::size_t>(padded_rows);
  // Not zeroed: each byte is written below.
  const std::shared_ptr<std::byte[]> joined(new std::byte[size]);
  std::byte* place = joined.get();
  std::byte* const end = place + size;
  for (const RequestRef& request : requests) {
    const std::span<const std::byte> bytes = request->inputs[input].bytes();
    place = std::copy(bytes.begin(), bytes.end(), place);
  }
  while (place != end) {
    place = std::copy_n(joined.get(), row_bytes, place);
  }
  return Tensor::from_owned_bytes(
      device, {joined.get(), size}, joined, first.dtype(), with_rows(first.shape(), padded_rows));
}

RequestInput row_of(const RequestInput& input, std::int64_t row) {
  if (input.is_by_value()) {
    return input;
  }
  if (!input.is_on_host()) {
    return slice(input.tensor(), 0, {.start = row, .stop = row + 1});
  }
  const std::size_t row_bytes = bytes_per_row(input.dtype(), input.shape());
  return {input.bytes().subspan(row_bytes * static_cast<std::size_t>(row), row_bytes),
          input.owner(),
          input.dtype(),
          with_rows(input.shape(), 1)};
}

Result<std::vector<HostRows>> read_outputs(std::span<const Tensor> outputs) {
  // The device writes into it even if this thread stops waiting.
  const auto all = std::make_shared<std::vector<HostRows>>();
  std::vector<Pending<void>> reads;
  all->reserve(outputs.size());
  for (const Tensor& output : outputs) {
    HostRows& rows = all->emplace_back();
    rows.dtype = output.dtype();
    rows.shape = output.shape();
    rows.bytes.resize(
        static_cast<std::size_t>(rows.shape.element_count() * size_bytes(rows.dtype)));
    reads.push_back(output.read_into(rows.bytes, all));
  }
  for (const Pending<void>& read : reads) {
    HEARTH_TRY_STATUS(read.wait());
  }
  return std::move(*all);
}

std::vector<HostRows> cut_rows(std::span<const HostRows> outputs,
                               std::int64_t begin,
                               std::int64_t count) {
  std::vector<HostRows> cut;
  cut.reserve(outputs.size());
  for (const HostRows& output : outputs) {
    const std::size_t row_bytes = bytes_per_row(output.dtype, output.shape);
    const auto first = output.bytes.begin() + static_cast<std::ptrdiff_t>(row_bytes) * begin;
    HostRows& part = cut.emplace_back();
    part.dtype = output.dtype;
    part.shape = with_rows(output.shape, count);
    part.bytes.assign(first, first + static_cast<std::ptrdiff_t>(row_bytes) * count);
  }
  return cut;
}

std::vector<HostRows> join_outputs(std::span<const std::vector<HostRows>> rows) {
  std::vector<HostRows> joined = rows.front();
  for (std::size_t i = 0; i < joined.size(); ++i) {
    for (const std::vector<HostRows>& row : rows.subspan(1)) {
      joined[i].bytes.insert(joined[i].bytes.end(), row[i].bytes.begin(), row[i].bytes.end());
    }
    joined[i].shape = with_rows(joined[i].shape, static_cast<std::int64_t>(rows.size()));
  }
  return joined;
}

std::string why_no_rows(std::span<const HostRows> outputs, std::int64_t rows) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].shape.rank() == 0 || outputs[i].shape[0] != rows) {
      return fmt::format("axis 0 of output {} does not count the rows: {} for {} rows",
                         i,
                         describe(outputs[i].dtype, outputs[i].shape),
                         rows);
    }
  }
  return {};
}

std::string difference(std::span<const HostRows> in_batch,
                       std::span<const HostRows> alone,
                       bool is_exact) {
  for (std::size_t i = 0; i < alone.size(); ++i) {
    const HostRows& got = in_batch[i];
    const HostRows& want = alone[i];
    if (got.dtype != want.dtype || got.shape != want.shape) {
      return fmt::format("output {} is {} in the batch and {} alone",
                         i,
                         describe(got.dtype, got.shape),
                         describe(want.dtype, want.shape));
    }
    if (got.bytes == want.bytes) {
      continue;
    }
    std::string text = "its bytes differ";
    if (!is_exact && is_float(want.dtype)) {
      text = visit_dtype(want.dtype, [&](auto zero) -> std::string {
        using T = decltype(zero);
        if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> ||
                      std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
          return float_difference<T>(got, want);
        } else {
          return {};
        }
      });
    }
    if (!text.empty()) {
      return fmt::format("output {}: {}", i, text);
    }
  }
  return {};
}

}  // namespace hearth::detail
