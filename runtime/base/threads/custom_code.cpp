#include <hearth/runtime/base/custom_code.hpp>

#include <hearth/runtime/base/host_kernel_scope.hpp>

#include <atomic>
#include <exception>

#include <fmt/format.h>

#include <hearth/runtime/base/error.hpp>

namespace hearth {
namespace {

[[noreturn]] void refuse(const CustomCode& code, ErrorCode what, std::string text) {
  throw_error(Error{.code = what, .text = fmt::format("{}: {}", code.name, text), .op = code.name});
}

}  // namespace

const HostKernelCall::Operand& HostKernelCall::operand(int index, bool is_output) const {
  const std::size_t inputs = code_->inputs.size();
  const std::size_t count = is_output ? operands_.size() - inputs : inputs;
  if (index < 0 || static_cast<std::size_t>(index) >= count) {
    refuse(
        *code_,
        ErrorCode::invalid_argument,
        fmt::format("its function uses {} {} of {}", is_output ? "result" : "input", index, count));
  }
  return operands_[static_cast<std::size_t>(index) + (is_output ? inputs : 0)];
}

const HostKernelCall::Operand& HostKernelCall::operand(int index,
                                                       bool is_output,
                                                       DType wanted) const {
  const Operand& it = operand(index, is_output);
  if (it.dtype != wanted) {
    const auto place = static_cast<std::size_t>(index);
    refuse(*code_,
           ErrorCode::dtype_mismatch,
           fmt::format("its function takes '{}', which is {}, as {}",
                       is_output ? code_->outputs[place] : code_->inputs[place].name,
                       hearth::name(it.dtype),
                       hearth::name(wanted)));
  }
  return it;
}

double HostKernelCall::number(int index) const {
  if (index < 0 || static_cast<std::size_t>(index) >= numbers_.size()) {
    refuse(*code_,
           ErrorCode::invalid_argument,
           fmt::format("its function uses number {} of {}", index, numbers_.size()));
  }
  return numbers_[static_cast<std::size_t>(index)];
}

// Exceptions must not reach the cores: the first one is kept until all ranges have ended.
void HostKernelCall::parallel_for(
    std::int64_t count,
    std::int64_t grain,
    const std::function<void(std::int64_t begin, std::int64_t end)>& body) const {
  struct Work {
    const std::function<void(std::int64_t begin, std::int64_t end)>& body;
    std::string_view kernel;
    std::atomic<bool> has_failed{false};
    std::exception_ptr failure = nullptr;
  } work{.body = body, .kernel = code_->name};
  const RangeFn range = [](const void* object, std::int64_t begin, std::int64_t end) {
    Work& all = *static_cast<Work*>(const_cast<void*>(object));  // NOLINT: the caller's own
    try {
      const detail::HostKernelScope scope(all.kernel);
      all.body(begin, end);
    } catch (...) {
      if (!all.has_failed.exchange(true, std::memory_order_acq_rel)) {
        all.failure = std::current_exception();
      }
    }
  };
  if (count > 0) {
    cores_.run(cores_.object, count, grain < 1 ? 1 : grain, range, &work);
  }
  if (work.failure != nullptr) {
    std::rethrow_exception(work.failure);
  }
}

}  // namespace hearth
