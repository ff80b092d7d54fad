#include "lapack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

// Debian's OpenBLAS has LAPACK's Fortran functions, without the header that declares them. A
// character is followed, behind all arguments, by its length.
// NOLINTBEGIN(readability-identifier-naming,bugprone-macro-parentheses): their names; types
extern "C" {
#define HEARTH_LAPACK(T, p)                                                                  \
  void p##potrf_(const char*, const blasint*, T*, const blasint*, blasint*, std::size_t);    \
  void p##getrf_(const blasint*, const blasint*, T*, const blasint*, blasint*, blasint*);    \
  void p##laswp_(const blasint*,                                                             \
                 T*,                                                                         \
                 const blasint*,                                                             \
                 const blasint*,                                                             \
                 const blasint*,                                                             \
                 const blasint*,                                                             \
                 const blasint*);                                                            \
  void p##geqrf_(                                                                            \
      const blasint*, const blasint*, T*, const blasint*, T*, T*, const blasint*, blasint*); \
  void p##orgqr_(const blasint*,                                                             \
                 const blasint*,                                                             \
                 const blasint*,                                                             \
                 T*,                                                                         \
                 const blasint*,                                                             \
                 const T*,                                                                   \
                 T*,                                                                         \
                 const blasint*,                                                             \
                 blasint*);                                                                  \
  void p##syevd_(const char*,                                                                \
                 const char*,                                                                \
                 const blasint*,                                                             \
                 T*,                                                                         \
                 const blasint*,                                                             \
                 T*,                                                                         \
                 T*,                                                                         \
                 const blasint*,                                                             \
                 blasint*,                                                                   \
                 const blasint*,                                                             \
                 blasint*,                                                                   \
                 std::size_t,                                                                \
                 std::size_t);                                                               \
  void p##gesdd_(const char*,                                                                \
                 const blasint*,                                                             \
                 const blasint*,                                                             \
                 T*,                                                                         \
                 const blasint*,                                                             \
                 T*,                                                                         \
                 T*,                                                                         \
                 const blasint*,                                                             \
                 T*,                                                                         \
                 const blasint*,                                                             \
                 T*,                                                                         \
                 const blasint*,                                                             \
                 blasint*,                                                                   \
                 blasint*,                                                                   \
                 std::size_t);
HEARTH_LAPACK(float, s)
HEARTH_LAPACK(double, d)
#undef HEARTH_LAPACK
}
// NOLINTEND(readability-identifier-naming,bugprone-macro-parentheses)

