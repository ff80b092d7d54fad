#include "fourier_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace hearth::detail {
namespace {

// A pass of a radix without own code takes radix² steps; from here on a convolution is faster.
constexpr std::int64_t kMostRadix = 50;

template <class V>
Complex<V> operator+(const Complex<V>& a, const Complex<V>& b) {
  return {a.re + b.re, a.im + b.im};
}
template <class V>
Complex<V> operator-(const Complex<V>& a, const Complex<V>& b) {
  return {a.re - b.re, a.im - b.im};
}
template <class V, class T>
Complex<V> times(const Complex<V>& a, const Complex<T>& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// -i·a
template <class V>
Complex<V> quarter_back(const Complex<V>& a) {
  return {a.im, -a.re};
}

// exp(-2πi·k/n), of 0 <= k <= n.
template <class T>
Complex<T> root_of_unity(std::int64_t k, std::int64_t n) {
  // The angle closest to 0 has the smallest error.
  const std::int64_t near = 2 * k > n ? k - n : k;
  const double angle = -2 * std::numbers::pi * static_cast<double>(near) / static_cast<double>(n);
  return {static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle))};
}

// Radices in the order of the passes; empty if one would be too large.
std::vector<std::int64_t> radices_of(std::int64_t n) {
  std::vector<std::int64_t> radices;
  while (n % 4 == 0) {
    radices.push_back(4);
    n /= 4;
  }
  for (std::int64_t factor = 2; n > 1; ++factor) {
    if (factor > kMostRadix) {
      return {};
    }
    while (n % factor == 0) {
      radices.push_back(factor);
      n /= factor;
    }
  }
  return radices;
}

// The least length from n on whose prime factors are 2, 3 and 5.
std::int64_t smooth_length(std::int64_t n) {
  std::int64_t best = 1;
  while (best < n) {
    best *= 2;
  }
  for (std::int64_t fives = 1; fives < best; fives *= 5) {
    for (std::int64_t threes = fives; threes < best; threes *= 3) {
      std::int64_t length = threes;
      while (length < n) {
        length *= 2;
      }
      best = std::min(best, length);
    }
  }
  return best;
}

// One pass: x [before, radix, after] becomes y [radix, before, after]. A butterfly over the radix
// and the roots of the remaining length act on the numbers of each (before, after).
template <class V, class T>
struct PassCall {
  std::int64_t before;
  std::int64_t after;
  const Complex<V>* x;
  Complex<V>* y;
  const Complex<T>* roots;

  template <std::int64_t kRadix, class Butterfly>
  void run(const Butterfly& butterfly) const {
    constexpr auto kSize = static_cast<std::size_t>(kRadix);
    if (after == 1) {
      for (std::int64_t k = 0; k < before; ++k) {
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the butterfly writes it
        std::array<Complex<V>, kSize> out;
        butterfly(x + k * kRadix, 1, out.data());
        for (std::int64_t r = 0; r < kRadix; ++r) {
          y[k + before * r] = out[static_cast<std::size_t>(r)];
        }
      }
      return;
    }
    for (std::int64_t k = 0; k < before; ++k) {
      const Complex<V>* const from = x + k * kRadix * after;
      Complex<V>* const to = y + k * after;
      for (std::int64_t i = 0; i < after; ++i) {
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the butterfly writes it
        std::array<Complex<V>, kSize> out;
        butterfly(from + i, after, out.data());
        to[i] = out[0];
        for (std::int64_t r = 1; r < kRadix; ++r) {
          to[r * before * after + i] =
              times(out[static_cast<std::size_t>(r)], roots[(r - 1) * after + i]);
        }
      }
    }
  }
};

struct Radix2 {
  template <class V>
  void operator()(const Complex<V>* x, std::int64_t step, Complex<V>* y) const {
    y[0] = x[0] + x[step];
    y[1] = x[0] - x[step];
  }
};

struct Radix4 {
  template <class V>
  void operator()(const Complex<V>* x, std::int64_t step, Complex<V>* y) const {
    const Complex<V> even = x[0] + x[2 * step];
    const Complex<V> odd = x[0] - x[2 * step];
    const Complex<V> sum = x[step] + x[3 * step];
    const Complex<V> turn = quarter_back(x[step] - x[3 * step]);
    y[0] = even + sum;
    y[1] = odd + turn;
    y[2] = even - sum;
    y[3] = odd - turn;
  }
};

// Of an odd radix: sums and differences of the numbers at r and radix - r.
template <class T>
struct Radix3 {
  template <class V>
  void operator()(const Complex<V>* x, std::int64_t step, Complex<V>* y) const {
    constexpr T kSine = static_cast<T>(0.866025403784438646763723170752936183);
    const Complex<V> sum = x[step] + x[2 * step];
    const Complex<V> turn = quarter_back(x[step] - x[2 * step]);
    const Complex<V> middle{x[0].re - T(0.5) * sum.re, x[0].im - T(0.5) * sum.im};
    const Complex<V> side{kSine * turn.re, kSine * turn.im};
    y[0] = x[0] + sum;
    y[1] = middle + side;
    y[2] = middle - side;
  }
};

