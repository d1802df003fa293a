#pragma once

// Newton and Schulz's iteration with the coefficients of Muon (Jordan et al., 2024): X' = a X + b (X Xᵀ) X +
// c (X Xᵀ)² X brings the singular values of a matrix of norm 1 between 0.7 and 1.2. Since X' is a polynomial
// of X Xᵀ times X, only matrices as large as X's smaller side are iterated: G = X Xᵀ, and Q with X' = Q X.
namespace comera {

inline constexpr int muon_iterations = 5;
inline constexpr double muon_a = 3.4445, muon_b = -4.7750, muon_c = 2.0315;

}  // namespace comera
