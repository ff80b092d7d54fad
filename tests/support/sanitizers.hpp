// Whether a sanitizer is compiled in that reserves much of the address space: tests that limit the
// address space cannot run then.
#pragma once

namespace hearth::testing {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitizerTakesAddresses = true;
#else
inline constexpr bool kSanitizerTakesAddresses = false;
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitizerTakesAddresses = true;
#else
inline constexpr bool kSanitizerTakesAddresses = false;
#endif

}  // namespace hearth::testing
