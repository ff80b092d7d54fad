#include <hearth/backends/reference/program.hpp>

#include "elements.hpp"

#include <hearth/backends/reference/reference.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace hearth::reference {
namespace {

Error malformed(const OpRecord& record, std::string_view what) {
  return {
      .code = ErrorCode::invalid_argument,
      .text = fmt::format("program: {} number {}: {}", name(record.kind), record.sequence, what),
      .op = std::string(name(record.kind)),
      .sequence = record.sequence};
}

/// Layout and first element of a view in a contiguous input.
struct Source {
  detail::Layout layout;
  std::int64_t first_element = 0;
};

Source view_source(const OpView& op, const detail::Layout& input, const Shape& result) {
  Source source{.layout = detail::Layout(result)};
  Strides& strides = source.layout.strides;
  if (op.kind() == OpKind::permute) {
    const auto axes = op.attributes<PermuteAttributes>().axes;
    for (std::size_t i = 0; i < static_cast<std::size_t>(result.rank()); ++i) {
      strides[i] = input.strides[axes[i]];
    }
  } else if (op.kind() == OpKind::slice) {
    const auto slice = op.attributes<SliceAttributes>();
    for (std::size_t i = 0; i < static_cast<std::size_t>(result.rank()); ++i) {
      strides[i] = input.strides[i] * slice.step[i];
      source.first_element += input.strides[i] * slice.start[i];
    }
  } else if (op.kind() == OpKind::expand) {
    strides = broadcast_strides(input, result);
  }
  return source;
}

class Run {
 public:
  Run(std::span<const RecordedOp> program, const ShapeTable& shapes, Tensors& tensors)
      : program_(program), shapes_(shapes), tensors_(tensors) {}

  Status run() {
    for (std::size_t i = 0; i < program_.size(); ++i) {
      if (program_[i].record.kind != OpKind::group_begin) {
        HEARTH_TRY_STATUS(step(program_[i].view()));
        continue;
      }
      const std::size_t first = i + 1;
      while (i < program_.size() && program_[i].record.kind != OpKind::group_end) {
        ++i;
      }
      if (i == program_.size()) {
        return malformed(program_[first - 1].record, "the group has no end");
      }
      HEARTH_TRY_STATUS(group(program_.subspan(first, i - first)));
    }
    return {};
  }

 private:
  Status step(const OpView& op) {
    const OpInfo& info = op_info(op.kind());
    for (int i = 0; i < op.record().input_count; ++i) {
      if (!tensors_.contains(op.input(i).slot)) {
        return malformed(op.record(), fmt::format("nothing wrote slot {}", op.input(i).slot.value));
      }
    }
    if (info.op_class != OpClass::lifetime) {
      compute(op, info);
    } else if (op.kind() == OpKind::drop) {
      tensors_.erase(op.input(0).slot);
    } else if (op.kind() == OpKind::upload && !tensors_.contains(op.output(0).slot)) {
      return malformed(op.record(), fmt::format("slot {} has no bytes", op.output(0).slot.value));
    }
    return {};
  }

  /// Runs one op into new tensors. They are poisoned if the op fails or an input is poisoned.
  void compute(const OpView& op, const OpInfo& info) {
    std::vector<TensorView> inputs;
    ErrorRef error;
    for (int i = 0; i < op.record().input_count; ++i) {
      HostTensor& input = tensors_.at(op.input(i).slot);
      inputs.push_back(input.view());
      error = error ? error : input.error;
    }
    std::vector<HostTensor> results;
    std::vector<TensorView> outputs;
    for (int i = 0; i < op.record().output_count; ++i) {
      results.emplace_back(op.output(i).dtype, shapes_.shape(op.output(i).shape));
    }
    for (HostTensor& result : results) {
      outputs.push_back(result.view());
    }
    if (!error) {
      error = info.op_class == OpClass::view ? move_view(op, inputs[0], outputs[0])
                                             : run_kernel({op, inputs, outputs});
    }
    for (int i = 0; i < op.record().output_count; ++i) {
      HostTensor& result = results[static_cast<std::size_t>(i)];
      if (error) {
        result = HostTensor(result.dtype, result.layout.shape, error);
      }
      tensors_.insert_or_assign(op.output(i).slot, std::move(result));
    }
  }

  static ErrorRef run_kernel(const KernelCall& call) {
    const Status status = evaluate(call);
    if (status.has_value()) {
      return nullptr;
    }
    Error error = status.error();
    error.sequence = call.op.record().sequence;
    return std::make_shared<const Error>(std::move(error));
  }

  static ErrorRef move_view(const OpView& op, const TensorView& input, const TensorView& output) {
    const Source source = view_source(op, *input.layout, output.shape());
    const TensorView from{
        input.data + source.first_element * size_bytes(input.dtype), &source.layout, input.dtype};
    store_bits(output, load_bits(from));
    return nullptr;
  }

  Status group(std::span<const RecordedOp> ops) {
    const Tensors before = tensors_;
    ErrorRef error;
    for (const RecordedOp& op : ops) {
      HEARTH_TRY_STATUS(step(op.view()));
      for (int i = 0; i < op.record.output_count && !error; ++i) {
        error = tensors_.at(op.view().output(i).slot).error;
      }
    }
    if (error) {
      tensors_ = before;
      for (const RecordedOp& op : ops) {
        abandon(op.view(), error);
      }
    }
    return {};
  }

  void abandon(const OpView& op, const ErrorRef& error) {
    const bool keeps_state = op_info(op.kind()).op_class == OpClass::optimizer;
    for (int i = 0; i < op.record().output_count; ++i) {
      const Operand output = op.output(i);
      // Inputs are parameter, gradient, states; outputs are parameter, states.
      const auto old =
          keeps_state ? tensors_.find(op.input(i == 0 ? 0 : i + 1).slot) : tensors_.end();
      tensors_.insert_or_assign(output.slot,
                                old != tensors_.end()
                                    ? old->second
                                    : HostTensor(output.dtype, shapes_.shape(output.shape), error));
    }
  }

  std::span<const RecordedOp> program_;
  const ShapeTable& shapes_;
  Tensors& tensors_;
};

}  // namespace

HostTensor::HostTensor(DType type, const Shape& shape)
    : dtype(type),
      layout(shape),
      bytes(static_cast<std::size_t>(shape.element_count() * size_bytes(type))) {}

HostTensor::HostTensor(DType type, const Shape& shape, ErrorRef cause)
    : dtype(type), layout(shape), error(std::move(cause)) {}

Status evaluate_program(std::span<const RecordedOp> program,
                        const ShapeTable& shapes,
                        Tensors& tensors) {
  return Run(program, shapes, tensors).run();
}

}  // namespace hearth::reference