namespace hearth::detail::lapack {
namespace {

template <class T>
struct Routines;
template <>
struct Routines<float> {
  static constexpr auto kPotrf = spotrf_;
  static constexpr auto kGetrf = sgetrf_;
  static constexpr auto kLaswp = slaswp_;
  static constexpr auto kGeqrf = sgeqrf_;
  static constexpr auto kOrgqr = sorgqr_;
  static constexpr auto kSyevd = ssyevd_;
  static constexpr auto kGesdd = sgesdd_;
  static constexpr auto kTrsm = cblas_strsm;
};
template <>
struct Routines<double> {
  static constexpr auto kPotrf = dpotrf_;
  static constexpr auto kGetrf = dgetrf_;
  static constexpr auto kLaswp = dlaswp_;
  static constexpr auto kGeqrf = dgeqrf_;
  static constexpr auto kOrgqr = dorgqr_;
  static constexpr auto kSyevd = dsyevd_;
  static constexpr auto kGesdd = dgesdd_;
  static constexpr auto kTrsm = cblas_dtrsm;
};

// The build is inspected once. Calls stay on their thread: the device's cores share batches and
// blocks.
std::string refusal() {
  const int threads = openblas_get_parallel();
  if (threads != OPENBLAS_THREAD) {
    return fmt::format(
        "needs the pthread build of OpenBLAS, and this is its {} build: install "
        "libopenblas0-pthread, or set OPENBLAS_LIBRARY when building",
        threads == OPENBLAS_OPENMP ? "OpenMP" : "serial");
  }
  openblas_set_num_threads(1);
  return {};
}

// LAPACK's leading dimensions are at least 1.
blasint step_of(blasint rows) {
  return std::max<blasint>(rows, 1);
}

template <class T>
void make_room(std::vector<T>& work, T wanted) {
  const auto size = static_cast<std::size_t>(wanted) + 1;
  if (work.size() < size) {
    work.resize(size);
  }
}

}  // namespace

void require_usable(std::string_view op, const At& at) {
  static const std::string kRefusal = refusal();
  if (!kRefusal.empty()) {
    throw_error(Error{.code = ErrorCode::unsupported,
                      .text = fmt::format("{}: {}", op, kRefusal),
                      .op = std::string(op),
                      .location = at.location()});
  }
}

template <class T>
blasint potrf(blasint n, T* a, blasint step) {
  blasint info = 0;
  Routines<T>::kPotrf("U", &n, a, &step, &info, 1);
  return info;
}

template <class T>
blasint getrf(blasint rows, blasint columns, T* a, blasint step, blasint* pivots) {
  blasint info = 0;
  Routines<T>::kGetrf(&rows, &columns, a, &step, pivots, &info);
  return info;
}

template <class T>
void laswp(
    blasint columns, T* a, blasint step, blasint first, blasint last, const blasint* pivots) {
  const blasint next = 1;
  Routines<T>::kLaswp(&columns, a, &step, &first, &last, pivots, &next);
}

template <class T>
void geqrf(blasint rows, blasint columns, T* a, T* tau, std::vector<T>& work) {
  const blasint step = step_of(rows);
  const blasint ask = -1;
  T wanted = 0;
  blasint info = 0;
  Routines<T>::kGeqrf(&rows, &columns, a, &step, tau, &wanted, &ask, &info);
  make_room(work, wanted);
  const auto size = static_cast<blasint>(work.size());
  Routines<T>::kGeqrf(&rows, &columns, a, &step, tau, work.data(), &size, &info);
}

template <class T>
void orgqr(blasint rows, blasint columns, blasint count, T* a, const T* tau, std::vector<T>& work) {
  const blasint step = step_of(rows);
  const blasint ask = -1;
  T wanted = 0;
  blasint info = 0;
  Routines<T>::kOrgqr(&rows, &columns, &count, a, &step, tau, &wanted, &ask, &info);
  make_room(work, wanted);
  const auto size = static_cast<blasint>(work.size());
  Routines<T>::kOrgqr(&rows, &columns, &count, a, &step, tau, work.data(), &size, &info);
}

template <class T>
blasint syevd(blasint n, T* a, T* values, std::vector<T>& work) {
  const blasint step = step_of(n);
  const blasint ask = -1;
  T wanted = 0;
  blasint integers = 0;
  blasint info = 0;
  Routines<T>::kSyevd("V", "U", &n, a, &step, values, &wanted, &ask, &integers, &ask, &info, 1, 1);
  // A size in f32 may be rounded down; 1 + 6n + 2n² is what it stands for.
  make_room(work, wanted * T(1.0001));
  std::vector<blasint> integer_work(static_cast<std::size_t>(integers));
  const auto size = static_cast<blasint>(work.size());
  Routines<T>::kSyevd("V",
                      "U",
                      &n,
                      a,
                      &step,
                      values,
                      work.data(),
                      &size,
                      integer_work.data(),
                      &integers,
                      &info,
                      1,
                      1);
  return info;
}

template <class T>
blasint gesdd(bool is_full,
              blasint rows,
              blasint columns,
              T* a,
              T* values,
              T* left,
              T* right,
              std::vector<T>& work) {
  const char* const job = is_full ? "A" : "S";
  const blasint count = std::min(rows, columns);
  const blasint step = step_of(rows);
  const blasint right_step = step_of(is_full ? columns : count);
  std::vector<blasint> integer_work(8 * static_cast<std::size_t>(count));
  blasint info = 0;
  const auto call = [&](T* room, blasint size) {
    Routines<T>::kGesdd(job,
                        &rows,
                        &columns,
                        a,
                        &step,
                        values,
                        left,
                        &step,
                        right,
                        &right_step,
                        room,
                        &size,
                        integer_work.data(),
                        &info,
                        1);
  };
  T wanted = 0;
  call(&wanted, -1);
  make_room(work, wanted * T(1.0001));
  call(work.data(), static_cast<blasint>(work.size()));
  return info;
}

template <class T>
void trsm(Triangle triangle, blasint n, blasint columns, const T* a, T* b, blasint step) {
  Routines<T>::kTrsm(CblasRowMajor,
                     CblasLeft,
                     triangle.is_upper ? CblasUpper : CblasLower,
                     triangle.is_transposed ? CblasTrans : CblasNoTrans,
                     triangle.has_unit_diagonal ? CblasUnit : CblasNonUnit,
                     n,
                     columns,
                     T{1},
                     a,
                     step_of(n),
                     b,
                     step);
}

// NOLINTBEGIN(bugprone-macro-parentheses): types
#define HEARTH_OF_BOTH(T)                                                             \
  template blasint potrf<T>(blasint, T*, blasint);                                    \
  template blasint getrf<T>(blasint, blasint, T*, blasint, blasint*);                 \
  template void laswp<T>(blasint, T*, blasint, blasint, blasint, const blasint*);     \
  template void geqrf<T>(blasint, blasint, T*, T*, std::vector<T>&);                  \
  template void orgqr<T>(blasint, blasint, blasint, T*, const T*, std::vector<T>&);   \
  template blasint syevd<T>(blasint, T*, T*, std::vector<T>&);                        \
  template blasint gesdd<T>(bool, blasint, blasint, T*, T*, T*, T*, std::vector<T>&); \
  template void trsm<T>(Triangle, blasint, blasint, const T*, T*, blasint);
HEARTH_OF_BOTH(float)
HEARTH_OF_BOTH(double)
#undef HEARTH_OF_BOTH
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace hearth::detail::lapack
