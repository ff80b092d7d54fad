// A kernel takes several rows at once, side by side in lanes, and computes with half of the length
// where the rows are real. A row has the same bits alone and among others.
#include "fourier_kernels.hpp"

#include <hearth/runtime/base/interner.hpp>

#include "fourier_plan.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace hearth::detail {
namespace {

// ---- plans ----

// Longer transforms, and those beyond the most plans, make a plan for each call.
constexpr std::int64_t kLongestKept = std::int64_t{1} << 18;
constexpr std::uint32_t kMostPlans = 128;

/// A transform, and for real rows of twice its length their roots exp(-πi·k/length).
template <class T>
struct SharedPlan {
  FourierPlan<T> transform;
  std::vector<Complex<T>> half_roots;
};
struct PlanKey {
  std::int64_t length = 1;
  bool is_half = false;
};

template <class T>
struct PlanPolicy {
  using Id = hearth::detail::Id<struct FourierPlanTag>;
  using Key = PlanKey;
  struct Entry {
    PlanKey key;
    std::shared_ptr<const SharedPlan<T>> plan;
  };
  static std::uint64_t hash(const PlanKey& key) noexcept {
    return (static_cast<std::uint64_t>(key.length) * 2 + (key.is_half ? 1 : 0)) *
           0x9e3779b97f4a7c15U;
  }
  static bool equal(const Entry& entry, const PlanKey& key) noexcept {
    return entry.key.length == key.length && entry.key.is_half == key.is_half;
  }
  static Entry make(const PlanKey& key) {
    auto plan = std::make_shared<SharedPlan<T>>(SharedPlan<T>{FourierPlan<T>(key.length), {}});
    if (key.is_half) {
      for (std::int64_t k = 0; k <= key.length; ++k) {
        plan->half_roots.push_back(FourierPlan<T>::root(k, 2 * key.length));
      }
    }
    return {key, std::move(plan)};
  }
  static Error full(std::uint32_t /*cap*/) {
    return Error{.code = ErrorCode::out_of_memory, .text = "fft: all plans are in use"};
  }
};

// Values of a pure function, made once for each length: no call sees another's.
template <class T>
std::shared_ptr<const SharedPlan<T>> plan_for(PlanKey key) {
  static Interner<PlanPolicy<T>> kept(kMostPlans);
  if (key.length <= kLongestKept) {
    const auto id = kept.intern(key);
    if (id.has_value()) {
      return kept[id.value()].plan;
    }
  }
  return PlanPolicy<T>::make(key).plan;
}

// ---- lanes ----

template <class V, class T>
inline constexpr std::int64_t kLaneCount = std::is_same_v<V, T> ? 1 : LaneTypes<T>::kCount;

/// All lanes at once: faster than one after the other.
template <class V, class T>
V gathered(const T* from, std::int64_t step) {
  if constexpr (std::is_same_v<V, T>) {
    return *from;
  } else if constexpr (LaneTypes<T>::kCount == 4) {
    return V{from[0], from[step], from[2 * step], from[3 * step]};
  } else {
    return V{from[0], from[step]};
  }
}
template <class T, class V>
T lane_of(const V& value, std::int64_t lane) {
  if constexpr (std::is_same_v<V, T>) {
    return value;
  } else {
    return value[lane];
  }
}

/// Where the numbers of some rows lie, of which a group of lanes takes `count`.
struct RowPlaces {
  std::int64_t lane_step;
  std::int64_t number_step;
};
template <class T>
struct InputRows {
  const T* data;
  RowPlaces places;
  std::int64_t count;

  /// Number k of each row, from `part` in it; other lanes are 0.
  template <class V>
  [[nodiscard]] V loaded(std::int64_t k, std::int64_t part = 0) const {
    const T* const from = data + k * places.number_step + part;
    if (count == kLaneCount<V, T>) {
      return gathered<V, T>(from, places.lane_step);
    }
    std::array<T, 4> some{};
    for (std::int64_t lane = 0; lane < count; ++lane) {
      some[static_cast<std::size_t>(lane)] = from[lane * places.lane_step];
    }
    return gathered<V, T>(some.data(), 1);
  }
};
template <class T>
struct OutputRows {
  T* data;
  RowPlaces places;
  std::int64_t count;

