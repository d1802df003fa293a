#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Dense linear algebra in double for what is done once to a model, such as TT-SVD: never within a step.
// LAPACK and its BLAS are called in svd.cpp only, from one thread; they use as many threads as OpenMP may.
namespace comera {

// An orthonormal basis U of the left side of A = U (Uᵀ A), the directions that hold most of A first.
struct LeftBasis {
  std::int64_t count = 0;         // of directions: min(m, n)
  std::vector<double> vectors;    // U (m × count), row-major
  std::vector<double> projected;  // Uᵀ A (count × n), row-major
  std::vector<double> norms;      // of the rows of Uᵀ A: the singular values of A
};

// Of a row-major m × n matrix. Throws Error if it has a number that is not finite, or does not converge.
//
// U are the eigenvectors of A Aᵀ, by divide and conquer; a matrix that is taller than wide is first reduced
// to the triangular factor of A = Q R. That is several times quicker than an SVD and does not need V.
// Squaring costs half of the digits: directions whose singular values are below about 1e-8 σ_1 mix with one
// another. Nothing relies on them: U is orthonormal to rounding however they are mixed, so that U Uᵀ A = A,
// and since the norms are measured on Uᵀ A and are no roots of eigenvalues, the root of Σ_{i > r} norms_i² is
// how far A is from the first r directions, to rounding.
LeftBasis left_basis(std::span<const double> a, std::int64_t m, std::int64_t n);

// The first `count` left singular vectors of a row-major m × n matrix as rows (count × m), those of the
// largest singular values first: no more than min(m, n). As left_basis(), without what it projects.
std::vector<double> leading_directions(std::span<const double> a, std::int64_t m, std::int64_t n,
                                       std::int64_t count);

// The squares of the singular values of a row-major m × n matrix, the largest first: eigenvalues of A Aᵀ or
// Aᵀ A, with half of the digits, none negative. For estimates.
std::vector<double> squared_singular_values(std::span<const double> a, std::int64_t m, std::int64_t n);

// c (m × n) = op(a) b, all row-major: a is (m × k), or (k × m) with transpose_a; b is (k × n).
void multiply(std::span<const double> a, std::span<const double> b, std::span<double> c, std::int64_t m,
              std::int64_t n, std::int64_t k, bool transpose_a = false);

// Of all entries together, without overflow.
double frobenius_norm(std::span<const double> a);

}  // namespace comera
