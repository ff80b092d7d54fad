// The code of kernels that a program brings itself, as values that backends run: a function for
// devices whose memory the host sees, GLSL for Vulkan devices. Made by CustomKernel
// (runtime/custom_kernel.hpp). Immutable once made, shared. Threads: any.
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
  std::string name;                ///< As the GLSL text and errors call it.
  std::vector<DType> dtypes = {};  ///< What it may be; empty: all.
};

/// A number that each call gives: f32 or i32.
struct CustomNumber {
  std::string name;          ///< As the texts call it.
  DType dtype = DType::f32;  ///< f32 or i32.
};

struct CustomCode;

/// One call of a kernel on the host. Operands lie in row-major order without gaps; the results have
/// no value yet. Threads: the one that the kernel runs on, and those of parallel_for().
class HostKernelCall final {
 public:
  struct Operand {
    std::byte* data = nullptr;
    DType dtype = DType::f32;
    const Shape* shape = nullptr;
  };
  using RangeFn = void (*)(const void* body, std::int64_t begin, std::int64_t end);
  /// Runs ranges on the device's cores; the body does not throw.
  struct Cores {
    void* object = nullptr;
    void (*run)(void* object,
                std::int64_t count,
                std::int64_t grain,
                RangeFn range,
                const void* body) = nullptr;
  };

  /// Borrows all but the code; operands are inputs, then outputs.
  HostKernelCall(const CustomCode& code,
                 std::span<const Operand> operands,
                 std::span<const double> numbers,
                 Cores cores) noexcept
      : code_(&code), operands_(operands), numbers_(numbers), cores_(cores) {}

  /// Errors: ArgumentError, DtypeError, naming the kernel, for another number or element type.
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

  /// Calls body(begin, end) for ranges of at most `grain` items that cover [0, count), on the
  /// device's cores. Errors: the first that a body throws, when all have ended.
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

/// A compute shader's part in GLSL 4.60 that defines `void kernel()`. For an input `x`, a result
/// `y` and a number `epsilon` it may use
///   x(i), set_y(i, value)  element i in row-major order; f16 and bf16 come and go as float, u8 as
///                          uint, i8 as int, i64 as int64_t, the others by their own names
///   x_type                 that type; the same for results
///   x_count, x_rank, x_size(axis)   the same for results; x_address, for accesses of your own
///   epsilon                float, or int for i32
///   INDEX                  the type of i and of sizes: int, or int64_t where a tensor has 2^31
///                          elements or more
///   ID, GROUP, THREAD, THREADS   the thread's number among all, its workgroup's, its own there,
///                          and how many a workgroup has
/// and functions, `shared` variables and subgroup operations of its own. Nothing checks indices.
struct GlslKernel {
  std::string text;   ///< GLSL with a function kernel().
  int threads = 256;  ///< Of a workgroup.
  /// How many workgroups run. Empty: kernel() runs once for each element of the first result, whose
  /// number is ID; without barrier() then.
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
  GlslKernel glsl;
  /// Of all that a shader is made of: equal ones have equal texts in front of their operands'
  /// types.
  std::uint64_t text_hash = 0;
};

inline constexpr std::size_t kMostCustomInputs = 8;
inline constexpr std::size_t kMostCustomOutputs = 4;
inline constexpr std::size_t kMostCustomNumbers = 16;

}  // namespace hearth