  template <class V>
  void store(const V& value, std::int64_t k, std::int64_t part = 0) const {
    T* const to = data + k * places.number_step + part;
    if (count == kLaneCount<V, T>) {
      for (std::int64_t lane = 0; lane < kLaneCount<V, T>; ++lane) {
        to[lane * places.lane_step] = lane_of<T>(value, lane);
      }
      return;
    }
    for (std::int64_t lane = 0; lane < count; ++lane) {
      to[lane * places.lane_step] = lane_of<T>(value, lane);
    }
  }
};

// ---- transforms of one group of rows ----

template <class T>
struct FourierJob {
  const SharedPlan<T>* plan;
  std::int64_t length;  ///< of the real rows; of complex ones the plan's
  bool is_inverse;
  T scale;
  T interior;
};

// Uninitialised: a transform writes all that it reads.
template <class V, class T>
struct Buffers {
  explicit Buffers(const FourierPlan<T>& plan)
      : data(std::make_unique_for_overwrite<Complex<V>[]>(
            static_cast<std::size_t>(plan.length() + 1))),
        work(std::make_unique_for_overwrite<Complex<V>[]>(
            static_cast<std::size_t>(plan.work_size()))) {}
  std::unique_ptr<Complex<V>[]> data;
  std::unique_ptr<Complex<V>[]> work;
};

// The inverse transform is the forward one of swapped parts.
template <class V, class T>
void run_complex(const FourierJob<T>& job,
                 const InputRows<T>& from,
                 const OutputRows<T>& to,
                 Complex<V>* data,
                 Complex<V>* work) {
  const std::int64_t re = job.is_inverse ? 1 : 0;
  for (std::int64_t k = 0; k < job.length; ++k) {
    data[k] = {from.template loaded<V>(k, re), from.template loaded<V>(k, 1 - re)};
  }
  job.plan->transform.run(data, work);
  for (std::int64_t k = 0; k < job.length; ++k) {
    to.store(data[k].re * job.scale, k, re);
    to.store(data[k].im * job.scale, k, 1 - re);
  }
}

// An even length: numbers 2j and 2j + 1 are the parts of one complex number. An odd one: the
// imaginary parts are 0.
template <class V, class T>
void run_half(const FourierJob<T>& job,
              const InputRows<T>& from,
              const OutputRows<T>& to,
              Complex<V>* data,
              Complex<V>* work) {
  const std::int64_t n = job.length;
  const std::int64_t half = n / 2;
  const auto factor = [&](std::int64_t k) {
    return k == 0 || 2 * k == n ? job.scale : job.scale * job.interior;
  };
  if (n % 2 != 0) {
    for (std::int64_t k = 0; k < n; ++k) {
      data[k] = {from.template loaded<V>(k), V{}};
    }
    job.plan->transform.run(data, work);
    for (std::int64_t k = 0; k <= half; ++k) {
      to.store(data[k].re * factor(k), k, 0);
      to.store(data[k].im * factor(k), k, 1);
    }
    return;
  }
  for (std::int64_t k = 0; k < half; ++k) {
    data[k] = {from.template loaded<V>(2 * k), from.template loaded<V>(2 * k + 1)};
  }
  job.plan->transform.run(data, work);
  data[half] = data[0];
  for (std::int64_t k = 0; k <= half; ++k) {
    const Complex<V>& a = data[k];
    const Complex<V>& b = data[half - k];
    const Complex<T>& root = job.plan->half_roots[static_cast<std::size_t>(k)];
    const Complex<V> even{a.re + b.re, a.im - b.im};
    const Complex<V> odd{a.im + b.im, b.re - a.re};
    const T scale = factor(k) / 2;
    to.store((even.re + (odd.re * root.re - odd.im * root.im)) * scale, k, 0);
    to.store((even.im + (odd.re * root.im + odd.im * root.re)) * scale, k, 1);
  }
}

// The reverse of run_half, by swapped parts.
template <class V, class T>
void run_real(const FourierJob<T>& job,
              const InputRows<T>& from,
              const OutputRows<T>& to,
              Complex<V>* data,
              Complex<V>* work) {
  const std::int64_t n = job.length;
  const std::int64_t half = n / 2;
  const auto number = [&](std::int64_t k) {
    if (k == 0 || 2 * k == n) {
      return Complex<V>{from.template loaded<V>(k) * job.scale, V{}};
    }
    const T factor = job.scale * job.interior;
    return Complex<V>{from.template loaded<V>(k) * factor, from.template loaded<V>(k, 1) * factor};
  };
  if (n % 2 != 0) {
    for (std::int64_t k = 0; k <= half; ++k) {
      const Complex<V> value = number(k);
      data[k] = {value.im, value.re};
      if (k > 0) {
        data[n - k] = {-value.im, value.re};
      }
    }
    job.plan->transform.run(data, work);
    for (std::int64_t k = 0; k < n; ++k) {
      to.store(data[k].im, k);
    }
    return;
  }
  const auto join = [&](const Complex<V>& x, const Complex<V>& y, std::int64_t place) {
    const Complex<T>& root = job.plan->half_roots[static_cast<std::size_t>(place)];
    const Complex<V> rest{x.re - y.re, x.im + y.im};
    // i·conj(root)·rest, beside the sum of both.
    const V re = root.im * rest.re - root.re * rest.im;
    const V im = root.re * rest.re + root.im * rest.im;
    data[place] = {(x.im - y.im) + im, (x.re + y.re) + re};
  };
  for (std::int64_t k = 0; k <= half - k; ++k) {
    const Complex<V> a = number(k);
    const Complex<V> b = number(half - k);
    join(a, b, k);
    if (k > 0 && k != half - k) {
      join(b, a, half - k);
    }
  }
  job.plan->transform.run(data, work);
  for (std::int64_t k = 0; k < half; ++k) {
    to.store(data[k].im, 2 * k);
    to.store(data[k].re, 2 * k + 1);
  }
}

// ---- kernels ----

/// Kind of transform. A rule sees no numbers of a call, so the length of a real result is part of
/// it.
enum class FourierForm : std::uint8_t { complex, inverse, half, even_real, odd_real };

/// Numbers of a row along axis 1 of [outer, n, inner] or [outer, n, inner, 2].
std::int64_t length_of(FourierForm form, const Shape& x) {
  switch (form) {
    case FourierForm::even_real:
      return 2 * x[1] - 2;
    case FourierForm::odd_real:
      return 2 * x[1] - 1;
    default:
      return x[1];
  }
}

TensorForm form_of_result(FourierForm form, const TensorForm& x) {
  const std::int64_t n = length_of(form, x.shape);
  switch (form) {
    case FourierForm::half:
      return {x.dtype, Shape({x.shape[0], n / 2 + 1, x.shape[2], 2})};
    case FourierForm::even_real:
    case FourierForm::odd_real:
      return {x.dtype, Shape({x.shape[0], n, x.shape[2]})};
    default:
      return x;
  }
}

template <class V, class T>
void run_rows(FourierForm form,
              const FourierJob<T>& job,
              const InputRows<T>& from,
              const OutputRows<T>& to,
              const Buffers<V, T>& buffers) {
  switch (form) {
    case FourierForm::half:
      return run_half<V, T>(job, from, to, buffers.data.get(), buffers.work.get());
    case FourierForm::even_real:
    case FourierForm::odd_real:
      return run_real<V, T>(job, from, to, buffers.data.get(), buffers.work.get());
    default:
      return run_complex<V, T>(job, from, to, buffers.data.get(), buffers.work.get());
  }
}

// The rows of [outer, n, inner] or [outer, n, inner, 2]. Lanes are neighbours: of the inner axis if
// there is one, else of the outer axis.
struct RowGrid {
  std::int64_t outer;
  std::int64_t inner;
  std::int64_t numbers;  ///< of one row
  std::int64_t parts;    ///< elements of a number

