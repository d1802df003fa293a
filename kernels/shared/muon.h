#pragma once

// The Newton-Schulz iteration with the coefficients of Muon (Jordan et al., 2024): X' = a X + b (X Xᵀ) X + c
// (X Xᵀ)² X. Starting from a matrix of Frobenius norm 1, it brings singular values above 0.002 between 0.68
// and 1.2 in five steps; smaller ones grow by almost a to the fifth. X' is a polynomial of X Xᵀ times X, so
// that only matrices as large as X's smaller side are iterated: G = X Xᵀ, and Q with X' = Q X.
namespace comera {

inline constexpr int muon_iterations = 5;
inline constexpr double muon_a = 3.4445, muon_b = -4.7750, muon_c = 2.0315;
// Norms of X below this count as 0: their inverse would not be finite in float32.
inline constexpr double muon_least_norm = 1e-30;

}  // namespace comera
