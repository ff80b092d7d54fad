#include "conv.hpp"

#include "backends/cpu/products/epilogue.hpp"
#include "conv_choices.hpp"
#include "conv_planes.hpp"
#include "conv_taps.hpp"
#include "conv_weight.hpp"
#include "conv_windows.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace hearth::cpu {

namespace {

// Numbers of taps and of stride phases that need no heap.
constexpr std::size_t kInlineTaps = 128;
constexpr std::size_t kInlinePhases = 4;

// The convolutions of a call: one, or one for each stride phase of an input gradient. Each tap of
// the weights belongs to one of them.
class Phases {
 public:
  explicit Phases(const Shape& weights) {
    const auto taps = static_cast<std::size_t>(weights[2] * weights[3]);
    if (taps > kInlineTaps) {
      more_taps_.resize(taps);
    }
  }
  Phases(const Phases&) = delete;
  Phases& operator=(const Phases&) = delete;

  /// Returns the tensor with a layout that lives as long as this, the last one for x and for y.
  enum class Keeps : std::uint8_t { x, y };
  [[nodiscard]] TensorView keep(const TensorView& tensor,
                                const detail::Layout& layout,
                                Keeps which) {
    detail::Layout& kept = layouts_[which == Keeps::x ? 0 : 1];
    kept = layout;
    TensorView view = tensor;
    view.layout = &kept;
    return view;
  }
  /// Adds a tap of the next convolution.
  void push_tap(const ConvTap& tap) { taps()[tap_count_++] = tap; }
  /// Adds a convolution with the taps since the last one.
  void push(const TapConvolution& convolution) {
    if (count_ == kInlinePhases && more_.empty()) {
      more_.assign(inline_.begin(), inline_.end());
    }
    TapConvolution& added = count_ < kInlinePhases ? inline_[count_] : more_.emplace_back();
    added = convolution;
    added.taps = taps().subspan(first_tap_, tap_count_ - first_tap_);
    first_tap_ = tap_count_;
    ++count_;
  }
  [[nodiscard]] std::span<const TapConvolution> all() const {
    return more_.empty() ? std::span<const TapConvolution>(inline_.data(), count_)
                         : std::span<const TapConvolution>(more_);
  }

 private:
  [[nodiscard]] std::span<ConvTap> taps() {
    return more_taps_.empty() ? std::span<ConvTap>(inline_taps_) : std::span<ConvTap>(more_taps_);
  }

