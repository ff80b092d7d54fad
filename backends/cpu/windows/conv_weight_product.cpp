#include "conv_weight_product.hpp"

#include "backends/cpu/products/gemm.hpp"

#include <algorithm>

namespace hearth::cpu {

namespace {

// With larger planes, tiles over rows of pixels are as fast, and copy nothing twice.
constexpr std::int64_t kMostProductPixels = 256;

// Planes of an operand that lie one after the other, pixels without gaps.
bool is_flat(const TensorView& planes) {
  return planes.strides()[3] == 1 && planes.strides()[2] == planes.shape()[3];
}

// weight[o][c] = Σ_pixel grad[o][pixel]·x[c][pixel], over the pixels of all images.
template <class T>
class WeightProduct {
 public:
  WeightProduct(const TensorView& x, const TensorView& grad, const TensorView& weight, IsaLevel isa)
      : kernels_(tile_kernels<T>(isa)), x_(x), grad_(grad), weight_(weight) {
    images_ = x.shape()[0];
    pixels_ = x.shape()[2] * x.shape()[3];
    gemm_.m = weight.shape()[0];
    gemm_.n = weight.shape()[1];
    gemm_.k = images_ * pixels_;
    gemm_.a = operand(grad);
    const GemmOperand b = operand(x);
    gemm_.b = {b.data, b.dtype, b.column_step, b.row_step};
    gemm_.c_step = gemm_.n;
    // Joined gradient | joined inputs | weights before they are narrowed | the product's own.
    const std::int64_t row_bytes = gemm_.k * std::int64_t{sizeof(T)};
    x_at_ = images_ == 1 ? 0 : whole_lines(gemm_.m * row_bytes);
    weights_at_ = x_at_ + (images_ == 1 ? 0 : whole_lines(gemm_.n * row_bytes));
    gemm_at_ = weights_at_;
    if (weight.dtype != dtype_of<T>) {
      gemm_at_ += whole_lines(weight.element_count() * std::int64_t{sizeof(T)});
    }
  }

  [[nodiscard]] std::int64_t scratch_bytes() const {
    return gemm_at_ + gemm_scratch_bytes(gemm_, kernels_);
  }

  void run(std::byte* scratch, Arena& arena) {
    if (images_ > 1) {
      join(grad_, scratch, arena);
      join(x_, scratch + x_at_, arena);
      gemm_.a.data = scratch;
      gemm_.b.data = scratch + x_at_;
    }
    const bool is_direct = weight_.dtype == dtype_of<T>;
    gemm_.c = reinterpret_cast<T*>(is_direct ? weight_.data : scratch + weights_at_);
    run_gemm(gemm_, kernels_, scratch + gemm_at_, &arena);
    if (!is_direct) {
      kernels_.store(gemm_.c, weight_.data, weight_.dtype, weight_.element_count());
    }
  }

 private:
  // Rows of pixels, one a channel: as they are, or as join() writes them.
  [[nodiscard]] GemmOperand operand(const TensorView& planes) const {
    if (images_ == 1) {
      return {planes.data, planes.dtype, planes.strides()[1], 1};
    }
    return {nullptr, dtype_of<T>, gemm_.k, 1};
  }

  // Copies the planes of a channel one after the other.
  void join(const TensorView& planes, std::byte* to, Arena& arena) const {
    constexpr std::int64_t kGrain = 1 << 16;
    const std::int64_t channels = planes.shape()[1];
    const std::int64_t element_bytes = size_bytes(planes.dtype);
    T* const rows = reinterpret_cast<T*>(to);
    arena.parallel_for(channels,
                       std::max<std::int64_t>(1, kGrain / gemm_.k),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t image = 0; image < images_; ++image) {
                           for (std::int64_t c = begin; c < end; ++c) {
                             const std::int64_t from =
                                 image * planes.strides()[0] + c * planes.strides()[1];
                             kernels_.load(planes.data + from * element_bytes,
                                           planes.dtype,
                                           rows + c * gemm_.k + image * pixels_,
                                           pixels_);
                           }
                         }
                       });
  }

  const TileKernels<T>& kernels_;
  const TensorView& x_;
  const TensorView& grad_;
  const TensorView& weight_;
  Gemm<T> gemm_;
  std::int64_t images_ = 1;
  std::int64_t pixels_ = 1;
  std::int64_t x_at_ = 0;
  std::int64_t weights_at_ = 0;
  std::int64_t gemm_at_ = 0;
};

template <class T>
Status run_product_gradient(const TensorView& x,
                            const TensorView& grad,
                            const TensorView& weight,
                            KernelContext& context) {
  WeightProduct<T> work(x, grad, weight, context.isa);
  HEARTH_TRY(std::byte* const scratch, context.scratch.take_all(work.scratch_bytes()));
  work.run(scratch, context.arena);
  return {};
}

}  // namespace

bool is_weight_product(const TensorView& x,
                       const TensorView& grad,
                       const TensorView& weight,
                       const ConvAttributes& attributes) noexcept {
  const std::int64_t pixels = x.shape()[2] * x.shape()[3];
  return weight.shape()[2] == 1 && weight.shape()[3] == 1 && attributes.groups == 1 &&
         attributes.stride[0] == 1 && attributes.stride[1] == 1 && attributes.padding[0] == 0 &&
         attributes.padding[1] == 0 && is_flat(x) && is_flat(grad) &&
         pixels <= kMostProductPixels && x.shape()[0] * pixels <= kMostDepth;
}

Status run_weight_product(const TensorView& x,
                          const TensorView& grad,
                          const TensorView& weight,
                          KernelContext& context) {
  return x.dtype == DType::f64 ? run_product_gradient<double>(x, grad, weight, context)
                               : run_product_gradient<float>(x, grad, weight, context);
}

}  // namespace hearth::cpu
