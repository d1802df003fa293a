#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "data/corpus/corpus.h"

namespace comera::data {
namespace {

struct Suffix {
  std::string_view suffix;
  std::string_view language;
};

constexpr std::array suffixes = {
    Suffix{".py", "python"},
    Suffix{".pyi", "python"},
    Suffix{".java", "java"},
    Suffix{".go", "go"},
    Suffix{".js", "javascript"},
    Suffix{".jsx", "javascript"},
    Suffix{".mjs", "javascript"},
    Suffix{".cjs", "javascript"},
    Suffix{".ts", "typescript"},
    Suffix{".tsx", "typescript"},
    Suffix{".c", "c"},
    Suffix{".h", "c"},
    Suffix{".cc", "cpp"},
    Suffix{".cpp", "cpp"},
    Suffix{".cxx", "cpp"},
    Suffix{".hh", "cpp"},
    Suffix{".hpp", "cpp"},
    Suffix{".hxx", "cpp"},
    Suffix{".ipp", "cpp"},
    Suffix{".inl", "cpp"},
    Suffix{".cu", "cuda"},
    Suffix{".cuh", "cuda"},
    Suffix{".cs", "csharp"},
    Suffix{".php", "php"},
    Suffix{".rb", "ruby"},
    Suffix{".rs", "rust"},
    Suffix{".kt", "kotlin"},
    Suffix{".scala", "scala"},
    Suffix{".swift", "swift"},
    Suffix{".lua", "lua"},
    Suffix{".pl", "perl"},
    Suffix{".pm", "perl"},
    Suffix{".r", "r"},
    Suffix{".jl", "julia"},
    Suffix{".hs", "haskell"},
    Suffix{".ml", "ocaml"},
    Suffix{".sh", "shell"},
    Suffix{".bash", "shell"},
    Suffix{".sql", "sql"},
    Suffix{".f90", "fortran"},
    Suffix{".txt", "text"},
    Suffix{".text", "text"},
    Suffix{".rst", "text"},
    Suffix{".md", "markdown"},
    Suffix{".markdown", "markdown"},
};

}  // namespace

std::string_view language_of(std::string_view suffix) {
  std::string lower(suffix);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto found =
      std::find_if(suffixes.begin(), suffixes.end(), [&](const Suffix& s) { return s.suffix == lower; });
  return found == suffixes.end() ? std::string_view() : found->language;
}

bool is_prose(std::string_view language) { return language == "text" || language == "markdown"; }

std::vector<std::string> known_languages() {
  std::set<std::string> names;
  for (const Suffix& suffix : suffixes) names.emplace(suffix.language);
  return {names.begin(), names.end()};
}

}  // namespace comera::data
