#include <hearth/modules/model_summary.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace hearth {
namespace {

using Cells = std::array<std::string, 4>;

// 1234567 → "1,234,567"
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t end = digits.size(); end > 3; end -= 3) {
    digits.insert(end - 3, ",");
  }
  return digits;
}

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 10'000) {
    return fmt::format("{} bytes", bytes);
  }
  constexpr std::array<std::string_view, 4> kUnits{"kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) {
    value /= 1000;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace

std::int64_t ModelSummary::parameter_count() const noexcept {
  std::int64_t count = 0;
  for (const SummaryRow& row : rows) {
    count += row.is_trained ? row.element_count : 0;
  }
  return count;
}

std::int64_t ModelSummary::size_bytes() const noexcept {
  std::int64_t bytes = 0;
  for (const SummaryRow& row : rows) {
    bytes += row.size_bytes;
  }
  return bytes;
}

std::string ModelSummary::to_string() const {
  std::vector<Cells> table{{"path", "shape", "type", "parameters"}};
  for (const SummaryRow& row : rows) {
    table.push_back(
        {row.path,
         row.shape.to_string(),
         std::string(name(row.dtype)),
         row.is_trained ? grouped(row.element_count) : "(" + grouped(row.element_count) + ")"});
  }
  std::array<std::size_t, 4> widths{};
  for (const Cells& cells : table) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      widths[i] = std::max(widths[i], cells[i].size());
    }
  }
  std::string text;
  for (const Cells& cells : table) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}\n",
                        cells[0],
                        widths[0],
                        cells[1],
                        widths[1],
                        cells[2],
                        widths[2],
                        cells[3],
                        widths[3]);
  }
  const std::int64_t trained = parameter_count();
  std::int64_t frozen = 0;
  std::int64_t in_buffers = 0;
  for (const SummaryRow& row : rows) {
    frozen += row.is_frozen ? row.element_count : 0;
    in_buffers += row.is_trained || row.is_frozen ? 0 : row.element_count;
  }
  text += fmt::format("{} parameters", grouped(trained));
  text += frozen > 0 ? fmt::format(", ({}) frozen", grouped(frozen)) : "";
  text += in_buffers > 0 ? fmt::format(", ({}) in buffers", grouped(in_buffers)) : "";
  return text + fmt::format(", {}\n", bytes_text(size_bytes()));
}

}  // namespace hearth
