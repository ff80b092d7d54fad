// FourierPlan: factors and roots of unity for complex transforms of one length, on the host. Mixed
// radices for lengths without large prime factors, else Bluestein's convolution, whose length has
// none. Private to runtime. Threads: any; immutable once made.
// Papers: Temperton, Self-sorting mixed-radix fast Fourier transforms, J. Comp. Phys. 52 (1983);
// Bluestein, A linear filtering approach to the computation of the DFT, IEEE AU-18 (1970).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hearth::detail {

/// Numbers of several rows side by side, with the operators of one: 16 bytes, which every x86-64
/// and ARM has in a register.
template <class T>
struct LaneTypes;
template <>
struct LaneTypes<float> {
  using Lanes [[gnu::vector_size(16)]] = float;
  static constexpr std::int64_t kCount = 4;
};
template <>
struct LaneTypes<double> {
  using Lanes [[gnu::vector_size(16)]] = double;
  static constexpr std::int64_t kCount = 2;
};

/// A complex number; V is a number or lanes of them.
template <class V>
struct Complex {
  V re;
  V im;
};

template <class T>
class FourierPlan final {
 public:
  /// Requires length >= 1.
  explicit FourierPlan(std::int64_t length);

  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  /// Number of complex numbers that run() uses beside the data.
  [[nodiscard]] std::int64_t work_size() const noexcept;
  /// y_k = Σ x_j·exp(-2πi·jk/length), in place. A caller swaps real and imaginary parts before and
  /// after for the opposite sign.
  template <class V>
  void run(Complex<V>* data, Complex<V>* work) const;
  /// exp(-2πi·k/n) for k from 0 to n.
  [[nodiscard]] static Complex<T> root(std::int64_t k, std::int64_t n) noexcept;

 private:
  struct Pass {
    std::int64_t radix;
    std::int64_t before;     ///< product of the radices before it
    std::int64_t after;      ///< product of the radices behind it
    std::size_t first_root;  ///< in pass_roots_, `after` for each of radix - 1
    std::size_t first_turn;  ///< in pass_roots_, the radix's own roots, if it has no code
  };
  template <class V>
  void run_passes(Complex<V>* data, Complex<V>* work) const;
  template <class V>
  void run_convolution(Complex<V>* data, Complex<V>* work) const;
  void add_passes(const std::vector<std::int64_t>& radices);
  void make_convolution();

  std::int64_t length_;
  std::vector<Pass> passes_;
  std::vector<Complex<T>> pass_roots_;
  std::vector<Complex<T>> chirp_;     ///< exp(-πi·k²/length); empty without a convolution
  std::vector<Complex<T>> spectrum_;  ///< of the conjugate chirp, over the inner length
  std::unique_ptr<const FourierPlan> inner_;
};

}  // namespace hearth::detail