  std::array<detail::Layout, 2> layouts_;
  std::array<ConvTap, kInlineTaps> inline_taps_{};
  std::array<TapConvolution, kInlinePhases> inline_{};
  std::size_t tap_count_ = 0;
  std::size_t first_tap_ = 0;
  std::size_t count_ = 0;
  std::vector<ConvTap> more_taps_;
  std::vector<TapConvolution> more_;
};

// Runs the convolutions of a call as the choice states.
Status run_phases(std::span<const TapConvolution> phases,
                  const TapChoice& choice,
                  KernelContext& context) {
  if (runs_by_windows(phases, choice)) {
    return run_window_convolution(phases, choice, context);
  }
  for (const TapConvolution& phase : phases) {
    HEARTH_TRY_STATUS(run_tap_convolution(phase, choice, context));
  }
  return {};
}

TapPlans plan_phases(std::span<const TapConvolution> phases,
                     const TapChoice& choice,
                     const KernelContext& context) {
  if (runs_by_windows(phases, choice)) {
    return {plan_window_convolution(phases, choice, context)};
  }
  TapPlans plans;
  for (const TapConvolution& phase : phases) {
    plans.push_back(plan_tap_convolution(phase, context, choice));
  }
  return plans;
}

TapChoice tap_choice(const KernelContext& context) {
  const TapChoice* const choice = tap_choice_of(context.pick);
  return choice == nullptr ? TapChoice() : *choice;
}

// Runs `work(y, epilogue)`: the convolution writes y and passes each finished block to the
// epilogue.
template <class Work>
Status with_epilogue(const KernelCall& call, KernelContext& context, const Work& work) {
  if (call.epilogue == nullptr) {
    return work(call.outputs[0], nullptr);
  }
  HEARTH_TRY(const EpilogueBlocks blocks, EpilogueBlocks::make(call, context));
  const TensorView y{blocks.result(), call.outputs[0].layout, call.inputs[0].dtype};
  return work(y, &blocks);
}

// A convolution of one tap does not know rows: it takes several narrow ones as one, so that tiles
// are full.
void merge_rows(TapConvolution& convolution, std::int64_t taps, Phases& phases) {
  constexpr std::int64_t kNarrow = 48;
  const TensorView& x = convolution.x;
  const std::int64_t rows = convolution.rows;
  const std::int64_t columns = convolution.columns;
  const bool is_plain = taps == 1 && convolution.row_stride == 1 &&
                        convolution.column_stride == 1 && convolution.y_row_step == 1 &&
                        convolution.y_column_step == 1 && convolution.sink.take == nullptr &&
                        x.shape()[2] == rows && x.shape()[3] == columns &&
                        x.strides()[2] == columns * x.strides()[3];
  if (!is_plain || columns == 0 || columns >= kNarrow) {
    return;
  }
  std::int64_t merged = 1;
  while (merged < rows && (rows % merged != 0 || merged * columns < kNarrow)) {
    ++merged;
  }
  const auto of = [&](const TensorView& tensor) {
    return Shape{tensor.shape()[0], tensor.shape()[1], rows / merged, columns * merged};
  };
  Strides strides = x.strides();
  strides[2] *= merged;
  convolution.x = phases.keep(x, {of(x), strides}, Phases::Keeps::x);
  convolution.y = phases.keep(convolution.y, detail::Layout(of(convolution.y)), Phases::Keeps::y);
  convolution.merged_rows = merged;
  convolution.rows = rows / merged;
  convolution.columns = columns * merged;
}

// Adds the forward convolution.
void add_forward(const KernelCall& call,
                 const TensorView& y,
                 const EpilogueBlocks* epilogue,
                 const PlaneSink& sink,
                 Phases& phases) {
  const auto attributes = call.op.attributes<ConvAttributes>();
  const TensorView& w = call.inputs[1];
  const Strides& steps = w.strides();
  for (std::int64_t ky = 0; ky < w.shape()[2]; ++ky) {
    for (std::int64_t kx = 0; kx < w.shape()[3]; ++kx) {
      phases.push_tap({.row = ky * attributes.dilation[0] - attributes.padding[0],
                       .column = kx * attributes.dilation[1] - attributes.padding[1],
                       .weight_offset = ky * steps[2] + kx * steps[3]});
    }
  }
  TapConvolution convolution;
  convolution.x = phases.keep(call.inputs[0],
                              visited_inputs(call.inputs[0], w.shape(), y.shape(), attributes),
                              Phases::Keeps::x);
  convolution.y = y;
  convolution.epilogue = epilogue;
  convolution.sink = sink;
  convolution.bias = call.inputs.size() > 2 ? &call.inputs[2] : nullptr;
  convolution.w = w.data;
  convolution.groups = attributes.groups;
  convolution.inputs = w.shape()[1];
  convolution.outputs = w.shape()[0] / attributes.groups;
  convolution.group_step = convolution.outputs * steps[0];
  convolution.output_step = steps[0];
  convolution.input_step = steps[1];
  convolution.constant = w.constant;
  convolution.form = {.kind = ConstantForm::Kind::conv_weights,
                      .data = w.data,
                      .numbers = {steps[0],
                                  steps[1],
                                  steps[2],
                                  steps[3],
                                  w.shape()[2],
                                  w.shape()[3],
                                  convolution.inputs,
                                  convolution.outputs,
                                  attributes.groups}};
  convolution.rows = convolution.y.shape()[2];
  convolution.columns = convolution.y.shape()[3];
  if (convolution.x.shape() == call.inputs[0].shape()) {
    convolution.row_stride = attributes.stride[0];
    convolution.column_stride = attributes.stride[1];
  }
  if (attributes.padding[0] == 0 && attributes.padding[1] == 0) {
    merge_rows(convolution, w.shape()[2] * w.shape()[3], phases);
  }
  phases.push(convolution);
}

Status conv_forward(const KernelCall& call, KernelContext& context) {
  return with_epilogue(call, context, [&](const TensorView& y, const EpilogueBlocks* epilogue) {
    return run_convolution(call, y, epilogue, {}, context);
  });
}

// Whether weight k contributes to rows (or columns) of one phase: input position p takes from
// gradient position (p + padding − k·dilation)/stride.
bool reaches(std::int64_t phase,
             std::int64_t k,
             const ConvAttributes& attributes,
             std::size_t axis,
             std::int64_t* place) {
  const std::int64_t distance = phase + attributes.padding[axis] - k * attributes.dilation[axis];
  *place = distance / attributes.stride[axis];
  return distance % attributes.stride[axis] == 0;
}

// The input gradient at positions of one phase (row mod stride, column mod stride) is a convolution
// of stride 1. It convolves the gradient with the weights that reach that phase, so no products
// with zeros are computed. Adds each of them.
void add_backward(const KernelCall& call,
                  const TensorView& y,
                  const EpilogueBlocks* epilogue,
                  Phases& phases) {
  const auto attributes = call.op.attributes<ConvAttributes>();
  const TensorView& w = call.inputs[1];
  const Strides& steps = w.strides();
  const Shape& shape = call.outputs[0].shape();
  TapConvolution convolution;
  convolution.x = call.inputs[0];
  convolution.y = y;
  convolution.epilogue = epilogue;
  convolution.w = w.data;
  convolution.groups = attributes.groups;
  convolution.inputs = w.shape()[0] / attributes.groups;
  convolution.outputs = w.shape()[1];
  convolution.group_step = convolution.inputs * steps[0];
  convolution.output_step = steps[1];
  convolution.input_step = steps[0];
  convolution.y_row_step = attributes.stride[0];
  convolution.y_column_step = attributes.stride[1];
  for (std::int64_t py = 0; py < std::min(attributes.stride[0], shape[2]); ++py) {
    for (std::int64_t px = 0; px < std::min(attributes.stride[1], shape[3]); ++px) {
      ConvTap tap;
      for (std::int64_t ky = 0; ky < w.shape()[2]; ++ky) {
        for (std::int64_t kx = 0; kx < w.shape()[3]; ++kx) {
          if (reaches(py, ky, attributes, 0, &tap.row) &&
              reaches(px, kx, attributes, 1, &tap.column)) {
            tap.weight_offset = ky * steps[2] + kx * steps[3];
            phases.push_tap(tap);
          }
        }
      }
      convolution.y_first_row = py;
      convolution.y_first_column = px;
      convolution.rows = (shape[2] - py + attributes.stride[0] - 1) / attributes.stride[0];
      convolution.columns = (shape[3] - px + attributes.stride[1] - 1) / attributes.stride[1];
      if (attributes.padding[0] == 0 && attributes.padding[1] == 0) {
        merge_rows(convolution, w.shape()[2] * w.shape()[3], phases);
      }
      phases.push(convolution);
    }
  }
}

Status backward_input(const KernelCall& call, KernelContext& context) {
  return with_epilogue(call, context, [&](const TensorView& y, const EpilogueBlocks* epilogue) {
    Phases phases(call.inputs[1].shape());
    add_backward(call, y, epilogue, phases);
    return run_phases(phases.all(), tap_choice(context), context);
  });
}

Status backward_weight(const KernelCall& call, KernelContext& context) {
  return run_conv_backward_weight(call.inputs[0],
                                  call.inputs[1],
                                  call.outputs[0],
                                  call.op.attributes<ConvAttributes>(),
                                  context);
}

// Fused calls and empty ones have no choice.
bool has_conv_choice(const KernelCall& call) noexcept {
  return call.epilogue == nullptr && call.prologue == nullptr &&
         call.outputs[0].element_count() != 0 && call.inputs[0].element_count() != 0;
}

std::vector<detail::Candidate> conv_candidates(const KernelCall& call,
                                               const KernelContext& context) {
  if (!has_conv_choice(call)) {
    return {};
  }
  Phases phases(call.inputs[1].shape());
  if (call.op.kind() == OpKind::conv2d) {
    add_forward(call, call.outputs[0], nullptr, {}, phases);
  } else {
    add_backward(call, call.outputs[0], nullptr, phases);
  }
  return tap_candidates(
      [&](const TapChoice& choice) { return plan_phases(phases.all(), choice, context); });
}

bool allows_conv_pick(const KernelCall& call, const KernelContext& context) noexcept {
  return tap_choice_of(context.pick) != nullptr && has_conv_choice(call);
}

constexpr KernelRow kConvRows[] = {
    {.kind = OpKind::conv2d,
     .run = &conv_forward,
     .supports = nullptr,
     .takes_epilogue = true,
     .candidates = &conv_candidates,
     .allows_pick = &allows_conv_pick},
    {.kind = OpKind::conv2d_backward_input,
     .run = &backward_input,
     .supports = nullptr,
     .takes_epilogue = true,
     .candidates = &conv_candidates,
     .allows_pick = &allows_conv_pick},
    {.kind = OpKind::conv2d_backward_weight, .run = &backward_weight, .supports = nullptr},
};

}  // namespace

