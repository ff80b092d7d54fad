// cuBLASLt on the host: a library of products for the host's driver (host_driver.cpp), which tests
// put in front of the empty one (host_cublaslt.cpp). Has the functions of
// backends/cuda/driver/cublaslt_api.hpp. A product runs in its stream, sums in f64, and rounds
// factors to TF32 where the program allows it.
#include "backends/cuda/driver/cublaslt_types.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

// The names and types are those of cuBLASLt.
// NOLINTBEGIN(readability-identifier-naming,google-build-using-namespace,performance-no-int-to-ptr)
namespace {

using namespace hearth::cuda;

constexpr int kInvalidValue = 7;

struct Product {
  BlasCompute compute = BlasCompute::f32;
  std::int32_t is_a_transposed = 0;
  std::int32_t is_b_transposed = 0;
  std::int32_t epilogue = 1;
  std::uint64_t bias = 0;
};
struct Matrix {
  BlasType type = BlasType::f32;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t stride = 0;
  std::int32_t count = 1;
  std::int64_t apart = 0;
};

template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// To nearest, ties to even: eight bits of exponent and ten of the fraction remain.
float as_tf32(float x) {
  constexpr std::uint32_t kDropped = 13;
  const auto bits = bits_as<std::uint32_t>(x);
  const std::uint32_t half = (1U << (kDropped - 1)) - 1 + (bits >> kDropped & 1U);
  return bits_as<float>((bits + half) >> kDropped << kDropped);
}

// By hand, since not every compiler has the type.
float of_half(std::uint16_t bits) {
  const int exponent = bits >> 10U & 31;
  const auto fraction = static_cast<float>(bits & 1023U);
  const float size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000U) != 0 ? -size : size;
}
std::uint16_t half_of(float x) {
  const auto bits = bits_as<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t size = bits & 0x7fffffffU;
  if (size < 0x38800000U) {  // below 2^-14: a denormal
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint32_t>(std::nearbyint(std::ldexp(std::abs(x), 24))));
  }
  const std::uint32_t rounded = (size + 0xfffU + (size >> 13U & 1U) - 0x38000000U) >> 13U;
  return static_cast<std::uint16_t>(sign | std::min(rounded, 0x7c00U));
}

template <class T>
T at(std::uint64_t base, std::int64_t i) {
  T value;
  std::memcpy(&value,
              reinterpret_cast<const char*>(base) + i * static_cast<std::int64_t>(sizeof(T)),
              sizeof value);
  return value;
}

double element(std::uint64_t base, BlasType type, std::int64_t i, bool by_tf32) {
  switch (type) {
    case BlasType::f64:
      return at<double>(base, i);
    case BlasType::f16:
      return of_half(at<std::uint16_t>(base, i));
    case BlasType::bf16:
      return bits_as<float>(std::uint32_t{at<std::uint16_t>(base, i)} << 16U);
    case BlasType::i8:
      return at<std::int8_t>(base, i);
    case BlasType::i32:
      return at<std::int32_t>(base, i);
    default:
      return by_tf32 ? as_tf32(at<float>(base, i)) : at<float>(base, i);
  }
}

void put(std::uint64_t base, BlasType type, std::int64_t i, double value) {
  auto* const to = reinterpret_cast<char*>(base);
  const auto write = [&](auto typed) {
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof typed), &typed, sizeof typed);
  };
  switch (type) {
    case BlasType::f64:
      return write(value);
    case BlasType::f16:
      return write(half_of(static_cast<float>(value)));
    case BlasType::bf16: {
      const auto bits = bits_as<std::uint32_t>(static_cast<float>(value));
      return write(static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U));
    }
    case BlasType::i32:
      return write(static_cast<std::int32_t>(value));
    default:
      return write(static_cast<float>(value));
  }
}

/// A product in a stream.
struct Call {
  Product product;
  Matrix a;
  Matrix b;
  Matrix d;
  std::uint64_t a_address = 0;
  std::uint64_t b_address = 0;
  std::uint64_t d_address = 0;

  [[nodiscard]] std::vector<double> side(const Matrix& m,
                                         std::uint64_t address,
                                         bool is_transposed,
                                         std::int32_t matrix) const {
    const std::uint64_t across = is_transposed ? m.columns : m.rows;
    const std::uint64_t depth = is_transposed ? m.rows : m.columns;
    const bool by_tf32 = product.compute == BlasCompute::f32_by_tf32;
    std::vector<double> values(across * depth);
    for (std::uint64_t i = 0; i < across; ++i) {
      for (std::uint64_t k = 0; k < depth; ++k) {
        const std::uint64_t row = is_transposed ? k : i;
        const std::uint64_t column = is_transposed ? i : k;
        values[i * depth + k] = element(address,
                                        m.type,
                                        matrix * m.apart + static_cast<std::int64_t>(row) +
                                            static_cast<std::int64_t>(column) * m.stride,
                                        by_tf32);
      }
    }
    return values;
  }

