// A fingerprint: the machine facts under which stored picks hold. A backend fills it in.
// A CPU device: processor name, instruction set, cores, cache sizes, hypervisor, OpenBLAS version
// and core. A GPU: vendor, device, driver and its version, multiprocessors, shared memory, numeric
// options. No serial number: equal cards share their picks.
// Values. Threads: any.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace hearth::detail {

struct Fingerprint {
  std::string text;        ///< "processor=AMD EPYC;isa=avx512;cores=2"
  std::uint64_t hash = 0;  ///< Hash of the text; names the store's file.

  /// Joins the facts in the given order. ';', '=' and control characters in them become '_'.
  [[nodiscard]] static Fingerprint of(
      std::initializer_list<std::pair<std::string_view, std::string_view>> facts);
  /// Returns the fingerprint of a stored text.
  [[nodiscard]] static Fingerprint of_text(std::string text);

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

}  // namespace hearth::detail
