// A std::vector<bool> holds bits: no elements can be read into it.
#include <cstddef>
#include <cstdint>

#include <hearth/hearth.hpp>

std::size_t count(const hearth::Tensor& mask) {
#ifdef HEARTH_MUST_FAIL
  return mask.to_vector<bool>().size();
#else
  return mask.to_vector<std::uint8_t>().size();
#endif
}
