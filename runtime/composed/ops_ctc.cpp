// The loss of connectionist temporal classification: the forward recursion in log space, one step
// for each time. It runs over the labels, with a blank before, between and behind them.
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/sequence_losses.hpp>

#include "runtime/ops/op_operand.hpp"
#include "runtime/ops/op_parts.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

using detail::At;

constexpr OpKind kCtcKind = OpKind::cross_entropy;
// The logarithm of 0. Finite, so that no gradient is inf - inf; sums of 10^8 of them fit f32.
constexpr double kLogZero = -1e30;

struct CtcOperands {
  const Arg& log_probabilities;
  const Arg& targets;
  const Arg& input_lengths;
  const Arg& target_lengths;
};

void check_ctc(const CtcOperands& in, const CtcOptions& options) {
  const std::array inputs{in.log_probabilities, in.targets, in.input_lengths, in.target_lengths};
  static_cast<void>(detail::accepted_operand(OpKind::log, in.log_probabilities));
  const TensorSpec x = detail::spec_of(kCtcKind, in.log_probabilities);
  const TensorSpec labels = detail::spec_of(kCtcKind, in.targets);
  const TensorSpec times = detail::spec_of(kCtcKind, in.input_lengths);
  const TensorSpec counts = detail::spec_of(kCtcKind, in.target_lengths);
  const auto refuse = [&](ErrorCode code, std::string_view what) {
    detail::throw_op_error(code,
                           kCtcKind,
                           fmt::format("{}: log probabilities {}, targets {}, lengths {} and {}",
                                       what,
                                       describe(x.dtype, x.shape),
                                       describe(labels.dtype, labels.shape),
                                       describe(times.dtype, times.shape),
                                       describe(counts.dtype, counts.shape)),
                           in.log_probabilities.location(),
                           inputs);
  };
  for (const TensorSpec& each : {labels, times, counts}) {
    if (each.dtype != DType::i32 && each.dtype != DType::i64) {
      refuse(ErrorCode::dtype_mismatch, "targets and lengths are i32 or i64");
    }
  }
  const bool fits_batch = x.shape.rank() == 3 && labels.shape.rank() == 2 &&
                          labels.shape[0] == x.shape[1] && times.shape == Shape{x.shape[1]} &&
                          counts.shape == times.shape;
  if (!fits_batch) {
    refuse(ErrorCode::shape_mismatch,
           "needs log probabilities [t, n, classes], targets [n, s] and lengths [n]");
  }
  if (options.blank < 0 || options.blank >= x.shape[2]) {
    refuse(ErrorCode::invalid_argument,
           fmt::format("the blank {} is not in [0, {})", options.blank, x.shape[2]));
  }
}

Tensor counted(const Device& device, std::int64_t count, const At& at) {
  return arange(device, 0, static_cast<double>(count), 1, DType::i64, at.location());
}

// Lengths as i64. One outside of [0, most] poisons the result.
Tensor checked_lengths(const Arg& lengths, std::int64_t most, const At& at) {
  return index_select(
      at(counted(lengths.tensor().device(), most + 1, at)), 0, at(lengths.tensor()));
}

// One column of a batch [n], as [n, 1].
Tensor column_of(const Tensor& x, const At& at) {
  return unsqueeze(at(x), 1);
}

// Labels [n, 2s + 1] with blanks around them; labels behind a target's length are blanks.
Tensor with_blanks(const Tensor& targets, const Tensor& counts, std::int64_t blank, const At& at) {
  const Shape shape = targets.shape();
  const Tensor is_label =
      less(at(counted(targets.device(), shape[1], at)), at(column_of(counts, at)));
  const Tensor labels = where(at(is_label), at(cast(at(targets), DType::i64)), at(blank));
  const auto blanks = [&](const Shape& of) {
    return full(targets.device(), of, blank, DType::i64, at.location());
  };
  const Tensor pairs = stack({blanks(shape), labels}, 2, at.location());
  return concat(
      {reshape(at(pairs), {shape[0], 2 * shape[1]}), blanks({shape[0], 1})}, 1, at.location());
}

// log(Σ exp) of tensors whose elements are finite or NaN.
Tensor log_sum(std::span<const Tensor> parts, const At& at) {
  Tensor largest = parts[0].detach();
  for (const Tensor& part : parts.subspan(1)) {
    largest = maximum(at(std::move(largest)), at(part.detach()));
  }
  Tensor total;
  for (const Tensor& part : parts) {
    Tensor share = exp(at(sub(at(part), at(largest))));
    total = total.is_valid() ? add(at(std::move(total)), at(std::move(share))) : std::move(share);
  }
  return add(at(log(at(std::move(total)))), at(largest));
}

Tensor padded_in_front(const Tensor& x, const At& at) {
  return pad(at(x), {PadAxis{.axis = 1, .before = 2}}, {.value = kLogZero});
}