  explicit RowGrid(const Shape& shape)
      : outer(shape[0]), inner(shape[2]), numbers(shape[1]), parts(shape.rank() == 4 ? 2 : 1) {}
  [[nodiscard]] RowPlaces places() const noexcept {
    return {.lane_step = inner > 1 ? parts : numbers * parts, .number_step = inner * parts};
  }
  [[nodiscard]] std::int64_t start(std::int64_t at_outer, std::int64_t at_inner) const noexcept {
    return (at_outer * numbers * inner + at_inner) * parts;
  }
};

// Phases: find the plan; cut the rows into groups of lanes, which the cores share. A row without
// neighbours runs without lanes.
template <class T>
void run_fourier(const HostKernelCall& call, FourierForm form) {
  using Lanes = typename LaneTypes<T>::Lanes;
  constexpr std::int64_t kLanes = LaneTypes<T>::kCount;
  constexpr std::int64_t kRangeNumbers = 16'384;
  const std::span<const T> x = call.input<T>(0);
  const std::span<T> y = call.output<T>();
  const std::int64_t n = length_of(form, call.input_shape(0));
  if (y.empty()) {
    return;
  }
  const bool is_complex = form == FourierForm::complex || form == FourierForm::inverse;
  const bool is_halved = !is_complex && n % 2 == 0;
  const auto plan = plan_for<T>({.length = is_halved ? n / 2 : n, .is_half = is_halved});
  const FourierJob<T> job{.plan = plan.get(),
                          .length = n,
                          .is_inverse = form == FourierForm::inverse,
                          .scale = static_cast<T>(call.number(0)),
                          .interior = static_cast<T>(call.number(1))};
  const RowGrid in(call.input_shape(0));
  const RowGrid out(call.output_shape());
  const std::int64_t side = in.inner > 1 ? in.inner : in.outer;
  const std::int64_t groups = (side + kLanes - 1) / kLanes;
  const std::int64_t all = in.inner > 1 ? in.outer * groups : groups;
  call.parallel_for(all, kRangeNumbers / (n * kLanes) + 1, [&](auto begin, auto end) {
    const Buffers<Lanes, T> buffers(plan->transform);
    for (std::int64_t group = begin; group < end; ++group) {
      const std::int64_t first = group % groups * kLanes;
      const std::int64_t at_outer = in.inner > 1 ? group / groups : first;
      const std::int64_t at_inner = in.inner > 1 ? first : 0;
      const std::int64_t count = std::min(kLanes, side - first);
      const InputRows<T> from{x.data() + in.start(at_outer, at_inner), in.places(), count};
      const OutputRows<T> to{y.data() + out.start(at_outer, at_inner), out.places(), count};
      if (count > 1) {
        run_rows<Lanes, T>(form, job, from, to, buffers);
      } else {
        run_rows<T, T>(form, job, from, to, Buffers<T, T>(plan->transform));
      }
    }
  });
}

using FourierVjp = Tensor (*)(const CustomGradient& call, const At& at);

HostOp fourier_op(const char* name, FourierForm form, FourierVjp vjp) {
  CustomKernelConfig config{.name = name, .inputs = {{"x"}}, .numbers = {{"scale"}, {"interior"}}};
  config.rule = [form](std::span<const TensorForm> in) {
    return std::vector<TensorForm>{form_of_result(form, in[0])};
  };
  config.host = [form](const HostKernelCall& call) {
    if (call.input_dtype(0) == DType::f64) {
      run_fourier<double>(call, form);
    } else {
      run_fourier<float>(call, form);
    }
  };
  config.vjp = [vjp](const CustomGradient& call) {
    return std::vector<Tensor>{vjp(call, At(SourceLoc()))};
  };
  return HostOp(config);
}

// The adjoint of a transform is the one of the other sign. The adjoint of half of one counts each
// number once that stands for two.
Tensor complex_gradient(const CustomGradient& call, const At& at) {
  return complex_transform(true, call.gradient, call.numbers[0], at);
}
Tensor inverse_gradient_of(const CustomGradient& call, const At& at) {
  return complex_transform(false, call.gradient, call.numbers[0], at);
}
Tensor half_gradient(const CustomGradient& call, const At& at) {
  const std::int64_t n = call.inputs[0].shape()[1];
  return real_from_half(call.gradient, n, call.numbers[0], call.numbers[1] / 2, at);
}
Tensor real_gradient(const CustomGradient& call, const At& at) {
  return half_transform(call.gradient, call.numbers[0], call.numbers[1] * 2, at);
}

}  // namespace

Tensor complex_transform(bool is_inverse, const Tensor& x, double scale, const At& at) {
  static const HostOp kForward = fourier_op("fft", FourierForm::complex, complex_gradient);
  static const HostOp kInverse = fourier_op("ifft", FourierForm::inverse, inverse_gradient_of);
  return (is_inverse ? kInverse : kForward)({x}, {scale, 1.0}, at);
}

Tensor half_transform(const Tensor& x, double scale, double interior, const At& at) {
  static const HostOp kOp = fourier_op("rfft", FourierForm::half, half_gradient);
  return kOp({x}, {scale, interior}, at);
}

Tensor real_from_half(
    const Tensor& x, std::int64_t n, double scale, double interior, const At& at) {
  static const HostOp kEven = fourier_op("irfft", FourierForm::even_real, real_gradient);
  static const HostOp kOdd = fourier_op("irfft", FourierForm::odd_real, real_gradient);
  return (n % 2 == 0 ? kEven : kOdd)({x}, {scale, interior}, at);
}

}  // namespace hearth::detail
