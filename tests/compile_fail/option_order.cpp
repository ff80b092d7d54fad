// Options in another order than the struct's, under a name that the struct lacks, and under an old
// name.
#include <hearth/hearth.hpp>

#ifdef HEARTH_OLD_NAME
#pragma GCC diagnostic error "-Wdeprecated-declarations"
#endif

hearth::TopK smallest(const hearth::Tensor& x) {
#if !defined(HEARTH_MUST_FAIL)
  const hearth::TopK sorted = hearth::sort(x, {.axis = 1, .descending = true});
  const hearth::TopK places = hearth::topk(sorted.values, 3, {1, false});
  const hearth::Linear layer({.in = 4, .out = 2}, x.device(), hearth::current_generator("test"));
  return hearth::topk(places.values, 3, {.axis = 1, .descending = false});
#elif defined(HEARTH_ORDER)
  return hearth::topk(x, 3, {.descending = false, .axis = 1});
#elif defined(HEARTH_CONFIG_ORDER)
  const hearth::Linear layer({.out = 2, .in = 4}, x.device(), hearth::current_generator("test"));
  return {};
#elif defined(HEARTH_UNKNOWN)
  return hearth::sort(x, {.decreasing = true});
#elif defined(HEARTH_OLD_NAME)
  return hearth::topk(x, 3, {.axis = 1, .largest = false});
#endif
}