template <class T>
struct Radix5 {
  template <class V>
  void operator()(const Complex<V>* x, std::int64_t step, Complex<V>* y) const {
    constexpr T kCosine1 = static_cast<T>(0.309016994374947424102293417182819059);
    constexpr T kCosine2 = static_cast<T>(-0.809016994374947424102293417182819059);
    constexpr T kSine1 = static_cast<T>(0.951056516295153572116439333379382143);
    constexpr T kSine2 = static_cast<T>(0.587785252292473129168705954639072769);
    const Complex<V> sum1 = x[step] + x[4 * step];
    const Complex<V> sum2 = x[2 * step] + x[3 * step];
    const Complex<V> turn1 = quarter_back(x[step] - x[4 * step]);
    const Complex<V> turn2 = quarter_back(x[2 * step] - x[3 * step]);
    const auto mixed = [](T a, const Complex<V>& p, T b, const Complex<V>& q) {
      return Complex<V>{a * p.re + b * q.re, a * p.im + b * q.im};
    };
    const Complex<V> middle1 = x[0] + mixed(kCosine1, sum1, kCosine2, sum2);
    const Complex<V> middle2 = x[0] + mixed(kCosine2, sum1, kCosine1, sum2);
    const Complex<V> side1 = mixed(kSine1, turn1, kSine2, turn2);
    const Complex<V> side2 = mixed(kSine2, turn1, -kSine1, turn2);
    y[0] = x[0] + (sum1 + sum2);
    y[1] = middle1 + side1;
    y[2] = middle2 + side2;
    y[3] = middle2 - side2;
    y[4] = middle1 - side1;
  }
};

// Any odd radix up to kMostRadix, by its own roots.
template <class V, class T>
void run_odd_radix(const PassCall<V, T>& call, std::int64_t radix, const Complex<T>* turns) {
  const std::int64_t half = (radix - 1) / 2;
  // NOLINTBEGIN(cppcoreguidelines-pro-type-member-init): written before they are read
  std::array<Complex<V>, kMostRadix / 2> sum_of;
  std::array<Complex<V>, kMostRadix / 2> side_of;
  // NOLINTEND(cppcoreguidelines-pro-type-member-init)
  Complex<V>* const sums = sum_of.data();
  Complex<V>* const sides = side_of.data();
  for (std::int64_t k = 0; k < call.before; ++k) {
    for (std::int64_t i = 0; i < call.after; ++i) {
      const Complex<V>* const x = call.x + k * radix * call.after + i;
      Complex<V>* const y = call.y + k * call.after + i;
      const std::int64_t step = call.before * call.after;
      Complex<V> total = x[0];
      for (std::int64_t r = 1; r <= half; ++r) {
        const Complex<V> a = x[r * call.after];
        const Complex<V> b = x[(radix - r) * call.after];
        sums[r - 1] = a + b;
        sides[r - 1] = quarter_back(a - b);
        total = total + sums[r - 1];
      }
      y[0] = total;
      for (std::int64_t out = 1; out <= half; ++out) {
        Complex<V> middle = x[0];
        Complex<V> side{};
        for (std::int64_t r = 1, at = out; r <= half; ++r) {
          const T cosine = turns[at].re;
          const T sine = -turns[at].im;
          middle.re += cosine * sums[r - 1].re;
          middle.im += cosine * sums[r - 1].im;
          side.re += sine * sides[r - 1].re;
          side.im += sine * sides[r - 1].im;
          at += out;
          at = at >= radix ? at - radix : at;
        }
        const std::int64_t mirror = radix - out;
        y[out * step] = times(middle + side, call.roots[(out - 1) * call.after + i]);
        y[mirror * step] = times(middle - side, call.roots[(mirror - 1) * call.after + i]);
      }
    }
  }
}

}  // namespace

template <class T>
FourierPlan<T>::FourierPlan(std::int64_t length) : length_(length) {
  const std::vector<std::int64_t> radices = radices_of(length);
  if (length == 1 || !radices.empty()) {
    add_passes(radices);
  } else {
    make_convolution();
  }
}

template <class T>
void FourierPlan<T>::add_passes(const std::vector<std::int64_t>& radices) {
  std::int64_t before = 1;
  for (const std::int64_t radix : radices) {
    const std::int64_t after = length_ / (before * radix);
    Pass pass{.radix = radix,
              .before = before,
              .after = after,
              .first_root = pass_roots_.size(),
              .first_turn = 0};
    for (std::int64_t r = 1; r < radix; ++r) {
      for (std::int64_t i = 0; i < after; ++i) {
        pass_roots_.push_back(root_of_unity<T>(r * i, radix * after));
      }
    }
    pass.first_turn = pass_roots_.size();
    if (radix > 5) {
      for (std::int64_t r = 0; r < radix; ++r) {
        pass_roots_.push_back(root_of_unity<T>(r, radix));
      }
    }
    passes_.push_back(pass);
    before *= radix;
  }
}