PlaneCut plane_cut(const KernelCall& call) noexcept {
  const auto attributes = call.op.attributes<ConvAttributes>();
  const Shape& x = call.inputs[0].shape();
  const Shape& w = call.inputs[1].shape();
  const Shape& y = call.outputs[0].shape();
  const std::int64_t size = call.inputs[0].dtype == DType::f64 ? 8 : 4;
  return {.planes = y[0] * attributes.groups,
          .input_bytes =
              w[1] * (x[2] + 2 * attributes.padding[0]) * (x[3] + 2 * attributes.padding[1]) * size,
          .result_bytes = y[1] / attributes.groups * y[2] * y[3] * size,
          .flops = 2.0 * static_cast<double>(w[1] * w[2] * w[3]) *
                   static_cast<double>(call.outputs[0].element_count())};
}

Status run_convolution(const KernelCall& call,
                       const TensorView& y,
                       const EpilogueBlocks* epilogue,
                       const PlaneSink& sink,
                       KernelContext& context) {
  Phases phases(call.inputs[1].shape());
  add_forward(call, y, epilogue, sink, phases);
  return run_phases(phases.all(), tap_choice(context), context);
}

std::span<const KernelRow> conv_rows() noexcept {
  return kConvRows;
}

}  // namespace hearth::cpu
