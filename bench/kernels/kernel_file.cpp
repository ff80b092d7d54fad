#include "kernel_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "build_facts.hpp"
#include "expression_text.hpp"
#include "hearth_kernel.h"

extern char** environ;  // NOLINT: of the system

namespace hearth::bench {
namespace {

using Entry = void (*)(const hearth_call*);

Error mistake(std::string text) {
  return {.code = ErrorCode::invalid_argument, .text = std::move(text)};
}

bool ends_in(const std::string& name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view each) { return name.ends_with(each); });
}

hearth_tensor tensor_of(const void* data, DType dtype, const Shape& shape) {
  hearth_tensor tensor{.data = const_cast<void*>(data),  // NOLINT: one type for both directions
                       .dtype = name(dtype).data(),
                       .rank = shape.rank(),
                       .sizes = {},
                       .count = shape.element_count()};
  std::ranges::copy(shape.dims(), tensor.sizes);
  return tensor;
}

/// Serves hearth_call::parallel_for.
void run_parallel(const hearth_call* call,
                  std::int64_t count,
                  std::int64_t grain,
                  void (*body)(void*, std::int64_t, std::int64_t),
                  void* state) {
  static_cast<const HostKernelCall*>(call->cores)
      ->parallel_for(
          count, grain, [&](std::int64_t begin, std::int64_t end) { body(state, begin, end); });
}

/// Calls the entry point with the operands of a host call.
HostKernel host_kernel(Entry entry, std::size_t inputs, std::size_t outputs) {
  return [entry, inputs, outputs](const HostKernelCall& call) {
    std::array<hearth_tensor, kMostCustomInputs> in{};
    std::array<hearth_tensor, kMostCustomOutputs> out{};
    for (std::size_t i = 0; i < inputs; ++i) {
      const int number = static_cast<int>(i);
      in[i] = visit_dtype(call.input_dtype(number), [&](auto zero) {
        return tensor_of(call.input<decltype(zero)>(number).data(),
                         call.input_dtype(number),
                         call.input_shape(number));
      });
    }
    for (std::size_t i = 0; i < outputs; ++i) {
      const int number = static_cast<int>(i);
      out[i] = visit_dtype(call.output_dtype(number), [&](auto zero) {
        return tensor_of(call.output<decltype(zero)>(number).data(),
                         call.output_dtype(number),
                         call.output_shape(number));
      });
    }
    const hearth_call passed{.input_count = static_cast<std::int64_t>(inputs),
                             .inputs = in.data(),
                             .output_count = static_cast<std::int64_t>(outputs),
                             .outputs = out.data(),
                             .parallel_for = run_parallel,
                             .cores = &call};
    entry(&passed);
  };
}

/// Runs a program and returns its exit status; its output goes to stderr.
Result<int> run_program(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  pid_t process = 0;
  const int problem =
      ::posix_spawnp(&process, words[0].c_str(), nullptr, nullptr, pointers.data(), environ);
  if (problem != 0) {
    return Error{.code = ErrorCode::not_found,
                 .text = fmt::format("{}: {}", words[0], std::strerror(problem))};
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/// A new folder for temporary files, removed with the object.
class TemporaryFolder final {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "hearth-XXXXXX").string()) {
    is_made_ = ::mkdtemp(path_.data()) != nullptr;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    if (is_made_) {
      std::error_code ignored;  // a file that stays in /tmp is harmless
      std::filesystem::remove_all(path_, ignored);
    }
  }
  [[nodiscard]] bool is_made() const noexcept { return is_made_; }
  [[nodiscard]] std::filesystem::path path() const { return path_; }

 private:
  std::string path_;
  bool is_made_ = false;
};

/// Compiles to `folder`/kernel.so, with hearth_kernel.h beside it.
Status compile(const std::string& source,
               const std::filesystem::path& folder,
               const std::vector<std::string>& defines) {
  HEARTH_TRY_STATUS(
      write_file_atomically(folder / "hearth_kernel.h", std::as_bytes(std::span(kKernelHeader))));
  const char* const chosen = std::getenv("CXX");  // NOLINT(concurrency-mt-unsafe): no thread yet
  std::vector<std::string> words{chosen == nullptr ? "c++" : chosen,
                                 "-O3",
                                 "-march=native",
                                 "-shared",
                                 "-fPIC",
                                 fmt::format("-I{}", folder.string())};
  for (const std::string& each : defines) {
    words.push_back("-D" + each);
  }
  words.insert(words.end(), {"-o", (folder / "kernel.so").string(), source});
  HEARTH_TRY(const int status, run_program(words));
  return status == 0 ? Status()
                     : Status(mistake(
                           fmt::format("{} does not compile: {}", source, fmt::join(words, " "))));
}

Result<std::shared_ptr<void>> open_library(const std::filesystem::path& path) {
  void* const handle = ::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return mistake(::dlerror());
  }
  return std::shared_ptr<void>(handle, [](void* each) { ::dlclose(each); });
}

