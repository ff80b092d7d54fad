#include "product_loops.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

// Built without contraction: the product is rounded before the sum.
template <ProductSum sum, class T>
T combine(T product, T rest) noexcept {
  if constexpr (sum == ProductSum::plus) {
    return product + rest;
  } else if constexpr (sum == ProductSum::minus) {
    return product - rest;
  } else {
    return rest - product;
  }
}

template <ProductSum sum, bool has_d, bool one_a, bool one_c, class T>
void run(
    void* out, const void* a, const void* b, const void* c, const void* d, std::int64_t count) {
  auto* to = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  const auto* z = static_cast<const T*>(c);
  const auto* w = static_cast<const T*>(d);
  const T first_x = *x;
  const T first_z = *z;  // read before the first store, which may overwrite it
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const T product = (one_a ? first_x : x[i]) * y[i];
    const T rest = one_c ? first_z : z[i];
    to[i] = combine<sum>(product, has_d ? rest * w[i] : rest);
  }
}

template <ProductSum sum, bool has_d, class T>
constexpr ProductLoops::Forms forms() {
  return {run<sum, has_d, false, false, T>,
          run<sum, has_d, true, false, T>,
          run<sum, has_d, false, true, T>,
          run<sum, has_d, true, true, T>};
}
template <bool has_d, class T>
constexpr std::array<ProductLoops::Forms, 3> sums() {
  return {forms<ProductSum::plus, has_d, T>(),
          forms<ProductSum::minus, has_d, T>(),
          forms<ProductSum::from, has_d, T>()};
}
template <class T>
constexpr ProductLoops::Row row() {
  return {.with_value = sums<false, T>(), .with_product = sums<true, T>()};
}

}  // namespace

extern const ProductLoops product_loops_table = {row<float>(), row<double>()};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
