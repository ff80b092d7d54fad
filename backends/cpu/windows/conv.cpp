#include "conv.hpp"

#include "backends/cpu/products/epilogue.hpp"
#include "conv_choices.hpp"
#include "conv_taps.hpp"
#include "conv_weight.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace hearth::cpu {

namespace {

// Number of taps that need no heap.
constexpr std::size_t kInlineTaps = 128;

// The taps of a call: inline for the usual kernels, on the heap for huge ones.
class Taps {
 public:
  void push(const ConvTap& tap) {
    if (count_ < kInlineTaps) {
      inline_[count_++] = tap;
      return;
    }
    if (more_.empty()) {
      more_.assign(inline_.begin(), inline_.end());
    }
    more_.push_back(tap);
    ++count_;
  }
  [[nodiscard]] std::span<const ConvTap> all() const {
    return more_.empty() ? std::span<const ConvTap>(inline_.data(), count_)
                         : std::span<const ConvTap>(more_);
  }

 private:
  std::array<ConvTap, kInlineTaps> inline_{};
  std::size_t count_ = 0;
  std::vector<ConvTap> more_;
};

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

// The forward convolution. Calls `work` with it.
template <class Work>
Status convolve(const KernelCall& call,
                const TensorView& y,
                const EpilogueBlocks* epilogue,
                const PlaneSink& sink,
                const Work& work) {
  const auto attributes = call.op.attributes<ConvAttributes>();
  const TensorView& w = call.inputs[1];
  const Strides& steps = w.strides();
  Taps taps;
  for (std::int64_t ky = 0; ky < w.shape()[2]; ++ky) {
    for (std::int64_t kx = 0; kx < w.shape()[3]; ++kx) {
      taps.push({.row = ky * attributes.dilation[0] - attributes.padding[0],
                 .column = kx * attributes.dilation[1] - attributes.padding[1],
                 .weight_offset = ky * steps[2] + kx * steps[3]});
    }
  }
  TapConvolution convolution;
  convolution.x = call.inputs[0];
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
  convolution.taps = taps.all();
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
  convolution.row_stride = attributes.stride[0];
  convolution.column_stride = attributes.stride[1];
  return work(convolution);
}

Status forward(const KernelCall& call, KernelContext& context) {
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
// with zeros are computed. Calls `work` with each of them.
template <class Work>
Status convolve_back(const KernelCall& call,
                     const TensorView& y,
                     const EpilogueBlocks* epilogue,
                     const Work& work) {
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
      Taps taps;
      ConvTap tap;
      for (std::int64_t ky = 0; ky < w.shape()[2]; ++ky) {
        for (std::int64_t kx = 0; kx < w.shape()[3]; ++kx) {
          if (reaches(py, ky, attributes, 0, &tap.row) &&
              reaches(px, kx, attributes, 1, &tap.column)) {
            tap.weight_offset = ky * steps[2] + kx * steps[3];
            taps.push(tap);
          }
        }
      }
      convolution.taps = taps.all();
      convolution.y_first_row = py;
      convolution.y_first_column = px;
      convolution.rows = (shape[2] - py + attributes.stride[0] - 1) / attributes.stride[0];
      convolution.columns = (shape[3] - px + attributes.stride[1] - 1) / attributes.stride[1];
      HEARTH_TRY_STATUS(work(convolution));
    }
  }
  return {};
}

Status backward_input(const KernelCall& call, KernelContext& context) {
  return with_epilogue(call, context, [&](const TensorView& y, const EpilogueBlocks* epilogue) {
    return convolve_back(call, y, epilogue, [&](const TapConvolution& convolution) {
      return run_tap_convolution(convolution, context);
    });
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
bool has_choice(const KernelCall& call) noexcept {
  return call.epilogue == nullptr && call.prologue == nullptr &&
         call.outputs[0].element_count() != 0 && call.inputs[0].element_count() != 0;
}

std::vector<detail::Candidate> conv_candidates(const KernelCall& call,
                                               const KernelContext& context) {
  if (!has_choice(call)) {
    return {};
  }
  return tap_candidates([&](const TapChoice& choice) {
    TapPlans plans;
    const auto note = [&](const TapConvolution& convolution) -> Status {
      plans.push_back(plan_tap_convolution(convolution, context, choice));
      return {};
    };
    static_cast<void>(call.op.kind() == OpKind::conv2d
                          ? convolve(call, call.outputs[0], nullptr, {}, note)
                          : convolve_back(call, call.outputs[0], nullptr, note));
    return plans;
  });
}

bool allows_conv_pick(const KernelCall& call, const KernelContext& context) noexcept {
  return tap_choice_of(context.pick) != nullptr && has_choice(call);
}

constexpr KernelRow kRows[] = {
    {.kind = OpKind::conv2d,
     .run = &forward,
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
  return convolve(call, y, epilogue, sink, [&](const TapConvolution& convolution) {
    return run_tap_convolution(convolution, context);
  });
}

std::span<const KernelRow> conv_rows() noexcept {
  return kRows;
}

}  // namespace hearth::cpu