Result<std::string> read_text(const std::string& source) {
  HEARTH_TRY(const std::vector<std::byte> bytes, read_file(source));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

std::string_view kernel_header() noexcept {
  return kKernelHeader;
}

Result<NamedOperand> parse_operand(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::size_t open = text.find('[');
  if (colon == std::string::npos || open == std::string::npos || open < colon ||
      !text.ends_with("]")) {
    return mistake(fmt::format("'{}' is no operand; write x:f32[4096,4096]", text));
  }
  std::string sizes = text.substr(open + 1, text.size() - open - 2);
  std::ranges::replace(sizes, ',', 'x');
  std::erase(sizes, ' ');
  NamedOperand operand{.name = text.substr(0, colon), .spec = {}};
  HEARTH_TRY(operand.spec.dtype, parse_dtype(text.substr(colon + 1, open - colon - 1)));
  HEARTH_TRY(operand.spec.shape, parse_sizes(sizes));
  return operand;
}

// Phases: the operands; an expression, or code of one of three kinds; the cost.
Result<KernelFile> KernelFile::load(const std::string& source, const KernelRequest& request) {
  KernelFile file;
  Problem& problem = file.problem_;
  std::vector<NamedOperand> outputs = request.outputs;
  if (request.inputs.empty()) {
    return mistake("it needs an input: --input x:f32[4096,4096]");
  }
  if (outputs.empty()) {
    outputs.push_back({.name = "y", .spec = request.inputs[0].spec});
  }
  for (const NamedOperand& each : outputs) {
    problem.outputs.push_back(each.spec);
  }
  problem.text = source;
  problem.cost.flops = request.flops;
  const bool is_object = ends_in(source, {".so"});
  const bool is_source = ends_in(source, {".cpp", ".cc", ".c"});
  const bool is_glsl = ends_in(source, {".glsl", ".comp"});
  if (is_object || is_source || is_glsl) {
    if (!std::filesystem::exists(source)) {
      return Error{.code = ErrorCode::not_found, .text = source + ": there is no such file"};
    }
    auto code = std::make_shared<CustomCode>();
    code->name = std::filesystem::path(source).stem().string();
    for (const NamedOperand& each : request.inputs) {
      code->inputs.push_back({.name = each.name});
      problem.inputs.push_back(each.spec);
    }
    for (const NamedOperand& each : outputs) {
      code->outputs.push_back(each.name);
    }
    if (code->inputs.size() > kMostCustomInputs || code->outputs.size() > kMostCustomOutputs) {
      return mistake(fmt::format(
          "a kernel has up to {} inputs and {} outputs", kMostCustomInputs, kMostCustomOutputs));
    }
    if (is_glsl) {
      HEARTH_TRY(std::string text, read_text(source));
      std::string defines;
      for (std::string each : request.defines) {
        std::ranges::replace(each, '=', ' ');
        defines += fmt::format("#define {}\n", each);
      }
      code->glsl = {.text = defines + text, .threads = request.threads};
      code->text_hash = xxh64(std::as_bytes(std::span(code->glsl.text)));
    } else {
      const TemporaryFolder folder;
      std::filesystem::path object = source;
      if (is_source) {
        if (!folder.is_made()) {
          return Error{.code = ErrorCode::io_error,
                       .text = folder.path().string() + ": " + std::strerror(errno)};
        }
        HEARTH_TRY_STATUS(compile(source, folder.path(), request.defines));
        object = folder.path() / "kernel.so";
      }
      HEARTH_TRY(file.library_, open_library(object));
      void* const entry = ::dlsym(file.library_.get(), "kernel");
      if (entry == nullptr) {
        return mistake(fmt::format(
            "{} has no function `kernel` with C linkage; see docs/benchmarks.md", source));
      }
      code->host = host_kernel(reinterpret_cast<Entry>(entry),  // NOLINT: as POSIX has it
                               code->inputs.size(),
                               code->outputs.size());
    }
    problem.kind = OpKind::custom;
    problem.custom = code.get();
    problem.attributes.resize(sizeof(CustomAttributes));
    file.code_ = std::move(code);
  } else {
    const DType dtype = outputs[0].spec.dtype;
    HEARTH_TRY(NamedExpression parsed, parse_expression(source, dtype));
    for (const std::string& wanted : parsed.inputs) {
      const auto input = std::ranges::find(request.inputs, wanted, &NamedOperand::name);
      if (input == request.inputs.end()) {
        return mistake(fmt::format(
            "'{}' is neither a file (.so, .cpp, .glsl) nor an expression of the inputs: there is "
            "no --input {}",
            source,
            wanted));
      }
      problem.inputs.push_back(input->spec);
    }
    problem.kind = OpKind::expression;
    problem.precision = testing::Precision::function;
    const ExpressionAttributes attributes{.flops = parsed.expression->flops};
    problem.attributes.resize(sizeof attributes);
    std::memcpy(problem.attributes.data(), &attributes, sizeof attributes);
    problem.expression = std::move(parsed.expression);
  }
  problem.cost.bytes = request.bytes;
  if (request.bytes == 0) {
    for (const auto* group : {&problem.inputs, &problem.outputs}) {
      for (const OperandSpec& each : *group) {
        problem.cost.bytes +=
            static_cast<double>(each.shape.element_count() * size_bytes(each.dtype));
      }
    }
  }
  return file;
}

}  // namespace hearth::bench
