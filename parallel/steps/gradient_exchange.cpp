#include <hearth/parallel/gradient_exchange.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstring>
#include <type_traits>
#include <utility>

namespace hearth {
namespace {

double read_number(const LentRegion& region, std::size_t index) {
  return visit_dtype(region.dtype(), [&](auto zero) {
    decltype(zero) value{};
    std::memcpy(&value, region.bytes().data() + index * sizeof value, sizeof value);
    if constexpr (std::is_same_v<decltype(zero), f16> || std::is_same_v<decltype(zero), bf16>) {
      return static_cast<double>(static_cast<float>(value));
    } else {
      return static_cast<double>(value);
    }
  });
}

}  // namespace

void GradientExchange::LossPart::read(const Result<LentRegion>& region) {
  if (!region.has_value()) {
    loss = region.shared_error();
    return;
  }
  if (kind != LossKind::none) {
    loss = read_number(region.value(), 0);
    weight = kind == LossKind::sum ? read_number(region.value(), 1) : 0;
  }
}

GradientExchange::GradientExchange(const BucketPlan& plan,
                                   CoordinatorInbox coordinator,
                                   WorkerContext& context,
                                   std::int64_t step,
                                   std::chrono::nanoseconds limit)
    : plan_(plan),
      coordinator_(std::move(coordinator)),
      context_(context),
      step_(step),
      limit_(limit),
      buckets_(plan.buckets().size()),
      loss_(std::make_shared<LossPart>()) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].pieces.resize(plan.buckets()[i].entries.size());
  }
}

void GradientExchange::report_loss(const Tensor& loss, const Tensor& weight) {
  if (loss.element_count() != 1 || !is_float(loss.dtype())) {
    return;  // value_and_grad is about to throw for it
  }
  const bool is_sum = weight.is_valid();
  loss_->kind = is_sum ? LossKind::sum : LossKind::mean;
  Tensor numbers = loss;
  if (is_sum) {
    const DType dtype = loss.dtype() == DType::f64 ? DType::f64 : DType::f32;
    const auto row = [&](const Tensor& number) {
      return reshape(Arg(number, where()), {1}).to(dtype, where());
    };
    numbers = concat({row(loss), row(weight)}, 0, where());
  }
  if (is_alone()) {
    loss_numbers_ = std::move(numbers);  // for lend_loss()
    return;
  }
  numbers.publish(where());
  const StreamScope scope(context_.communication, where());
  // No stream waits for the lent copy: it is read and returned at once, on the device's loop.
  static_cast<void>(lend(
      numbers,
      [part = loss_](Result<LentRegion> region) {
        part->read(region);
        if (region.has_value()) {
          region.value().done();
        }
      },
      Deadline::in(limit_),
      where()));
}

void GradientExchange::add(std::size_t parameter, Tensor& gradient) {
  const std::optional<BucketPlace>& place = plan_.place_of(parameter);
  if (!place) {
    return;
  }
  Filling& filling = buckets_[place->bucket];
  const GradientBucket& bucket = plan_.buckets()[place->bucket];
  const std::int64_t count = bucket.entries[place->entry].count;
  Tensor piece = reshape(Arg(std::exchange(gradient, Tensor()), where()), {count});
  filling.pieces[place->entry] = is_alone() || piece.dtype() == bucket.dtype
                                     ? std::move(piece)
                                     : cast(Arg(std::move(piece), where()), bucket.dtype);
  ++filling.count;
  while (!is_alone() && next_ + 1 < buckets_.size() &&
         buckets_[next_].count == buckets_[next_].pieces.size()) {
    lend_next(true);
  }
}

void GradientExchange::record_unused(std::size_t parameter) {
  if (plan_.place_of(parameter)) {
    unused_.push_back(parameter);
  }
}

void GradientExchange::add_zeros(std::size_t parameter_count) {
  for (std::size_t parameter = 0; parameter < parameter_count; ++parameter) {
    record_unused(parameter);
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const GradientBucket& bucket = plan_.buckets()[i];
    if (is_alone()) {
      for (std::size_t entry = 0; entry < bucket.entries.size(); ++entry) {
        buckets_[i].pieces[entry] = zeros(context_.device,
                                          {bucket.entries[entry].count},
                                          dtype_of(bucket.entries[entry].parameter),
                                          where());
      }
    } else {
      buckets_[i].pieces.assign(
          1, zeros(context_.device, {bucket.element_count}, bucket.dtype, where()));
    }
  }
}

