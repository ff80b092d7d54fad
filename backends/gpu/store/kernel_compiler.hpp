// Builds kernels for one device: from a text to a module, and from a module to a kernel that the
// device can run. Modules are words that another process may load. Each kind of GPU device has a
// compiler. Threads: any, several at a time.
// Invariant: kernels live as long as their compiler.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <hearth/runtime/base/result.hpp>

#include "backends/gpu/encoder/kernel_handle.hpp"
#include "backends/gpu/encoder/kernel_key.hpp"
#include "cache_save.hpp"

namespace hearth::gpu {

using KernelModule = std::vector<std::uint32_t>;

/// Facts of a compiler that decide which files on disk are valid for it.
struct CompilerIdentity {
  std::string device;   ///< The device's name in messages: "vulkan:0".
  std::string folder;   ///< Folder of the device's kind in the cache: "vulkan".
  std::string modules;  ///< Folder of the modules in it.
  std::string card;     ///< Card and driver version.
  std::string options;  ///< Options that select other kernels on the same card.
  /// A number for the compiler and its options. Equal texts under equal numbers have equal modules.
  std::uint64_t compiler = 0;
  /// Loading a module takes much less time than compiling its text, so it pays to do so early.
  bool loads_fast = true;
};

class KernelCompiler {
 public:
  KernelCompiler() = default;
  KernelCompiler(const KernelCompiler&) = delete;
  KernelCompiler& operator=(const KernelCompiler&) = delete;
  virtual ~KernelCompiler() = default;

  [[nodiscard]] virtual const CompilerIdentity& identity() const noexcept = 0;
  /// The text that compile() expects, for the text of a kernel.
  [[nodiscard]] virtual std::string whole_text(KernelFamily family, std::string text) const = 0;
  /// Errors: internal, if a text does not compile; kernel_failed for a program's text; those of
  /// check().
  [[nodiscard]] virtual Result<KernelModule> compile(KernelFamily family,
                                                     const std::string& text) const = 0;
  /// Checks a module from disk against the limits of the device.
  /// Errors: unsupported.
  [[nodiscard]] virtual Status check(KernelFamily family, const KernelModule& module) const = 0;
  /// Errors: those of the driver.
  [[nodiscard]] virtual Result<KernelHandle> load(const KernelModule& module) = 0;
  /// Loads what the driver itself has kept in this folder; called once, before load(). An empty
  /// path: nothing is kept.
  virtual void open_cache(const std::filesystem::path& folder) = 0;
  /// Adds new data of the driver. Called at the end, when no thread builds kernels.
  virtual void add_unsaved(CacheSave& to) = 0;
};

}  // namespace hearth::gpu
