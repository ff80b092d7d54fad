#include "memory_shortage.hpp"

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace hearth {
namespace {

constexpr int kNamedTensors = 10;

double mebibytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

std::string pool_table(const MemoryReport& report) {
  std::string text = fmt::format(
      "\n  {:<32}{:>12}{:>12}{:>16}{:>8}", "pool", "reserved", "free", "largest free", "pages");
  for (const PoolUsage& pool : report.pools) {
    text += fmt::format("\n  {:<32}{:>8.2f} MiB{:>8.2f} MiB{:>12.2f} MiB{:>8}",
                        pool.name,
                        mebibytes(pool.reserved_bytes),
                        mebibytes(pool.free_bytes),
                        mebibytes(pool.largest_free_bytes),
                        pool.page_count);
  }
  return text;
}

std::string why_none(std::int64_t size_bytes, const MemoryReport& report, Acquire outcome) {
  if (outcome == Acquire::exhausted) {
    return report.refusal.empty()
               ? "the machine has no more memory"
               : fmt::format("the machine has no more memory ({})", report.refusal);
  }
  const bool can_ever_fit = report.budget_bytes == 0 || size_bytes <= report.budget_bytes;
  return can_ever_fit ? "the device's budget is used up"
                      : "that is more than the device's whole budget";
}

}  // namespace

Error out_of_memory_error(const HandleTable& handles,
                          const RuntimeTables& tables,
                          std::int64_t size_bytes,
                          Acquire outcome) {
  const MemoryReport report = handles.memory().report();
  std::string text = fmt::format(
      "{} bytes do not fit: {}; of a budget of {:.2f} MiB, {:.2f} MiB are live and {:.2f} MiB "
      "reserved, and the largest free block is {} bytes",
      size_bytes,
      why_none(size_bytes, report, outcome),
      mebibytes(report.budget_bytes),
      mebibytes(report.total.live_bytes),
      mebibytes(report.total.reserved_bytes),
      report.total.largest_free_bytes);
  text += pool_table(report);
  const std::vector<LiveTensor> largest = handles.largest_tensors(kNamedTensors, tables);
  text += largest.empty() ? "\n  no tensor is live" : "\n  the largest live tensors";
  for (const LiveTensor& tensor : largest) {
    text += fmt::format(
        "\n  {:>8.2f} MiB  {}", mebibytes(tensor.size_bytes), tensor.origin.to_string());
  }
  return Error{.code = ErrorCode::out_of_memory, .text = std::move(text)};
}

}  // namespace hearth