void GradientExchange::lend_next(bool is_early) {
  const std::size_t index = next_++;
  Filling& filling = buckets_[index];
  Tensor bucket = filling.pieces.size() == 1 ? std::move(filling.pieces[0])
                                             : concat(filling.pieces, 0, where());
  filling.pieces.clear();
  filling.reduced = lend_bucket(std::move(bucket), index, is_early);
}

Tensor GradientExchange::lend_bucket(Tensor bucket, std::size_t index, bool is_early) {
  bucket.publish(where());
  const StreamScope scope(context_.communication, where());
  bucket.adopt(where());
  const auto hand_on = [coordinator = coordinator_,
                        step = step_,
                        index,
                        rank = context_.rank,
                        is_early,
                        is_loss = is_alone(),
                        loss = loss_](Result<LentRegion> region) {
    if (is_loss) {
      loss->read(region);
    }
    coordinator.arrive({.step = step,
                        .bucket = index,
                        .rank = rank,
                        .is_early = is_early,
                        .loss = is_loss || index == 0 ? loss->loss : std::nullopt,
                        .region = std::move(region),
                        .loss_kind = loss->kind,
                        .weight = loss->weight});
  };
  Tensor lent = lend(std::move(bucket), hand_on, Deadline::in(limit_), where());
  lent.publish(where());
  return lent;
}

// The update waits until the coordinator has the loss, which comes during the sweep.
void GradientExchange::lend_loss() {
  Tensor numbers = loss_numbers_.is_valid() ? reshape(Arg(std::move(loss_numbers_), where()), {-1})
                                            : zeros(context_.device, {1}, DType::f32, where());
  lend_bucket(std::move(numbers), buckets_.size() - 1, false).adopt(where());
}

std::vector<Tensor> GradientExchange::collect(Gradients& gradients) {
  if (!unused_.empty()) {  // before the last bucket, which ends the sweep
    used_by_none_ = coordinator_.ask_unused(step_, context_.rank, std::move(unused_));
  }
  std::vector<Tensor> others(plan_.parameters().size() - gradients.size());
  if (is_alone()) {
    lend_loss();
    collect_own(gradients, others);
    return others;
  }
  while (next_ < buckets_.size()) {
    lend_next(false);
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    Tensor reduced = std::move(buckets_[i].reduced);
    reduced.adopt(where());  // waits until the coordinator has its data, including the loss
    for (const BucketEntry& entry : plan_.buckets()[i].entries) {
      const std::size_t index = entry.parameter;
      const Tensor flat = slice(
          Arg(reduced, where()), 0, {.start = entry.offset, .stop = entry.offset + entry.count});
      Tensor& place =
          index < gradients.size() ? gradients[index] : others[index - gradients.size()];
      const ParameterForm& form = plan_.parameters()[index];
      place = reshape(Arg(flat, where()), form.shape.dims());
      if (place.dtype() != form.dtype) {
        place = cast(Arg(std::move(place), where()), form.dtype);
      }
    }
  }
  return others;
}

void GradientExchange::collect_own(Gradients& gradients, std::vector<Tensor>& others) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const std::vector<BucketEntry>& entries = plan_.buckets()[i].entries;
    for (std::size_t entry = 0; entry < entries.size(); ++entry) {
      const std::size_t index = entries[entry].parameter;
      Tensor& place =
          index < gradients.size() ? gradients[index] : others[index - gradients.size()];
      place = reshape(Arg(std::move(buckets_[i].pieces[entry]), where()),
                      plan_.parameters()[index].shape.dims());
    }
  }
}

ErrorRef GradientExchange::leave_out_unused(Gradients& gradients, std::chrono::nanoseconds limit) {
  if (!used_by_none_.is_valid()) {
    return nullptr;
  }
  static_cast<void>(
      detail::PendingAccess::is_ready_by(used_by_none_, Deadline::in(limit), context_.stop));
  const Status status =
      detail::PendingAccess::peek(used_by_none_, Deadline::in(std::chrono::nanoseconds::zero()));
  if (!status.has_value()) {  // the answer may have come right after the wait
    return status.shared_error();
  }
  const std::vector<std::size_t> unused =
      std::move(used_by_none_).get({.deadline = Deadline::in({})});
  for (const std::size_t parameter : unused) {
    gradients.leave_out(parameter);
  }
  return nullptr;
}

}  // namespace hearth
