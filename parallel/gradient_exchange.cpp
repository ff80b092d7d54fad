#include <hearth/parallel/gradient_exchange.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstring>
#include <type_traits>
#include <utility>

namespace hearth {
namespace {

double read_scalar(const LentRegion& region) {
  return visit_dtype(region.dtype(), [&](auto zero) {
    decltype(zero) value{};
    std::memcpy(&value, region.bytes().data(), sizeof value);
    if constexpr (std::is_same_v<decltype(zero), f16> || std::is_same_v<decltype(zero), bf16>) {
      return static_cast<double>(static_cast<float>(value));
    } else {
      return static_cast<double>(value);
    }
  });
}

std::size_t entry_of(const Bucket& bucket, std::size_t parameter) {
  return bucket.entries.front().parameter - parameter;
}

}  // namespace

GradientExchange::GradientExchange(const BucketPlan& plan,
                                   CoordinatorInbox coordinator,
                                   WorkerContext& context,
                                   std::int64_t step,
                                   Duration limit)
    : plan_(plan),
      coordinator_(std::move(coordinator)),
      context_(context),
      step_(step),
      limit_(limit),
      buckets_(plan.buckets().size()),
      loss_(std::make_shared<LossPart>(0.0)) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].pieces.resize(plan.buckets()[i].entries.size());
  }
}

void GradientExchange::report_loss(const Tensor& loss) {
  if (loss.element_count() != 1 || !is_float(loss.dtype())) {
    return;  // the sweep is about to say what is wrong with it
  }
  loss.publish();
  const StreamScope scope(context_.communication);
  // Nothing waits for the lent copy: it is read and given back at once, on the device's loop.
  static_cast<void>(lend(
      loss,
      [loss_part = loss_](Result<LentRegion> region) {
        if (region.has_value()) {
          *loss_part = read_scalar(region.value());
          region.value().done();
        } else {
          *loss_part = region.shared_error();
        }
      },
      Deadline::in(limit_)));
}

void GradientExchange::add(std::size_t parameter, Tensor& gradient) {
  const std::size_t index = plan_.bucket_of(parameter);
  if (index == BucketPlan::kNoBucket) {
    return;
  }
  const Bucket& bucket = plan_.buckets()[index];
  const std::size_t entry = bucket.entries.size() == 1 ? 0 : find_entry(bucket, parameter);
  Filling& filling = buckets_[index];
  filling.pieces[entry] =
      reshape(std::exchange(gradient, Tensor()), {bucket.entries[entry].count});
  ++filling.count;
  while (next_ + 1 < buckets_.size() && buckets_[next_].count == buckets_[next_].pieces.size()) {
    lend_next(true);
  }
}

}  // namespace hearth
