#include <hearth/runtime/base/float_environment.hpp>

namespace hearth::detail {

#ifdef __x86_64__

namespace {

constexpr std::uint16_t kX87Default = 0x037f;  // masked exceptions, round to nearest, 64 bits
constexpr std::uint16_t kX87Flags = 0x3f;

std::uint16_t x87_control() noexcept {
  std::uint16_t word = 0;
  __asm__ volatile("fnstcw %0" : "=m"(word) : : "memory");
  return word;
}
std::uint16_t x87_status() noexcept {
  std::uint16_t word = 0;
  __asm__ volatile("fnstsw %0" : "=am"(word) : : "memory");
  return word;
}

}  // namespace

// fnstenv masks all exceptions. Flags raised while the program's mask is replaced raise no signal:
// fldenv restores both at once.
FloatEnvironment::FloatEnvironment() noexcept : control_(x87_control()), status_(x87_status()) {
  if (control_ != kX87Default) {
    __asm__ volatile("fnstenv %0\n\tfldcw %1" : "=m"(x87_) : "m"(kX87Default) : "memory");
  }
}

FloatEnvironment::~FloatEnvironment() {
  if (control_ != kX87Default || x87_control() != kX87Default) {
    if (control_ == kX87Default) {
      __asm__ volatile("fldcw %0" : : "m"(kX87Default) : "memory");
    } else {
      __asm__ volatile("fldenv %0" : : "m"(x87_) : "memory");
    }
  }
  if (((x87_status() ^ status_) & kX87Flags) != 0) {
    X87 now;
    __asm__ volatile("fnstenv %0" : "=m"(now) : : "memory");
    now.words[0] = control_;
    now.words[1] = (now.words[1] & ~std::uint32_t{kX87Flags}) | (status_ & kX87Flags);
    __asm__ volatile("fldenv %0" : : "m"(now) : "memory");
  }
}

#else

FloatEnvironment::FloatEnvironment() noexcept {
  static_cast<void>(std::fegetenv(&saved_));
  static_cast<void>(std::fesetenv(FE_DFL_ENV));
}

FloatEnvironment::~FloatEnvironment() {
  static_cast<void>(std::fesetenv(&saved_));
}

#endif

}  // namespace hearth::detail
