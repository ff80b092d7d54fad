// Coefficients of the polynomials that elementary functions use, on CPUs and on GPUs alike: those
// of f32, and of f64 where GPUs alone need them. The highest power comes first. Constants, plain
// arrays: sources that are compiled per instruction set may not share inline functions. Threads:
// any. Paper: Moshier, Cephes mathematical library (expf, logf, tanhf, sinf, atanf, atan).
#pragma once

namespace hearth::detail {

/// (e^x - 1 - x)/x^2 for |x| <= 0.35.
inline constexpr float kExpPolynomial[] = {1.9875691500e-4F,
                                           1.3981999507e-3F,
                                           8.3334519073e-3F,
                                           4.1665795894e-2F,
                                           1.6666665459e-1F,
                                           5.0000001201e-1F};

/// (ln(1 + x) - x + x^2/2)/x^3 for 1 + x from sqrt(1/2) to sqrt(2).
inline constexpr float kLogPolynomial[] = {7.0376836292e-2F,
                                           -1.1514610310e-1F,
                                           1.1676998740e-1F,
                                           -1.2420140846e-1F,
                                           1.4249322787e-1F,
                                           -1.6668057665e-1F,
                                           2.0000714765e-1F,
                                           -2.4999993993e-1F,
                                           3.3333331174e-1F};

/// (tanh(x) - x)/x^3 in x^2, for |x| < 0.625.
inline constexpr float kTanhPolynomial[] = {-5.70498872745e-3F,
                                            2.06390887954e-2F,
                                            -5.37397155531e-2F,
                                            1.33314422036e-1F,
                                            -3.33332819422e-1F};

/// (erf(x) - x)/x in x^2, for |x| < 0.93.
inline constexpr float kErfPolynomial[] = {-5.96761703e-4F,
                                           4.99119423e-3F,
                                           -2.67681349e-2F,
                                           1.12819925e-1F,
                                           -3.76125336e-1F,
                                           1.28379166e-1F};

/// (sin(x) - x)/x^3 in x^2, for |x| <= π/4.
inline constexpr float kSinePolynomial[] = {-1.9515295891e-4F, 8.3321608736e-3F, -1.6666654611e-1F};

/// (cos(x) - 1 + x^2/2)/x^4 in x^2, for |x| <= π/4.
inline constexpr float kCosinePolynomial[] = {
    2.443315711809948e-5F, -1.388731625493765e-3F, 4.166664568298827e-2F};

/// (atan(x) - x)/x^3 in x^2, for |x| <= tan(π/8).
inline constexpr float kAtanPolynomial[] = {
    8.05374449538e-2F, -1.38776856032e-1F, 1.99777106478e-1F, -3.33329491539e-1F};

/// (atan(x) - x)/x^3 in x^2, in f64 for |x| <= 0.66, as a quotient of two polynomials.
inline constexpr double kAtanDividend[] = {-8.750608600031904122785e-1,
                                           -1.615753718733365076637e1,
                                           -7.500855792314704667340e1,
                                           -1.228866684490136173410e2,
                                           -6.485021904942025371773e1};
inline constexpr double kAtanDivisor[] = {1.0,
                                          2.485846490142306297962e1,
                                          1.650270098316988542046e2,
                                          4.328810604912902668951e2,
                                          4.853903996359136964868e2,
                                          1.945506571482613964425e2};

}  // namespace hearth::detail
