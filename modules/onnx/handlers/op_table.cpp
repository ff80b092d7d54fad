#include "op_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace hearth::onnx {
namespace {

using Family = std::span<const OpRow> (*)();

constexpr std::array kFamilies{
    &activation_rows,  &arithmetic_rows, &comparison_rows, &control_rows,   &contrib_rows,
    &convolution_rows, &creation_rows,   &gather_rows,     &layout_rows,    &loss_rows,
    &norm_rows,        &pool_rows,       &product_rows,    &quantised_rows, &random_rows,
    &recurrent_rows,   &reduction_rows,  &refused_rows,    &resize_rows,    &search_rows,
    &sequence_rows,    &signal_rows,     &text_rows,       &training_rows,  &unary_rows,
};

void call_function(Call& call) {
  std::vector<OnnxValue> arguments;
  for (std::size_t i = 0; i < call.count(); ++i) {
    arguments.push_back(call.value(i));
  }
  std::vector<OnnxValue> results = call.run_body("body", std::move(arguments));
  for (std::size_t i = 0; i < results.size(); ++i) {
    call.give(i, std::move(results[i]));
  }
}

constexpr OpRow kFunctionCall{.op = "function", .run = call_function};

}  // namespace

OpTable::OpTable() {
  for (const Family family : kFamilies) {
    for (const OpRow& row : family()) {
      by_op_[row.op].push_back(&row);
    }
  }
}

OpTable::Found OpTable::find(std::string_view domain,
                             std::string_view op,
                             std::int64_t opset) const {
  const auto at = by_op_.find(op);
  const OpRow* best = nullptr;
  std::int64_t first = 0;
  if (at != by_op_.end()) {
    for (const OpRow* const row : at->second) {
      if (row->domain != domain) {
        continue;
      }
      first = first == 0 ? row->since : std::min(first, row->since);
      if (row->since <= opset && (best == nullptr || row->since > best->since)) {
        best = row;
      }
    }
  }
  if (best != nullptr) {
    return {.row = best};
  }
  if (first != 0) {
    return {.reason = fmt::format("the op exists from opset {} on", first),
            .help = "state the opset in which the exporter wrote the node"};
  }
  return {.reason = "no handler for this op",
          .help =
              "export the model so that it uses standard ops, or define the op as a function "
              "in the file"};
}

bool OpTable::has(std::string_view domain, std::string_view op) const {
  const auto at = by_op_.find(op);
  return at != by_op_.end() && std::ranges::any_of(at->second, [&](const OpRow* row) {
           return row->domain == domain && row->refusal.empty();
         });
}

const OpRow& OpTable::function_call() const noexcept {
  return kFunctionCall;
}

std::vector<const OpRow*> OpTable::rows() const {
  std::vector<const OpRow*> all;
  for (const Family family : kFamilies) {
    for (const OpRow& row : family()) {
      all.push_back(&row);
    }
  }
  return all;
}

}  // namespace hearth::onnx