// jk = (j² + k² - (k - j)²) / 2 makes the transform a convolution with the chirp.
template <class T>
void FourierPlan<T>::make_convolution() {
  inner_ = std::make_unique<const FourierPlan>(smooth_length(2 * length_ - 1));
  const std::int64_t size = inner_->length();
  std::vector<Complex<double>> exact;
  for (std::int64_t k = 0; k < length_; ++k) {
    exact.push_back(root_of_unity<double>(k * k % (2 * length_), 2 * length_));
    chirp_.push_back({static_cast<T>(exact.back().re), static_cast<T>(exact.back().im)});
  }
  const FourierPlan<double> transform(size);
  std::vector<Complex<double>> inverse(static_cast<std::size_t>(size), Complex<double>{0, 0});
  const double scale = 1 / static_cast<double>(size);
  for (std::int64_t k = 0; k < length_; ++k) {
    const Complex<double>& value = exact[static_cast<std::size_t>(k)];
    const Complex<double> conjugate{value.re * scale, -value.im * scale};
    inverse[static_cast<std::size_t>(k)] = conjugate;
    inverse[static_cast<std::size_t>(k == 0 ? 0 : size - k)] = conjugate;
  }
  std::vector<Complex<double>> work(static_cast<std::size_t>(transform.work_size()));
  transform.run(inverse.data(), work.data());
  for (const Complex<double>& value : inverse) {
    spectrum_.push_back({static_cast<T>(value.re), static_cast<T>(value.im)});
  }
}

template <class T>
std::int64_t FourierPlan<T>::work_size() const noexcept {
  return inner_ == nullptr ? length_ : inner_->length() + inner_->work_size();
}

template <class T>
Complex<T> FourierPlan<T>::root(std::int64_t k, std::int64_t n) noexcept {
  return root_of_unity<T>(k, n);
}

template <class T>
template <class V>
void FourierPlan<T>::run(Complex<V>* data, Complex<V>* work) const {
  if (inner_ == nullptr) {
    run_passes(data, work);
  } else {
    run_convolution(data, work);
  }
}

template <class T>
template <class V>
void FourierPlan<T>::run_passes(Complex<V>* data, Complex<V>* work) const {
  Complex<V>* from = data;
  Complex<V>* to = work;
  for (const Pass& pass : passes_) {
    const PassCall<V, T> call{.before = pass.before,
                              .after = pass.after,
                              .x = from,
                              .y = to,
                              .roots = pass_roots_.data() + pass.first_root};
    switch (pass.radix) {
      case 2:
        call.template run<2>(Radix2());
        break;
      case 3:
        call.template run<3>(Radix3<T>());
        break;
      case 4:
        call.template run<4>(Radix4());
        break;
      case 5:
        call.template run<5>(Radix5<T>());
        break;
      default:
        run_odd_radix(call, pass.radix, pass_roots_.data() + pass.first_turn);
    }
    std::swap(from, to);
  }
  if (from != data) {
    std::copy_n(from, length_, data);
  }
}

template <class T>
template <class V>
void FourierPlan<T>::run_convolution(Complex<V>* data, Complex<V>* work) const {
  const std::int64_t size = inner_->length();
  Complex<V>* const inner_work = work + size;
  for (std::int64_t k = 0; k < length_; ++k) {
    work[k] = times(data[k], chirp_[static_cast<std::size_t>(k)]);
  }
  std::fill(work + length_, work + size, Complex<V>{});
  inner_->run(work, inner_work);
  for (std::int64_t k = 0; k < size; ++k) {
    const Complex<V> product = times(work[k], spectrum_[static_cast<std::size_t>(k)]);
    work[k] = {product.im, product.re};  // the inverse transform, by swapped parts
  }
  inner_->run(work, inner_work);
  for (std::int64_t k = 0; k < length_; ++k) {
    data[k] = times(Complex<V>{work[k].im, work[k].re}, chirp_[static_cast<std::size_t>(k)]);
  }
}

#define HEARTH_OF_TYPE(T)                                                               \
  template class FourierPlan<T>;                                                        \
  template void FourierPlan<T>::run<T>(Complex<T>*, Complex<T>*) const;                 \
  template void FourierPlan<T>::run<LaneTypes<T>::Lanes>(Complex<LaneTypes<T>::Lanes>*, \
                                                         Complex<LaneTypes<T>::Lanes>*) const;
HEARTH_OF_TYPE(double)
HEARTH_OF_TYPE(float)
#undef HEARTH_OF_TYPE

}  // namespace hearth::detail
