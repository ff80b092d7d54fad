// The code of a program's own kernels, as values that backends run. Devices whose memory is visible
// to the host run a function, Vulkan devices run GLSL, CUDA devices run CUDA C++.
// Made by CustomKernel (runtime/custom_kernel.hpp). Immutable once made, shared. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/shape.hpp>

namespace hearth {

/// Element type and shape of a tensor.
struct TensorForm {
  DType dtype = DType::f32;
  Shape shape;

  [[nodiscard]] std::int64_t element_count() const noexcept { return shape.element_count(); }
};

struct CustomInput {
  std::string name;                ///< Name of the input in texts and in errors.
  std::vector<DType> dtypes = {};  ///< Accepted element types; empty: all.
};

/// Number that each call passes: f32 or i32.
struct CustomNumber {
  std::string name;          ///< Name of the number in texts and in errors.
  DType dtype = DType::f32;  ///< f32 or i32.
};

struct CustomCode;

/// One call of a kernel on the host. Operands are row-major without gaps; results are
/// uninitialised.
///
/// Threads: the one that runs the kernel, and those of parallel_for().
class HostKernelCall final {
 public:
  struct Operand {
    std::byte* data = nullptr;
    DType dtype = DType::f32;
    const Shape* shape = nullptr;
  };
  using RangeFn = void (*)(const void* body, std::int64_t begin, std::int64_t end);
  /// Runs ranges on the device's cores. The body must not throw.
  struct Cores {
    void* object = nullptr;
    void (*run)(void* object,
                std::int64_t count,
                std::int64_t grain,
                RangeFn range,
                const void* body) = nullptr;
  };

  /// Borrows all but the code. Operands are inputs, then outputs.
  HostKernelCall(const CustomCode& code,
                 std::span<const Operand> operands,
                 std::span<const double> numbers,
                 Cores cores) noexcept
      : code_(&code), operands_(operands), numbers_(numbers), cores_(cores) {}

  /// Returns the elements of an input.
  ///
  /// Errors: ArgumentError for an unknown index, DtypeError for another element type; both name the
  /// kernel.
  template <class T>
  [[nodiscard]] std::span<const T> input(int index) const {
    const Operand& it = operand(index, false, dtype_of<T>);
    return {reinterpret_cast<const T*>(it.data), count(it)};  // NOLINT: bytes become elements
  }
  template <class T>
  [[nodiscard]] std::span<T> output(int index = 0) const {
    const Operand& it = operand(index, true, dtype_of<T>);
    return {reinterpret_cast<T*>(it.data), count(it)};  // NOLINT: bytes become elements
  }
  [[nodiscard]] const Shape& input_shape(int index) const { return *operand(index, false).shape; }
  [[nodiscard]] const Shape& output_shape(int index = 0) const {
    return *operand(index, true).shape;
  }
  [[nodiscard]] DType input_dtype(int index) const { return operand(index, false).dtype; }
  [[nodiscard]] DType output_dtype(int index = 0) const { return operand(index, true).dtype; }
  [[nodiscard]] double number(int index) const;

  /// Calls body(begin, end) on the device's cores, for ranges of at most `grain` items that cover
  /// [0, count).
  ///
  /// Errors: the first exception of a body, after all ranges have ended.
  void parallel_for(std::int64_t count,
                    std::int64_t grain,
                    const std::function<void(std::int64_t begin, std::int64_t end)>& body) const;

 private:
  [[nodiscard]] const Operand& operand(int index, bool is_output) const;
  [[nodiscard]] const Operand& operand(int index, bool is_output, DType wanted) const;
  [[nodiscard]] static std::size_t count(const Operand& operand) noexcept {
    return static_cast<std::size_t>(operand.shape->element_count());
  }

  const CustomCode* code_;
  std::span<const Operand> operands_;
  std::span<const double> numbers_;
  Cores cores_;
};

using HostKernel = std::function<void(const HostKernelCall& call)>;

/// A kernel for GPUs: GLSL 4.60 for Vulkan devices, CUDA C++ for CUDA devices. Its text defines
/// `void kernel()`. For an input `x`, a result `y` and a number `epsilon` it may use
///   x(i), set_y(i, value)  element i in row-major order; f16 and bf16 are converted to and from
///                          float, u8 uint, i8 int, i64 int64_t; the others keep their type
///   x_type                 the type of x(i); likewise for results
///   x_count, x_rank, x_size(axis)   likewise for results; x_address, for accesses of your own
///   epsilon                float, or int for i32
///   INDEX                  the type of i and of sizes: int, or int64_t if a tensor has 2^31
///                          elements or more
///   ID, GROUP, THREAD, THREADS   the thread's number among all, its workgroup's number, its number
///                          in the workgroup, and the size of a workgroup
/// GLSL may define functions and `shared` variables and use subgroup operations. CUDA C++ becomes
/// the body of a class. It may define functions, types, and members, which each thread has for
/// itself. `__shared__` variables stand inside of functions. Indices are not checked.
struct GpuKernel {
  std::string text;   ///< GLSL or CUDA C++ with a function kernel().
  int threads = 256;  ///< Threads of a workgroup.
  /// Number of workgroups. Empty: kernel() runs once for each element of the first result, with ID
  /// as the element's index, and must not use barrier().
  std::function<std::int64_t(std::span<const TensorForm> inputs,
                             std::span<const TensorForm> outputs)>
      groups = {};
};

struct CustomCode {
  std::string name;
  std::vector<CustomInput> inputs;
  std::vector<std::string> outputs;
  std::vector<CustomNumber> numbers;
  HostKernel host;
  GpuKernel glsl;
  GpuKernel cuda;
  /// Hash of everything that a text is generated from but its operands' types. Kernels with
  /// equal hashes and types have equal texts.
  std::uint64_t text_hash = 0;
};

inline constexpr std::size_t kMostCustomInputs = 8;
inline constexpr std::size_t kMostCustomOutputs = 4;
inline constexpr std::size_t kMostCustomNumbers = 16;

}  // namespace hearth
