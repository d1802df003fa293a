#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Dense linear algebra in double for one-time operations on a model, such as TT-SVD; never used within a
// step. Only svd.cpp calls LAPACK and its BLAS, from one thread; they use as many threads as OpenMP allows.
namespace comera {

// An orthonormal basis U of the left side of A = U (Uᵀ A), the most important directions first.
struct LeftBasis {
  std::int64_t count = 0;         // number of directions: min(m, n)
  std::vector<double> vectors;    // U (m × count), row-major
  std::vector<double> projected;  // Uᵀ A (count × n), row-major
  std::vector<double> norms;      // norms of the rows of Uᵀ A: the singular values of A
};

// For a row-major m × n matrix. Throws Error if an entry is not finite, or if the iteration does not
// converge.
//
// U holds the eigenvectors of A Aᵀ, computed by divide and conquer; a matrix that is taller than wide is
// first reduced to the triangular factor of A = Q R. This is several times faster than an SVD and does not
// need V. Squaring loses half of the digits: directions with singular values below about 1e-8 σ_1 mix with
// one another. This does no harm: U is orthonormal to rounding however they mix, so U Uᵀ A = A. The norms are
// measured on Uᵀ A and are not roots of eigenvalues, so the root of Σ_{i > r} norms_i² is the distance of A
// from its first r directions, to rounding.
LeftBasis left_basis(std::span<const double> a, std::int64_t m, std::int64_t n);

// The first `count` left singular vectors of a row-major m × n matrix as rows (count × m), largest singular
// values first; at most min(m, n). Computed as left_basis(), without the projection.
std::vector<double> leading_directions(std::span<const double> a, std::int64_t m, std::int64_t n,
                                       std::int64_t count);

// The squared singular values of a row-major m × n matrix, largest first: eigenvalues of A Aᵀ or Aᵀ A, with
// half of the digits, clamped to at least 0. For estimates.
std::vector<double> squared_singular_values(std::span<const double> a, std::int64_t m, std::int64_t n);

// c (m × n) = op(a) b, all row-major: a is (m × k), or (k × m) with transpose_a; b is (k × n).
void multiply(std::span<const double> a, std::span<const double> b, std::span<double> c, std::int64_t m,
              std::int64_t n, std::int64_t k, bool transpose_a = false);

// c (n × n) += aᵀ a of a row-major a (m × n), in c's entries on and below the diagonal alone.
void add_gram(std::span<const double> a, std::span<double> c, std::int64_t m, std::int64_t n);

// aᵀ (n × m) of a row-major a (m × n).
std::vector<double> transposed(std::span<const double> a, std::int64_t m, std::int64_t n);

// Norm over all entries, without overflow.
double frobenius_norm(std::span<const double> a);

}  // namespace comera
