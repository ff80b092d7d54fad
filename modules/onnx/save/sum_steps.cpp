// Steps along axes: sums, largest elements, softmax, scans.
#include "step_table.hpp"

namespace hearth::onnx {
namespace sum_steps_of {
namespace {

std::string reduction_node(OpKind kind) {
  switch (kind) {
    case OpKind::reduce_mean:
      return "ReduceMean";
    case OpKind::reduce_max:
      return "ReduceMax";
    case OpKind::reduce_min:
      return "ReduceMin";
    case OpKind::reduce_prod:
      return "ReduceProd";
    default:
      return "ReduceSum";
  }
}

bool picks_element(OpKind kind) {
  return kind == OpKind::reduce_max || kind == OpKind::reduce_min;
}

// The type in which ONNX reduces. Opset 18 has no sums of 8 bits and no extremes of bools.
DType reduced_in(OpKind kind, DType from, DType to) {
  if (picks_element(kind)) {
    return from == DType::boolean ? DType::u8 : from;
  }
  const bool is_narrow = to == DType::u8 || to == DType::i8 || to == DType::boolean;
  return is_narrow ? DType::i32 : to;
}

void reduce(StepCall& call) {
  const auto given = call.attributes<ReduceAttributes>();
  std::vector<std::int64_t> axes;
  for (int axis = 0; axis < call.input_rank(0); ++axis) {
    if ((given.axes >> static_cast<unsigned>(axis) & 1U) != 0) {
      axes.push_back(axis);
    }
  }
  const DType inside = reduced_in(call.kind(), call.input_dtype(0), call.output_dtype());
  std::string value = call.cast(call.input(0), call.input_dtype(0), inside);
  value = call.add(reduction_node(call.kind()),
                   {value, call.draft().integers(axes)},
                   {{"keepdims", std::int64_t{given.keep_dims != 0 ? 1 : 0}},
                    {"noop_with_empty_axes", std::int64_t{1}}});
  call.result(call.cast(value, inside, call.output_dtype()));
}

void find(StepCall& call) {
  const auto given = call.attributes<AxisAttributes>();
  call.result(call.add(call.kind() == OpKind::argmax ? "ArgMax" : "ArgMin",
                       {call.input(0)},
                       {{"axis", std::int64_t{given.axis}},
                        {"keepdims", std::int64_t{given.keep_dims != 0 ? 1 : 0}}}));
}

void normalise(StepCall& call) {
  call.result(call.add(call.kind() == OpKind::softmax ? "Softmax" : "LogSoftmax",
                       {call.input(0)},
                       {{"axis", std::int64_t{call.attributes<AxisAttributes>().axis}}}));
}

void scan(StepCall& call) {
  const auto given = call.attributes<ScanAttributes>();
  const DType to = call.output_dtype();
  const bool is_narrow = to == DType::u8 || to == DType::i8 || to == DType::boolean;
  const DType inside = to == DType::bf16 ? DType::f32 : is_narrow ? DType::i32 : to;
  std::string value = call.cast(call.input(0), call.input_dtype(0), inside);
  value = call.add("CumSum",
                   {value, call.draft().integer(given.axis)},
                   {{"reverse", std::int64_t{given.reverse}}});
  call.result(call.cast(value, inside, to));
}

void largest(StepCall& call) {
  const auto given = call.attributes<TopkAttributes>();
  const DType dtype = call.input_dtype(0);
  const DType inside = dtype == DType::bf16 ? DType::f32 : dtype;
  const std::size_t output = call.is_needed(0) ? 0 : 1;
  const Sizes count = call.output_shape(output)[static_cast<std::size_t>(given.axis)];
  const std::vector<std::string> both =
      call.draft().add_many("TopK",
                            {call.cast(call.input(0), dtype, inside), call.size(count)},
                            {{"axis", std::int64_t{given.axis}},
                             {"largest", std::int64_t{given.smallest != 0 ? 0 : 1}},
                             {"sorted", std::int64_t{1}}},
                            2);
  call.result(call.cast(both[0], inside, dtype), 0);
  call.result(both[1], 1);
}

constexpr StepRow kRows[] = {
    {OpKind::reduce_sum, reduce},
    {OpKind::reduce_mean, reduce},
    {OpKind::reduce_max, reduce},
    {OpKind::reduce_min, reduce},
    {OpKind::reduce_prod, reduce},
    {OpKind::argmax, find},
    {OpKind::argmin, find},
    {OpKind::softmax, normalise},
    {OpKind::log_softmax, normalise},
    {OpKind::cumsum, scan},
    {OpKind::topk, largest},
};

}  // namespace
}  // namespace sum_steps_of

std::span<const StepRow> sum_steps() {
  return sum_steps_of::kRows;
}

}  // namespace hearth::onnx