  void run() const {
    const std::uint64_t depth = product.is_a_transposed != 0 ? a.rows : a.columns;
    for (std::int32_t matrix = 0; matrix < d.count; ++matrix) {
      const std::vector<double> left = side(a, a_address, product.is_a_transposed != 0, matrix);
      const std::vector<double> right = side(b, b_address, product.is_b_transposed == 0, matrix);
      for (std::uint64_t i = 0; i < d.rows; ++i) {
        for (std::uint64_t j = 0; j < d.columns; ++j) {
          double sum = 0;
          for (std::uint64_t k = 0; k < depth; ++k) {
            sum += left[i * depth + k] * right[j * depth + k];
          }
          if (product.epilogue == kAddsBias) {
            sum += element(product.bias, d.type, static_cast<std::int64_t>(i), false);
          }
          put(d_address,
              d.type,
              matrix * d.apart + static_cast<std::int64_t>(i) +
                  static_cast<std::int64_t>(j) * d.stride,
              sum);
        }
      }
    }
  }
};

void run_call(void* data) {
  const std::unique_ptr<Call> call(static_cast<Call*>(data));
  call->run();
}

template <class T>
int set(T& to, const void* value, std::size_t size) {
  if (size != sizeof to) {
    return kInvalidValue;
  }
  std::memcpy(&to, value, size);
  return 0;
}

}  // namespace

extern "C" {

int cublasLtCreate(cublasLtHandle_t* handle) {
  static int only = 0;
  *handle = reinterpret_cast<cublasLtHandle_t>(&only);
  return 0;
}
int cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, int compute, int /*scale*/) {
  *product = reinterpret_cast<cublasLtMatmulDesc_t>(
      new Product{.compute = static_cast<BlasCompute>(compute)});
  return 0;
}
int cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete reinterpret_cast<Product*>(product);
  return 0;
}
int cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                   int attribute,
                                   const void* value,
                                   std::size_t size) {
  Product& own = *reinterpret_cast<Product*>(product);
  switch (attribute) {
    case kTransposeA:
      return set(own.is_a_transposed, value, size);
    case kTransposeB:
      return set(own.is_b_transposed, value, size);
    case kEpilogue:
      return set(own.epilogue, value, size);
    case kBiasPointer:
      return set(own.bias, value, size);
    default:
      return kInvalidValue;
  }
}
int cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* matrix,
                               int type,
                               std::uint64_t rows,
                               std::uint64_t columns,
                               std::int64_t stride) {
  if (stride < static_cast<std::int64_t>(rows)) {
    return kInvalidValue;
  }
  *matrix = reinterpret_cast<cublasLtMatrixLayout_t>(new Matrix{
      .type = static_cast<BlasType>(type), .rows = rows, .columns = columns, .stride = stride});
  return 0;
}
int cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matrix) {
  delete reinterpret_cast<Matrix*>(matrix);
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matrix,
                                     int attribute,
                                     const void* value,
                                     std::size_t size) {
  Matrix& own = *reinterpret_cast<Matrix*>(matrix);
  return attribute == kBatchCount    ? set(own.count, value, size)
         : attribute == kBatchStride ? set(own.apart, value, size)
                                     : kInvalidValue;
}
int cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new int());
  return 0;
}
int cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<int*>(preference);
  return 0;
}
int cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t /*preference*/,
                                         int /*attribute*/,
                                         const void* /*value*/,
                                         std::size_t /*size*/) {
  return 0;
}
int cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/,
                                   cublasLtMatmulDesc_t /*product*/,
                                   cublasLtMatrixLayout_t /*a*/,
                                   cublasLtMatrixLayout_t /*b*/,
                                   cublasLtMatrixLayout_t /*c*/,
                                   cublasLtMatrixLayout_t /*d*/,
                                   cublasLtMatmulPreference_t /*preference*/,
                                   int /*wanted*/,
                                   cublasLtMatmulHeuristicResult_t* results,
                                   int* found) {
  results[0] = {};
  results[0].workspaceSize = 1000;
  *found = 1;
  return 0;
}
int cublasLtMatmul(cublasLtHandle_t /*handle*/,
                   cublasLtMatmulDesc_t product,
                   const void* /*alpha*/,
                   const void* a_address,
                   cublasLtMatrixLayout_t a,
                   const void* b_address,
                   cublasLtMatrixLayout_t b,
                   const void* /*beta*/,
                   const void* /*c_address*/,
                   cublasLtMatrixLayout_t /*c*/,
                   void* d_address,
                   cublasLtMatrixLayout_t d,
                   const cublasLtMatmulAlgo_t* algo,
                   void* workspace,
                   std::size_t workspace_size,
                   CUstream stream) {
  constexpr std::uintptr_t kAlignment = 256;
  if (algo == nullptr || workspace_size < 1000 ||
      reinterpret_cast<std::uintptr_t>(workspace) % kAlignment != 0) {
    return kInvalidValue;
  }
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  using LaunchHostFunc = CUresult (*)(CUstream stream, CUhostFn function, void* data);
  auto* const launch = reinterpret_cast<LaunchHostFunc>(dlsym(driver, "cuLaunchHostFunc"));
  auto call =
      std::make_unique<Call>(Call{.product = *reinterpret_cast<Product*>(product),
                                  .a = *reinterpret_cast<Matrix*>(a),
                                  .b = *reinterpret_cast<Matrix*>(b),
                                  .d = *reinterpret_cast<Matrix*>(d),
                                  .a_address = reinterpret_cast<std::uintptr_t>(a_address),
                                  .b_address = reinterpret_cast<std::uintptr_t>(b_address),
                                  .d_address = reinterpret_cast<std::uintptr_t>(d_address)});
  return launch(stream, run_call, call.release());
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming,google-build-using-namespace,performance-no-int-to-ptr)