// Log probabilities [n, 2s + 1] of all labels up to each place, after each sequence's last time.
Tensor forward_sums(const Tensor& emissions, const Tensor& labels, const Tensor& times, At at) {
  const std::int64_t steps = emissions.shape()[0];
  const std::int64_t places = labels.shape()[1];
  const Device device = labels.device();
  const auto emission = [&](std::int64_t time) {
    return squeeze(at(slice(at(emissions), 0, {.start = time, .stop = time + 1})), 0);
  };
  // A label may follow the one before it without a blank if they differ.
  const Tensor shifted = pad(at(labels), {PadAxis{.axis = 1, .before = 2}});
  const Tensor differs =
      not_equal(at(labels), at(slice(at(shifted), 1, {.start = 0, .stop = places})));
  const Tensor number = counted(device, places, at);
  const Tensor skips = logical_and(at(differs), at(greater(at(number), at(std::int64_t{1}))));
  const Tensor starts = less(at(number), at(std::int64_t{2}));
  Tensor sums = where(at(starts), at(emission(0)), at(kLogZero));
  for (std::int64_t time = 1; time < steps; ++time) {
    const Tensor before = padded_in_front(sums, at);
    const auto moved = [&](std::int64_t by) {
      return slice(at(before), 1, {.start = 2 - by, .stop = 2 - by + places});
    };
    const Tensor two_before = where(at(skips), at(moved(2)), at(kLogZero));
    const std::array parts{sums, moved(1), two_before};
    Tensor next = add(at(log_sum(parts, at)), at(emission(time)));
    const Tensor runs = greater(at(times), at(time));
    sums = where(at(runs), at(std::move(next)), at(sums));
  }
  return sums;
}

// Losses [n] in the compute type.
Tensor ctc_losses(const CtcOperands& in, const CtcOptions& options, const At& at) {
  const Shape shape = in.log_probabilities.tensor().shape();
  const std::int64_t most = in.targets.tensor().shape()[1];
  const Device device = in.targets.tensor().device();
  const Tensor times = column_of(checked_lengths(in.input_lengths, shape[0], at), at);
  const Tensor counts = checked_lengths(in.target_lengths, most, at);
  const Tensor labels = with_blanks(in.targets.tensor(), counts, options.blank, at);
  const Tensor count = column_of(counts, at);
  const Tensor x = detail::wide(detail::shared_operand(in.log_probabilities));
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const double unreachable = options.zero_infinity ? 0 : kInfinite;
  const Tensor is_empty = equal(at(count), at(std::int64_t{0}));
  const Tensor without_time = cast(
      at(where(at(is_empty), at(zeros(device, {1, 1}, x.dtype(), at.location())), at(unreachable))),
      x.dtype());
  if (shape[0] == 0) {
    return squeeze(at(without_time), 1);
  }
  const Tensor index =
      expand(at(unsqueeze(at(labels), 0)), {shape[0], shape[1], labels.shape()[1]});
  const Tensor emissions = maximum(at(gather(at(x), 2, at(index))), at(kLogZero));
  const Tensor sums = padded_in_front(forward_sums(emissions, labels, times, at), at);
  // Behind two columns of zeros, the last blank is at 2·count + 2, the last label one before it.
  const Tensor last = add(at(mul(at(count), at(std::int64_t{2}))), at(std::int64_t{2}));
  const std::array ends{gather(at(sums), 1, at(last)),
                        gather(at(sums), 1, at(sub(at(last), at(std::int64_t{1}))))};
  Tensor losses = neg(at(log_sum(ends, at)));
  const Tensor is_unreachable = greater(at(losses), at(-kLogZero / 10));
  losses = where(at(is_unreachable), at(unreachable), at(std::move(losses)));
  const Tensor has_no_time = equal(at(times), at(std::int64_t{0}));
  losses = where(at(has_no_time), at(without_time), at(std::move(losses)));
  return squeeze(at(std::move(losses)), 1);
}

}  // namespace

Tensor ctc_loss_per_sequence(Arg log_probabilities,
                             Arg targets,
                             Arg input_lengths,
                             Arg target_lengths,
                             const CtcOptions& options) {
  return detail::named_as("ctc_loss_per_sequence", [&] {
    const CtcOperands in{log_probabilities, targets, input_lengths, target_lengths};
    check_ctc(in, options);
    const At at(log_probabilities.location());
    return cast(at(ctc_losses(in, options, at)), log_probabilities.tensor().dtype());
  });
}

Tensor ctc_loss(Arg log_probabilities,
                Arg targets,
                Arg input_lengths,
                Arg target_lengths,
                const CtcOptions& options) {
  return detail::named_as("ctc_loss", [&] {
    const CtcOperands in{log_probabilities, targets, input_lengths, target_lengths};
    check_ctc(in, options);
    const At at(log_probabilities.location());
    const Tensor losses = ctc_losses(in, options, at);
    Tensor labels = maximum(at(cast(at(target_lengths.tensor()), DType::i64)), at(std::int64_t{1}));
    labels = cast(at(std::move(labels)), losses.dtype());
    return cast(at(mean(at(div(at(losses), at(std::move(labels)))))),
                log_probabilities.tensor().dtype());
  });
}

}  // namespace hearth
